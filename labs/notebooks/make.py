"""From what is written to what is committed: the two notebooks of a lesson, made or checked."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from labs.notebooks.difference import difference
from labs.notebooks.execute import CELL_SECONDS, execute
from labs.notebooks.fill import fill, read_answers
from labs.notebooks.normalise import as_text, keep_stored, normalise
from labs.notebooks.problem import NotebookProblem
from labs.notebooks.sanitise import PATTERNS_FILE, read_patterns

Progress = Callable[[str, int, NotebookNode], None]


@dataclass(frozen=True)
class Made:
    """One notebook as the tool chain makes it, beside what lies on disk (None: nothing)."""

    path: Path
    text: str
    stored: str | None

    @property
    def changed(self) -> bool:
        return self.text != self.stored

    def difference(self, root: Path, lines: int = 60) -> str:
        """A unified diff from the stored notebook to the made one, length and long lines cut."""
        name = self.path.relative_to(root).as_posix()
        names = (f"{name} (committed)", f"{name} (made now)")
        return difference(self.stored or "", self.text, names, lines)


def lesson_names(root: Path) -> list[str]:
    """Names of the lessons under `root`, such as "01_tp_linear_pair", in order."""
    return sorted(path.stem for path in (root / "notebooks").glob("*.ipynb"))


def make(
    name: str,
    root: Path,
    *,
    refresh: str | None = None,
    run: bool = True,
    pictures: bool = True,
    cell_seconds: float = CELL_SECONDS,
    patterns_file: Path = PATTERNS_FILE,
    progress: Progress | None = None,
) -> list[Made]:
    """Make both notebooks of the lesson `name`. Nothing is written.

    refresh: "measured" takes new outputs for cells tagged so, "all" for every cell.
    run: False trusts the outputs on disk and redoes only filling and normalising.
    pictures: False counts other pixels as no difference (another machine's fonts).

    Raises NotebookProblem when a file is missing or unreadable, or a cell is not as it must be.
    """
    patterns = read_patterns(patterns_file)
    lesson_path = root / "notebooks" / f"{name}.ipynb"
    solved_path = root / "solutions" / f"{name}.ipynb"
    answers_path = root / "solutions" / f"{_topic(name)}.py"
    if not lesson_path.is_file():
        known = ", ".join(lesson_names(root)) or "none"
        raise NotebookProblem(f"There is no notebook {name!r} in notebooks/. There are: {known}.")
    if not answers_path.is_file():
        raise NotebookProblem(f"{name} needs its answers in solutions/{answers_path.name}.")

    lesson_text = lesson_path.read_text(encoding="utf-8")
    stored = normalise(_read(lesson_text, lesson_path), root)
    lesson = copy.deepcopy(stored)
    answers = read_answers(
        answers_path.read_text(encoding="utf-8"), f"solutions/{answers_path.name}"
    )
    solved = fill(lesson, answers, lesson_path.name)

    made = []
    solved_text = solved_path.read_text(encoding="utf-8") if solved_path.is_file() else None
    stored_solved = _read(solved_text, solved_path) if solved_text else nbformat.v4.new_notebook()
    normalise(stored_solved, root, new_ids=False)
    for notebook, path, old, text in (
        (lesson, lesson_path, stored, lesson_text),
        (solved, solved_path, stored_solved, solved_text),
    ):
        if run:
            step = None if progress is None else _bind(progress, path.parent.name)
            execute(notebook, path, cell_seconds=cell_seconds, progress=step)
            normalise(notebook, root, new_ids=False)
            keep_stored(notebook, old, patterns, refresh, pictures=pictures)
        else:
            _take_outputs(notebook, old)
        made.append(Made(path, as_text(notebook), text))
    return made


def write(made: Made) -> None:
    """Write one made notebook to its place, in UTF-8 with plain newlines on every system."""
    made.path.write_text(made.text, encoding="utf-8", newline="\n")


def _read(text: str, path: Path) -> NotebookNode:
    try:
        return nbformat.reads(text, as_version=4)
    except Exception as error:
        raise NotebookProblem(f"{path.name} is not a notebook that can be read: {error}") from error


def _topic(name: str) -> str:
    """The topic of a notebook's name: "01_tp_linear_pair" -> "tp_linear_pair"."""
    number, _, topic = name.partition("_")
    if not number.isdigit() or not topic:
        raise NotebookProblem(
            f"A notebook is named NN_topic, such as 01_tp_linear_pair; not {name!r}."
        )
    return topic


def _take_outputs(notebook: NotebookNode, stored: NotebookNode) -> None:
    """Give each code cell the outputs and the count that its equal has on disk."""
    before = {(cell.id, cell.source): cell for cell in stored.cells if cell.cell_type == "code"}
    for cell in notebook.cells:
        old = before.get((cell.id, cell.source))
        if old is not None:
            cell.outputs, cell.execution_count = old.outputs, old.execution_count


def _bind(progress: Progress, folder: str) -> Callable[[int, NotebookNode], None]:
    return lambda index, cell: progress(folder, index, cell)
