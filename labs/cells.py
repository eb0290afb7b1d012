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
import json
import symtable
from dataclasses import dataclass, field
from pathlib import Path

from labs.ranks.ship import Cell, Source, defines
from labs.ranks.unpack import is_constant

_DEEPEST = 200  # levels of a syntax tree; ast.unparse gives up at some 300
# Cell magics whose body is Python; every other one (%%bash, %%html, ...) takes the whole cell.
_PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun", "%%python3")


@dataclass(frozen=True)
class _Text:
    """One cell as the learner knows it, and its syntax tree."""

    label: str
    text: str
    tree: ast.Module


@dataclass
class Definitions:
    """What a file defines. `problems`: cells that could not be read, one sentence each."""

    file: str
    cells: list[_Text] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def source(self, name: str) -> Source | None:
        """The last function of that name, with what it needs. None: there is none.

        A note is made of every earlier definition that does not count, and of what the function
        uses but a rank does not get.
        """
        at = [i for i, cell in enumerate(self.cells) if _function(cell.tree, name)]
        if not at:
            return None
        found = [self.cells[i].label for i in at]
        if len(found) > 1:
            self._note(f"{name} is defined in {_words(found)}; the last one, {found[-1]}, counts")
        kept: dict[int, list[ast.stmt]] = {}
        todo = [name]
        while todo:
            asked = todo.pop()
            for index, node in self._bindings(asked):
                if node not in kept.setdefault(index, []):
                    kept[index].append(node)
                    todo += sorted(_names_used(node))
                    if not _is_sent(node):
                        self._note(
                            f"{asked}, which {name} uses, is made in {self.cells[index].label} by "
                            "a statement that is not sent to the ranks: definitions, imports and "
                            "constants are"
                        )
        return Source(
            name,
            [Cell(self.cells[i].label, _only(self.cells[i], kept[i])) for i in sorted(kept)],
        )

    def functions(self) -> list[str]:
        """The functions defined at the top of the cells, in their order, each once."""
        found = [n.name for c in self.cells for n in c.tree.body if isinstance(n, ast.FunctionDef)]
        return list(dict.fromkeys(found))

    def _bindings(self, name: str) -> list[tuple[int, ast.stmt]]:
        """(cell, statement) that binds a name last; of imports all: `import a.b` adds to `a`."""
        found = [
            (index, node)
            for index, cell in enumerate(self.cells)
            for node in cell.tree.body
            if name in _binds(node)
        ]
        while len(found) > 1 and _hands_on(found[-1][1], name):
            found.pop()
        if found and isinstance(found[-1][1], ast.Import):
            return [(index, node) for index, node in found if isinstance(node, ast.Import)]
        return found[-1:]

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def read(path: str | Path) -> Definitions:
    """Read a .ipynb or .py file. Raises ValueError, in a sentence, when it cannot be read."""
    path = Path(path)
    if path.suffix not in (".ipynb", ".py"):
        raise ValueError(f"{path.name} is neither a notebook (.ipynb) nor a Python file (.py)")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ValueError(f"there is no file {path.name} there") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is not saved as UTF-8; save it anew as UTF-8") from None
    except OSError as error:
        raise ValueError(f"{path.name} cannot be read: {error.strerror}") from None
    found = Definitions(path.name)
    texts = [(path.name, text)] if path.suffix == ".py" else _notebook_cells(path.name, text)
    for label, source in texts:
        try:
            text = _python(source)
            found.cells.append(_Text(label, text, _parse(text)))
        except (MemoryError, RecursionError):  # the parser's words for it
            found.problems.append(f"{label}: nested too deeply to be read")
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            where = f"{label}, line {line}" if line else label
            shown = (getattr(error, "text", None) or "").strip()
            reason = getattr(error, "msg", None) or error
            found.problems.append(f"{where}: {reason}" + (f": {shown}" if shown else ""))
    return found


def _notebook_cells(name: str, text: str) -> list[tuple[str, str]]:
    """(label, source) of each code cell. A cell that was run is called as it shows: cell [5]."""
    try:
        told = json.loads(text)
        cells = [cell for cell in told["cells"] if cell.get("cell_type") == "code"]
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
    labels = [
        f"cell [{cell['execution_count']}]" if cell.get("execution_count") else f"code cell {place}"
        for place, cell in enumerate(cells, 1)
    ]
    return list(zip(labels, joined, strict=True))


def _parse(text: str) -> ast.Module:
    """The syntax tree. Jupyter allows `await` outside of a function."""
    tree = compile(text, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise RecursionError  # what looks through the tree later would raise it


def _python(text: str) -> str:
    """The cell without magics and shell lines, line for line. Raises SyntaxError of the rest."""
    first = text.lstrip().split(None, 1)[:1]
    if first and first[0].startswith("%%"):
        if first[0] not in _PYTHON_MAGICS:
            return ""
        text = text.replace(text.lstrip().split("\n", 1)[0], "", 1)
    try:
        _parse(text)
        return text
    except SyntaxError:
        pass
    lines, goes_on = [], False
    for line in text.split("\n"):
        bare = line.strip()
        if goes_on:  # the line before ended in a backslash
            lines.append("")
            goes_on = bare.endswith("\\")
            continue
        taken = bare.startswith(("%", "!", "?")) or _ends_as_help(bare) or _assigns(bare)
        goes_on = taken and bare.endswith("\\")
        lines.append(line[: len(line) - len(line.lstrip())] + "pass" if taken else line)
    text = "\n".join(lines)
    _parse(text)
    return text


def _ends_as_help(line: str) -> bool:
    """`row_parallel?`: Jupyter's question for help."""
    return line.endswith("?") and line.rstrip("?").replace(".", "_").isidentifier()


def _assigns(line: str) -> bool:
    """`files = !ls` or `took = %timeit ...`"""
    left, equals, right = line.partition("=")
    return bool(equals) and left.strip().isidentifier() and right.lstrip().startswith(("!", "%"))


def _binds(node: ast.stmt) -> set[str]:
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


def _hands_on(node: ast.stmt, name: str) -> bool:
    """`f = or_answer(f)`: not sent, and made from the definition before it, which is."""
    return isinstance(node, ast.Assign) and not _is_sent(node) and name in _names_used(node)


def _names_used(node: ast.stmt) -> set[str]:
    """Names that a statement, or code inside it, looks up outside itself. Not its local ones."""
    found: set[str] = set()
    todo = [symtable.symtable(ast.unparse(node), "cell", "exec")]
    while todo:
        table = todo.pop()
        outermost = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() if outermost else symbol.is_global():
                found.add(symbol.get_name())
        todo += table.get_children()
    return found


def _function(tree: ast.Module, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def _only(cell: _Text, nodes: list[ast.stmt]) -> str:
    """The cell's text with every line blank that belongs to none of these statements."""
    kept: set[int] = set()
    for node in cell.tree.body:
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if node in nodes or future:
            decorators = [d.lineno for d in getattr(node, "decorator_list", [])]
            kept.update(range(min([node.lineno, *decorators]), node.end_lineno + 1))
    lines = cell.text.split("\n")
    return "\n".join(line if number in kept else "" for number, line in enumerate(lines, 1))


def _words(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]
