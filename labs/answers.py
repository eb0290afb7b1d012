"""The one place where labs meet the answers: `reference("tp_linear_pair.row_parallel")`.

The learner's own function is preferred when it is passed and attempted. Where neither it nor the
folder `solutions/` is there (a release without answers), `Missing` says what is missing. Labs then
hand back a result that says so, and a notebook goes on (labs/unanswered.py).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Mapping

from labs import topics, unanswered
from labs.ranks.ship import Source
from labs.unanswered import Missing


def reference(name: str, mine: Callable | Source | None = None) -> Callable | Source:
    """`mine` when it is attempted, else the course's answer.

    name: "topic.function". Raises Missing, in a sentence, when there is neither.
    """
    topic, _, function = name.partition(".")
    if mine is not None and attempted(mine):
        return mine
    try:
        return getattr(importlib.import_module(f"solutions.{topic}"), function)
    except ModuleNotFoundError as error:
        if error.name not in ("solutions", f"solutions.{topic}"):
            raise
        unanswered.watch()
        raise _missing({function: topic}) from None
    except AttributeError:
        raise Missing(f"the course has no answer named {function} in {topic}") from None


def references(
    of: Mapping[str, str], mine: Mapping[str, Callable | Source] | None = None
) -> dict[str, Callable | Source]:
    """`reference` of several: {name: topic} to {name: function}. Missing names all that are."""
    found: dict[str, Callable | Source] = {}
    missing: list[Missing] = []
    for name, topic in of.items():
        try:
            found[name] = reference(f"{topic}.{name}", (mine or {}).get(name))
        except Missing as one:
            missing.append(one)
    lacking = {name: of[name] for one in missing for name in one.exercises}
    if len(lacking) > 1:
        raise _missing(lacking)
    if missing:
        raise missing[0]
    return found


def _missing(of: Mapping[str, str]) -> Missing:
    """Of exercises {name: topic} that nobody has answered."""
    one = len(of) == 1
    lessons = [topics.find(topic).lesson for topic in dict.fromkeys(of.values())]
    return Missing(
        f"{unanswered.words(of)} {'is' if one else 'are'} not attempted yet and this copy of the "
        f"course has no answers: write {'it' if one else 'them'} first, or pass your own "
        f"({unanswered.words(lessons)} {'asks' if len(lessons) == 1 else 'ask'} for "
        f"{'it' if one else 'them'})",
        of,
    )


def attempted(function: Callable | Source) -> bool:
    """Whether a function does something: its body is more than a docstring and a placeholder."""
    found = definition(function)
    return found is None or not is_stub(found)


def definition(function: Callable | Source) -> ast.FunctionDef | None:
    """The text of a function as a syntax tree; None where it cannot be read."""
    tree = _tree(function)
    if tree is None:
        return None
    name = function.__name__
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    return found[-1] if found else None


def stubs_used(function: Callable | Source, names: Iterable[str]) -> list[str]:
    """Which of these functions a function calls although they are not attempted yet."""
    if isinstance(function, Source):
        defined = [n for n in ast.walk(_tree(function)) if isinstance(n, ast.FunctionDef)]
        stubs = {n.name for n in defined if is_stub(n)}
    else:
        stubs = {name for name, thing in _called(function, names).items() if not attempted(thing)}
    return [name for name in names if name in stubs]


def own_used(function: Callable | Source, names: Iterable[str]) -> list[str]:
    """Which of these functions a function of this process calls that are not the course's."""
    return [name for name, thing in _called(function, names).items() if is_own(thing)]


def is_own(function: Callable) -> bool:
    """Whether a function is the learner's, not an answer of the course."""
    return not (getattr(function, "__module__", None) or "").startswith("solutions.")


def _called(function: Callable | Source, names: Iterable[str]) -> dict[str, Callable]:
    scope = getattr(function, "__globals__", {})
    used = getattr(getattr(function, "__code__", None), "co_names", ())
    return {name: scope[name] for name in names if name in used and name in scope}


def is_stub(node: ast.FunctionDef) -> bool:
    """A body of nothing but a docstring, `...`, `pass` or `raise NotImplementedError`."""
    return all(
        isinstance(line, ast.Pass)
        or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
        or (isinstance(line, ast.Raise) and "NotImplementedError" in ast.unparse(line))
        for line in node.body
    )


def _tree(function: Callable | Source) -> ast.Module | None:
    if isinstance(function, Source):
        return ast.parse("\n".join(cell.text for cell in function.cells))
    try:
        lines = linecache.getlines(function.__code__.co_filename)
        text = "".join(lines) if lines else textwrap.dedent(inspect.getsource(function))
        return ast.parse(text)
    except (AttributeError, OSError, TypeError, SyntaxError):
        return None
