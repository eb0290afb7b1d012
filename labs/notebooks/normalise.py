"""Bring an executed notebook into the one form that is committed, and keep what did not change.

Executing twice must give the same bytes. So everything that names a run is dropped (timings, widget
state, kernel versions, picture metadata), ids are derived from the source, and where a new output
says the same as the stored one once both are sanitised, the stored bytes stay.
"""

import hashlib
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from labs.notebooks.fill import exercise_stub, is_exercise
from labs.notebooks.outputs import comparable, normal_outputs
from labs.notebooks.sanitise import Patterns

_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}
_CELL_METADATA = {"tags"}


def normalise(notebook: NotebookNode, root: Path, *, new_ids: bool = True) -> NotebookNode:
    """`notebook` without anything that names a run or a machine. Changes and returns it.

    root: the checkout, whose place is cut out of tracebacks.
    new_ids: derive each cell's id from its source; False for a solved notebook, whose cells keep
    the ids of the lesson they were filled from.

    Raises NotebookProblem when an exercise cell is malformed.
    """
    notebook.metadata = nbformat.from_dict(_METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for index, cell in enumerate(notebook.cells):
        cell.source = "\n".join(line.rstrip() for line in cell.source.strip("\n").split("\n"))
        cell.metadata = NotebookNode(
            {k: v for k, v in cell.metadata.items() if k in _CELL_METADATA}
        )
        if cell.cell_type == "code":
            cell.outputs = normal_outputs(cell.outputs)
            for output in cell.outputs:
                if output.output_type == "error":
                    output.traceback = [_without_places(line, root) for line in output.traceback]
        if new_ids:
            name = _identity(cell, index)
            seen[name] = seen.get(name, 0) + 1
            cell.id = name if seen[name] == 1 else f"{name}-{seen[name]}"
        if is_exercise(cell):
            cell.metadata = NotebookNode({"nbgrader": _nbgrader(cell), **cell.metadata})
    return notebook


def keep_stored(
    notebook: NotebookNode,
    stored: NotebookNode,
    patterns: Patterns,
    refresh: str | None = None,
    *,
    pictures: bool = True,
) -> None:
    """Give each cell of `notebook` its stored outputs where they still hold. Changes `notebook`.

    A cell tagged `measured` keeps them unless refresh is "measured" or "all"; any other cell keeps
    them when nothing but sanitised text differs, unless refresh is "all". A cell whose source has
    changed is another cell. pictures=False: other pixels are no difference.
    """
    before: dict[tuple[str, str], NotebookNode] = {
        (cell.id, cell.source): cell for cell in stored.cells if cell.cell_type == "code"
    }
    for cell in notebook.cells:
        old = before.get((cell.id, cell.source))
        if old is None or refresh == "all":
            continue
        measured = "measured" in cell.metadata.get("tags", [])
        if measured:
            keep = bool(old.outputs) and refresh != "measured"
        else:
            keep = comparable(cell.outputs, patterns, pictures=pictures) == comparable(
                old.outputs, patterns, pictures=pictures
            )
        if keep:
            cell.outputs = old.outputs


def as_text(notebook: NotebookNode) -> str:
    """The notebook as it is written to disk: nbformat's own writer, one newline at the end."""
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def _nbgrader(cell: NotebookNode) -> NotebookNode:
    """What nbgrader knows an exercise by: a cell for an answer, not graded by a test beside it."""
    return NotebookNode(
        grade=False,
        grade_id=cell.id.removeprefix("exercise-"),
        locked=False,
        schema_version=3,
        solution=True,
        task=False,
    )


def _identity(cell: NotebookNode, index: int) -> str:
    """An id that depends on the cell alone, so that it is the same each time."""
    if is_exercise(cell):
        return f"exercise-{exercise_stub(cell.source, f'cell {index}').name}"
    return hashlib.sha1(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:10]


def _without_places(text: str, root: Path) -> str:
    """A traceback line without the checkout's, the interpreter's and the user's folders."""
    for place, shown in ((root, ""), (Path(sys.prefix), "python/"), (Path.home(), "~/")):
        text = text.replace(f"{place}/", shown)
    for place, shown in ((root, ""), (Path(sys.prefix), "python/")):
        if place.is_relative_to(Path.home()):  # IPython writes ~ for the home folder
            text = text.replace(f"~/{place.relative_to(Path.home())}/", shown)
    return text
