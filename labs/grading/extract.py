"""From what a student handed in to the answers in it: text in, plain data out, nothing executed.

    told = read(content, ".ipynb", ["row_parallel", "column_parallel"])
    told["exercises"]["row_parallel"]     # {"cells": [[label, text], ...], "notes", "stub"} or None
    told["missing"]["column_parallel"]    # why it is None, in a sentence
    source_of(told, "row_parallel")       # a labs.ranks.Source for the ranks

An exercise is found by its function's name, whatever happened to cells, their order, tags and
metadata. `read` is a function from bytes to lists, strings and numbers, to be called in a process
of its own: Python's parser is made for programs, not for attacks. What a file may hold is bounded
before it is parsed; what comes back is bounded too.
"""

from __future__ import annotations

import ast
import difflib
import re
import warnings

from labs import cells
from labs.answers import is_stub
from labs.grading import borrowed
from labs.ranks.ship import Cell, Source

MOST_BYTES = 5_000_000  # of a file; a solved notebook of the course with its pictures has 0.6 MB
MOST_CELLS = 1_000
MOST_CODE = 1_000_000  # characters of all code cells together
MOST_LINES = 20_000
_DEEPEST = 100  # brackets in each other in a notebook's JSON; notebook format 4 needs 10
_NOTEBOOK = re.compile(r'\s*\{\s*"(?:cells|metadata|nbformat|nbformat_minor|worksheets)"\s*:')
ONLY_THE_STUB = "the stub was found, and no answer that can be graded"
"""How the note of an answer begins that was perhaps meant to be elsewhere."""
_LONGEST = 300  # characters of a problem or note
_MOST_TOLD = 50  # problems, notes of an exercise, names of functions


def read(content: bytes, suffix: str, names: list[str]) -> dict:
    """The answers to the exercises `names` in a file's content. Never raises for what is in it.

    suffix: ".ipynb" or ".py". Returns a dict of plain data:

        exercises  {name: {"cells": [[label, text], ...], "notes": [...], "stub": bool} or None}
        missing    {name: a sentence} for each exercise that is None
        problems   sentences: what could not be read; other answers still can be
        functions  names of the functions at the top of the cells
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a string is the student's own affair
            told = _read(content, suffix, names)
    except _TooMuch as refused:
        told = _nothing(names, str(refused))
    except (ValueError, RecursionError, MemoryError) as error:
        told = _nothing(names, _one_line(error) or "it is nested too deeply to be read")
    return _plain(told)


def source_of(told: dict, name: str) -> Source:
    """The answer `name` of what `read` returned, as the ranks take it.

    Raises KeyError where there is none.
    """
    entry = told["exercises"][name]
    if entry is None:
        raise KeyError(name)
    return Source(name, [Cell(label, text) for label, text in entry["cells"]])


class _TooMuch(ValueError):
    """More than a notebook of the course can hold."""


def _read(content: bytes, suffix: str, names: list[str]) -> dict:
    if len(content) > MOST_BYTES:
        raise _TooMuch(f"it has {len(content):,} bytes; at most {MOST_BYTES:,} are read")
    if not content.strip():
        raise _TooMuch("it is empty")
    file = "the notebook" if suffix == ".ipynb" else "the file"
    aside: list[tuple[str, str]] = []
    if suffix == ".py":
        try:
            texts = [(file, content.decode("utf-8-sig"))]
        except UnicodeDecodeError:
            raise ValueError(f"{file} is not saved as UTF-8; save it anew as UTF-8") from None
        if _NOTEBOOK.match(texts[0][1]):
            texts, aside = _notebook("the notebook", content)  # whatever it is called
    elif suffix == ".ipynb":
        texts, aside = _notebook(file, content)
    else:
        raise ValueError(f"{suffix or 'a file without ending'} is neither .ipynb nor .py")
    _refuse_much(texts)
    found = cells.read_cells(file, texts)
    told: dict = dict(exercises={}, missing={}, problems=found.problems, functions=[])
    told["functions"] = found.functions()
    before = found.cells
    for name in names:
        found.cells, found.notes = before, []
        found.cells, stub_note = _without_late_stubs(before, name)
        entry = _entry(found, name)
        told["exercises"][name] = entry
        if entry is None:
            told["missing"][name] = f"answer not found: {_why(found, name, names, aside)}"
        elif entry["stub"] and (meant := _meant(found, name, aside)):
            entry["notes"] = [f"{ONLY_THE_STUB}: {meant}"]
        else:
            entry["notes"] += stub_note
    return told


def _entry(found: cells.Definitions, name: str) -> dict | None:
    try:
        source = found.source(name)
    except (RecursionError, MemoryError):
        found.problems.append(f"{name} is nested too deeply to be read")
        return None
    if source is None:
        return None
    last = [node for cell in found.cells for node in cells.functions_named(cell.tree, name)][-1]
    stub = is_stub(last)
    texts = [] if stub else [cell.text for cell in source.cells]
    to_look_at = [borrowed.NOTE] * borrowed.uses(texts) + [borrowed.LOOKS] * borrowed.looks(texts)
    return dict(
        cells=[[cell.label, cell.text] for cell in source.cells],
        notes=[*to_look_at, *found.notes],
        stub=stub,
    )


def _without_late_stubs(found: list, name: str) -> tuple[list, list[str]]:
    """The cells without stubs of `name` that follow an answer: a copy of one takes none away."""
    at = [
        (i, node) for i, cell in enumerate(found) for node in cells.functions_named(cell.tree, name)
    ]
    answers = [place for place, (_, node) in enumerate(at) if not is_stub(node)]
    late = at[answers[-1] + 1 :] if answers else []
    if not late:
        return found, []
    drop = {id(node) for _, node in late}
    kept = [
        cells.Text(c.label, c.text, ast.Module([n for n in c.tree.body if id(n) not in drop], []))
        if any(id(n) in drop for n in c.tree.body)
        else c
        for c in found
    ]
    counts, stub = found[at[answers[-1]][0]].label, found[late[-1][0]].label
    return kept, [f"{name} is the stub still in {stub}; the answer before it, in {counts}, counts"]


def _notebook(file: str, content: bytes) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(label, text) of the code cells, and of the cells of another type."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not saved as UTF-8; save it anew as UTF-8") from None
    if _depth(text) > _DEEPEST:
        raise _TooMuch(f"{file} is nested more than {_DEEPEST} deep; no notebook is")
    every = cells.all_cells(file, text)
    if len(every) > MOST_CELLS:
        raise _TooMuch(f"it has {len(every):,} cells; at most {MOST_CELLS:,} are read")
    aside = [
        (f"{kind if kind in ('markdown', 'raw') else 'other'} cell {place}", source)
        for place, (kind, _, source) in enumerate(every, 1)
        if kind != "code"
    ]
    return cells.code_cells(every), aside


def _depth(text: str) -> int:
    """How deep the brackets of JSON stand in each other, whatever is in its strings."""
    deep = deepest = 0
    for mark in re.findall(r'"(?:[^"\\]|\\.)*+"?|[][{}]', text, re.DOTALL):
        if mark in "[{":
            deep += 1
            deepest = max(deepest, deep)
        elif mark in "]}":
            deep -= 1
    return deepest


def _refuse_much(texts: list[tuple[str, str]]) -> None:
    size = sum(len(text) for _, text in texts)
    if size > MOST_CODE:
        raise _TooMuch(f"it has {size:,} characters of code; at most {MOST_CODE:,} are read")
    lines = sum(text.count("\n") + text.count("\r") + 1 for _, text in texts)
    if lines > MOST_LINES:
        raise _TooMuch(f"it has {lines:,} lines of code; at most {MOST_LINES:,} are read")


def _why(
    found: cells.Definitions, name: str, names: list[str], aside: list[tuple[str, str]]
) -> str:
    """Why there is no answer of that name."""
    if meant := _meant(found, name, aside):
        return meant
    defined = found.functions()
    missing = [other for other in names if other not in defined]
    for near in difflib.get_close_matches(name, [f for f in defined if f not in names]):
        if difflib.get_close_matches(near, missing, n=1) == [name]:
            return f"{found.file} defines {near}; did you mean {name}?"
    return f"{found.file} defines no function {name}"


def _meant(found: cells.Definitions, name: str, aside: list[tuple[str, str]]) -> str | None:
    """Where the answer was perhaps meant to be, besides a `def` at the top of a cell."""
    header = re.compile(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(name)}[ \t]*\(", re.MULTILINE)
    for label, text in aside:
        if header.search(text):
            return f"def {name} stands in {label}, which is not a code cell; make it one"
    for cell in found.cells:
        if (told := _other_binding(cell.tree, name)) is not None:
            return f"in {cell.label} {name} is {told}; define it with def at the top of a cell"
    if found.problems and (label := _unparsed(found, header)):
        return f"def {name} stands in {label}, which cannot be read as Python"
    return None


def _other_binding(tree: ast.Module, name: str) -> str | None:
    """How a cell binds a name otherwise than by `def` at its top."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) or _wraps(node, name):
            continue  # a stub, another function; or the lesson's own f = or_answer(f)
        if isinstance(node, ast.AsyncFunctionDef) and node.name == name:
            return "an async function"
        if isinstance(node, ast.ClassDef) and node.name == name:
            return "a class"
        if name in cells.binds(node):
            inner = any(isinstance(n, ast.FunctionDef) and n.name == name for n in ast.walk(node))
            imported = isinstance(node, (ast.Import, ast.ImportFrom))
            return "defined inside something else" if inner else (
                "imported" if imported else "assigned to"
            )  # fmt: skip
    return None


def _wraps(node: ast.stmt, name: str) -> bool:
    """Whether a statement binds a name to something made of it."""
    value = getattr(node, "value", None) if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
    inner = ast.walk(value) if value is not None else ()
    return any(isinstance(one, ast.Name) and one.id == name for one in inner)


def _unparsed(found: cells.Definitions, header: re.Pattern) -> str | None:
    return next((label for label, text in found.unread if header.search(text)), None)


def _nothing(names: list[str], problem: str) -> dict:
    missing = {name: "answer not found: the file could not be read" for name in names}
    return dict(exercises=dict.fromkeys(names), missing=missing, problems=[problem], functions=[])


def _plain(told: dict) -> dict:
    """The same with every text short and fit to be written as UTF-8, and few of them."""
    told["problems"] = _few(told["problems"])
    told["functions"] = [_short(name) for name in told["functions"][:MOST_CELLS]]
    told["missing"] = {name: _short(text) for name, text in told["missing"].items()}
    for entry in filter(None, told["exercises"].values()):
        entry["notes"] = _few(entry["notes"])
    return told


def _few(texts: list[str]) -> list[str]:
    more = [f"and {len(texts) - _MOST_TOLD:,} more"] if len(texts) > _MOST_TOLD else []
    return [_short(text) for text in texts[:_MOST_TOLD]] + more


def _short(text: str) -> str:
    text = text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
