"""A learner's definitions, read from a notebook or a Python file as text. Nothing is executed here.

    answers = cells.read("notebooks/01_tp_linear_pair.ipynb")
    answers.source("row_parallel")      # a labs.ranks.Source for the ranks, or None
    answers.notes, answers.problems     # what a reader should know, what could not be read

A function is sent with what it needs and nothing else: the definitions, imports and constants whose
names it uses, from whatever cell. The rest of each cell is blanked out, line by line, so that a
traceback on a rank still shows the learner's own line numbers.
"""

from __future__ import annotations

import ast
import functools
import json
import symtable
from dataclasses import dataclass, field
from pathlib import Path

from labs.cell_text import parse, python
from labs.ranks.ship import Cell, Source, defines
from labs.ranks.unpack import is_constant


@dataclass(frozen=True)
class Text:
    """One cell as the learner knows it, and its syntax tree."""

    label: str
    text: str
    tree: ast.Module

    @functools.cached_property
    def bound(self) -> list[tuple[ast.stmt, set[str]]]:
        """Each top-level statement and the names that it binds."""
        return [(node, binds(node)) for node in self.tree.body]


@dataclass
class Definitions:
    """What a file defines. `problems`: cells that could not be read, one sentence each.

    unread: those cells, (label, text).
    """

    file: str
    cells: list[Text] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)

    def source(self, name: str) -> Source | None:
        """The last function of that name, with what it needs. None: there is none.

        A note is made of every earlier definition that does not count, and of what the function
        uses but a rank does not get.
        """
        found = [cell.label for cell in self.cells for _ in functions_named(cell.tree, name)]
        if not found:
            return None
        if len(set(found)) > 1:
            places = _words(list(dict.fromkeys(found)))
            self._note(f"{name} is defined in {places}; the last one, {found[-1]}, counts")
        elif len(found) > 1:
            self._note(f"{name} is defined {len(found)} times in {found[0]}; the last one counts")
        kept: dict[int, list[ast.stmt]] = {}
        bound = self._all_bindings()
        todo, taken = _last_bindings(bound[name], name), set()
        names = {id(node): name for _, node in todo}
        while todo:
            index, node = todo.pop()
            if id(node) in taken:
                continue
            taken.add(id(node))
            kept.setdefault(index, []).append(node)
            if not _is_sent(node):
                self._note(
                    f"{names[id(node)]}, which {name} uses, is made in {self.cells[index].label} "
                    "by a statement that is not sent to the ranks: definitions, imports and "
                    "constants are"
                )
            for used in sorted(_names_used(node, self.cells[index].text)):
                needed = _needed(bound.get(used, []), used, (index, node))
                for _, one in needed:
                    names.setdefault(id(one), used)
                todo += needed
        return Source(
            name,
            [Cell(self.cells[i].label, _only(self.cells[i], kept[i])) for i in sorted(kept)],
        )

    def functions(self) -> list[str]:
        """The functions defined at the top of the cells, in their order, each once."""
        found = [n.name for c in self.cells for n in c.tree.body if isinstance(n, ast.FunctionDef)]
        return list(dict.fromkeys(found))

    def _all_bindings(self) -> dict[str, list[tuple[int, ast.stmt]]]:
        """For each name the (cell, statement) pairs that bind it, in their order."""
        found: dict[str, list[tuple[int, ast.stmt]]] = {}
        for index, cell in enumerate(self.cells):
            for node, names in cell.bound:
                for name in names:
                    found.setdefault(name, []).append((index, node))
        return found

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def read(path: str | Path) -> Definitions:
    """Read a .ipynb or .py file. Raises ValueError, in a sentence, when it cannot be read."""
    path = Path(path)
    if path.suffix not in (".ipynb", ".py"):
        raise ValueError(_neither(path.name))
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"there is no file {path.name} there") from None
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    return read_bytes(path.name, content)


def read_bytes(name: str, content: bytes) -> Definitions:
    """The definitions in a file's content; its name tells a notebook from a Python file.

    Raises ValueError, in a sentence, when it cannot be read.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not saved as UTF-8; save it anew as UTF-8") from None
    if name.endswith(".py"):
        return read_cells(name, [(name, text)])
    if name.endswith(".ipynb"):
        return read_cells(name, code_cells(all_cells(name, text)))
    raise ValueError(_neither(name))


def read_cells(name: str, texts: list[tuple[str, str]]) -> Definitions:
    """The definitions in (label, text) pairs of a file. A cell that cannot be read is a problem."""
    found = Definitions(name)
    for label, source in texts:
        # For Python each of these ends a line: line numbers must be those of `split("\n")`.
        source = source.replace("\r\n", "\n").replace("\r", "\n")
        try:
            text = python(source)
            found.cells.append(Text(label, text, parse(text)))
        except (MemoryError, RecursionError):  # the parser's words for it
            found.unread.append((label, source))
            found.problems.append(f"{label}: nested too deeply to be read")
        except (SyntaxError, ValueError) as error:
            found.unread.append((label, source))
            line = getattr(error, "lineno", None)
            where = f"{label}, line {line}" if line else label
            shown = (getattr(error, "text", None) or "").strip()[:80]
            reason = getattr(error, "msg", None) or error
            found.problems.append(f"{where}: {reason}" + (f": {shown}" if shown else ""))
    return found


def _neither(name: str) -> str:
    return f"{name} is neither a notebook (.ipynb) nor a Python file (.py)"


def code_cells(every: list[tuple[str, dict, str]]) -> list[tuple[str, str]]:
    """(label, source) of each code cell. A cell that was run is called as it shows: cell [5]."""
    code = [(cell, source) for kind, cell, source in every if kind == "code"]
    return [(_label(cell, place), source) for place, (cell, source) in enumerate(code, 1)]


def all_cells(name: str, text: str) -> list[tuple[str, dict, str]]:
    """(type, cell, source) of each cell of a notebook. Raises ValueError when there are none."""
    try:
        cells = json.loads(text)["cells"]
        kinds = [cell.get("cell_type") for cell in cells]
        sources = [cell.get("source", "") for cell in cells]
        joined = ["".join(s) if isinstance(s, list) else s + "" for s in sources]
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{name} is not a whole notebook: line {error.lineno}: {error.msg}"
        ) from None
    except (MemoryError, RecursionError):
        raise ValueError(f"{name} is not a notebook: it is nested too deeply") from None
    except (AttributeError, KeyError, TypeError):
        raise ValueError(
            f"{name} has no cells of notebook format 4; open it in JupyterLab and save it"
        ) from None
    except ValueError:  # Python reads no whole number of more than 4300 digits
        raise ValueError(f"{name} is not a notebook: a number in it is too long") from None
    return list(zip(kinds, cells, joined, strict=True))


def _label(cell: dict, place: int) -> str:
    count = cell.get("execution_count")
    return f"cell [{count}]" if isinstance(count, int) and count > 0 else f"code cell {place}"


def binds(node: ast.stmt) -> set[str]:
    """Names that a top-level statement binds in the notebook, also inside an `if`."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return defines(node)
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name.split(".")[0] for alias in inner.names}
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.ClassDef)):
            found.add(inner.name)
    return found


def _is_sent(node: ast.stmt) -> bool:
    """Whether a rank executes the statement (see `Source`)."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return is_constant(node.value)
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef))


def _needed(
    found: list[tuple[int, ast.stmt]], name: str, by: tuple[int, ast.stmt]
) -> list[tuple[int, ast.stmt]]:
    """The binding that counts in the end, and what stood before the statement `by`.

    A class's base, a decorator or a default is looked up when the statement is executed.
    """
    place = by[0], by[1].lineno
    before = [one for one in found if (one[0], one[1].lineno) < place and _is_sent(one[1])]
    return [*_last_bindings(found, name), *_last_bindings(before, name)]


def _hands_on(node: ast.stmt, name: str) -> bool:
    """`f = or_answer(f)`: not sent, and made from the definition before it, which is."""
    return isinstance(node, ast.Assign) and not _is_sent(node) and name in _names_used(node)


def _last_bindings(found: list[tuple[int, ast.stmt]], name: str) -> list[tuple[int, ast.stmt]]:
    """Those that count: the last; of imports all, since `import a.b` adds to `a`."""
    found = list(found)
    while len(found) > 1 and _hands_on(found[-1][1], name):
        found.pop()
    if found and isinstance(found[-1][1], ast.Import):
        return [(index, node) for index, node in found if isinstance(node, ast.Import)]
    return found[-1:]


def _names_used(node: ast.stmt, text: str = "") -> set[str]:
    """Names that a statement, or code inside it, looks up outside itself. Not its local ones.

    text: the cell, for a statement that Python parses but cannot write down again.
    """
    found: set[str] = set()
    try:
        written = ast.unparse(node)
    except (ValueError, RecursionError):  # an f-string with a backslash, a number of 10000 digits
        written = ast.get_source_segment(text, node) or ""
    try:
        todo = [symtable.symtable(written, "cell", "exec")]
    except (
        SyntaxError
    ):  # a tree, but no program, such as `global x` after `x = 1`: the rank says so
        return found
    while todo:
        table = todo.pop()
        outermost = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() if outermost else symbol.is_global():
                found.add(symbol.get_name())
        todo += table.get_children()
    return found


def functions_named(tree: ast.Module, name: str) -> list[ast.FunctionDef]:
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name]


def _only(cell: Text, nodes: list[ast.stmt]) -> str:
    """The cell's text with every line blank that belongs to none of these statements."""
    kept: set[int] = set()
    wanted = set(map(id, nodes))
    for node in cell.tree.body:
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if id(node) in wanted or future:
            decorators = [d.lineno for d in getattr(node, "decorator_list", [])]
            kept.update(range(min([node.lineno, *decorators]), node.end_lineno + 1))
    lines = cell.text.split("\n")
    return "\n".join(line if number in kept else "" for number, line in enumerate(lines, 1))


def _words(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]
