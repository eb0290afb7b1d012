"""Where an answer is missing, a notebook says which, and goes on to its end.

A release has no answers. A lab that needs one hands back a result without checks, whose note says
what is missing (`told`); `or_answer` hands the stub back; other code raises `Missing`. In a
notebook a cell that fails because of that shows a sentence in place of a traceback, and counts as
run, so that "Run all cells" goes on. The names that such a cell would have made are remembered: a
later cell that fails while it uses them says the same. Every other error is shown as it always is.

Nothing of this happens before the first answer is missing: `watch` is called where one is.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labs.result import Result

_LONGEST = 160  # characters of an error that is shown besides


class Missing(LookupError):
    """Neither the learner's own function nor the answer is there. exercises: their names."""

    def __init__(self, text: str, exercises: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.exercises = tuple(exercises)


def told(result: Result, missing: Missing) -> Result:
    """The result of a lab that did not run, with the sentence that says why."""
    result.notes.append(str(missing))
    lacks(missing)
    return result


def lacks(missing: Missing, said: bool = False) -> None:
    """What runs now goes on without these answers: what it makes is not whole.

    said: the reader has been told.
    """
    if (notebook := watch()) is not None:
        for name in missing.exercises or (str(missing),):
            notebook.here[name] = said and notebook.here.get(name, True)


def watch() -> Notebook | None:
    """The notebook that this process is the kernel of, watched from now on; None in others."""
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    if _notebook and _notebook[0].shell is shell:
        return _notebook[0]
    _notebook[:] = [Notebook(shell)]
    return _notebook[0]


class Notebook:
    """What the cells of one kernel lack. Registers itself with the kernel."""

    def __init__(self, shell: object) -> None:
        self.shell = shell
        # Exercises that the running cell goes on without, and whether the reader was told.
        self.here: dict[str, bool] = {}
        self.lacking: dict[str, tuple[str, ...]] = {}  # a name of the notebook -> exercises
        self.spared = False  # whether the running cell's error was told as a sentence
        shell.set_custom_exc((Exception,), self._on_error)
        shell.events.register("post_run_cell", self._after)

    def _on_error(
        self, shell: object, kind: type, error: Exception, trace: TracebackType | None,
        tb_offset: int | None = None,
    ) -> None:  # fmt: skip
        """Instead of a traceback a sentence, where an answer is missing; else the traceback."""
        needed = dict(self.here)
        if isinstance(error, Missing):
            needed.update(dict.fromkeys(error.exercises, True))
        elif not needed:
            for name in _names(_text(trace, shell.user_ns)):
                needed.update(dict.fromkeys(self.lacking.get(name, ()), True))
        if not needed and not isinstance(error, Missing):
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
            return
        self.spared = True
        self.here.update(needed)
        if isinstance(error, Missing):
            print(f"This cell was left out: {error}.")
        else:
            shown = " ".join(f"{kind.__name__}: {error}".split())
            shown = shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
            print(f"The rest of this cell was left out: it needs {_few(needed)} ({shown}).")

    def _after(self, result: object) -> None:
        """After each cell: remember what its names lack, and let the notebook go on."""
        if result is None:  # interrupted before it began
            return
        silent = [name for name, said in self.here.items() if not said]
        if self.spared:
            result.error_in_exec = None
        elif silent:
            print(f"Nothing was run for this cell: it needs {_few(silent)}.")
        for name in _bound(result.info.raw_cell or ""):
            if self.here:
                self.lacking[name] = tuple(self.here)
            elif result.success:
                self.lacking.pop(name, None)
        self.here, self.spared = {}, False


_notebook: list[Notebook] = []


def words(names: Iterable[str]) -> str:
    """ "a", "a and b", "a, b and c" """
    names = list(names)
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _few(names: Iterable[str], most: int = 4) -> str:
    """`words`, shortened where they are many."""
    names = list(names)
    more = [f"{len(names) - most + 1} more"] if len(names) > most else []
    return words([*names[: most - 1], *more] if more else names)


def _text(trace: TracebackType | None, scope: dict) -> str:
    """The text of the cell in which an error arose."""
    while trace is not None:
        if trace.tb_frame.f_globals is scope:
            return "".join(linecache.getlines(trace.tb_frame.f_code.co_filename))
        trace = trace.tb_next
    return ""


def _names(text: str) -> list[str]:
    """Names that a cell uses, in their order; none of one that Python alone cannot parse."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return []
    return [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]


def _bound(text: str) -> set[str]:
    """Names that a cell binds at its top, also inside `for`, `if`, `with` and `try`."""
    from labs.cells import binds

    try:
        return set().union(*(binds(node) for node in ast.parse(text).body))
    except SyntaxError:
        return set()
