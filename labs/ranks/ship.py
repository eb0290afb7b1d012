"""How a notebook's function reaches the ranks: as the text of its own cell.

A function typed into a notebook cannot be imported by another process. Its cell is saved word for
word, so that an error on a rank points at the learner's own line; of the cell only the definitions
that the function needs are executed (a cell often ends in the very call that is being answered).
Functions and classes of other cells come along, imported modules are imported again, other globals
travel by value.
"""

import ast
import inspect
import io
import linecache
import pickle
import symtable
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Cell:
    """Text that defines things: a notebook's cell, or a whole file."""

    label: str  # as the reader knows it: "cell [5]", "answers.py"
    text: str
    names: tuple[str, ...] | None = None  # definitions to execute; None: all, and the imports
    statements: tuple[int, ...] = ()  # where these stand among the text's top-level statements
    aliases: tuple[tuple[str, str], ...] = ()  # (name in use, name in its definition)


@dataclass
class Source:
    """A function known by its text: `name` as defined by `cells`, in their order.

    What is executed on a rank: definitions, imports and constants. Never another statement.
    """

    name: str
    cells: list[Cell]
    values: dict[str, bytes] = field(default_factory=dict)  # pickled globals
    late: tuple[str, ...] = ()  # those of them that hold functions of the cells

    @property
    def __name__(self) -> str:
        return self.name


@dataclass
class _Needed:
    """What of one cell is needed."""

    cell: Cell
    names: set[str] = field(default_factory=set)
    statements: set[int] = field(default_factory=set)
    aliases: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class _Gatherer:
    """Collects the cells and globals that one notebook function needs."""

    cells: dict[str, _Needed] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    root: str = ""

    def need(self, name: str, thing: object, scope: dict) -> None:
        if name in self.seen:
            return
        self.seen.add(name)
        if not from_notebook(thing):
            self.values[name] = thing
            return
        if name == "<lambda>":
            raise ValueError("a lambda has no name to be found by; give it one with `def`")
        file, text = _text_of(thing)
        known_as = getattr(thing, "__name__", name)
        body = ast.parse(text).body
        made_by = _made_by(body, thing, name, known_as)
        if not made_by:
            raise ValueError(f"the definition of {name} was not found in its cell; run it again")
        for used in sorted(set().union(*(uses(body[at]) for at in made_by))):
            if used in scope:  # what it uses is defined before it
                self.need(used, scope[used], scope)
        needed = self.cells.setdefault(file, _Needed(Cell(_label(file), text)))
        needed.statements.update(made_by)
        if any(name in defines(body[at]) for at in made_by):
            needed.names.add(name)
        else:
            needed.aliases.add((name, known_as))
        # keep the order in which things are complete: re-insert the cell last
        self.cells[file] = self.cells.pop(file)

    def source(self, name: str, scope: dict) -> Source:
        packed, late, todo = {}, [], list(self.values)
        while todo:
            key = todo.pop()
            held: list[str] = []
            buffer = io.BytesIO()
            pickler = _Pickler(buffer, lambda thing, held=held: self._local(thing, scope, held))
            try:
                pickler.dump(self.values[key])
            except _CANNOT_PICKLE as error:
                raise ValueError(
                    f"{name} uses {key!r}, which cannot be sent to a rank: {error}"
                ) from None
            packed[key] = buffer.getvalue()
            late += [key] if held else []
            todo += [new for new in self.values if new not in packed and new not in todo]
        cells = [
            Cell(n.cell.label, n.cell.text, *map(_in_order, (n.names, n.statements, n.aliases)))
            for n in self.cells.values()
        ]
        return Source(name, cells, packed, tuple(late))

    def _local(self, thing: object, scope: dict, held: list[str]) -> tuple[str, str]:
        name = thing.__name__
        if scope.get(name) is not thing:  # a lambda, or known by another name by now
            name = next((key for key, value in scope.items() if value is thing), name)
        self.need(name, thing, scope)
        held.append(name)
        return ("shipped", name)


_CANNOT_PICKLE = (pickle.PicklingError, AttributeError, TypeError, RecursionError)


class _Pickler(pickle.Pickler):
    """Pickles by value what can be, and hands notebook functions to `shipped`."""

    def __init__(self, file: io.BytesIO, shipped: Callable[[object], tuple]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._shipped = shipped

    def persistent_id(self, thing: object) -> tuple | None:
        if isinstance(thing, types.ModuleType):
            return ("module", thing.__name__)
        if isinstance(thing, Source) or from_notebook(thing):
            return self._shipped(thing)
        return None


def from_notebook(thing: object) -> bool:
    """Whether `thing` is a function or class defined in `__main__` (a notebook or a script)."""
    is_code = isinstance(thing, (types.FunctionType, type))
    return is_code and getattr(thing, "__module__", None) == "__main__"


def _text_of(thing: types.FunctionType | type) -> tuple[str, str]:
    """File name and whole text of the cell that defines `thing`."""
    name = thing.__name__
    if "<locals>" in thing.__qualname__:
        raise ValueError(
            f"{name} is defined inside another function; define it at the top of a cell to send it"
        )
    functions = [thing] if isinstance(thing, types.FunctionType) else vars(thing).values()
    codes = [f.__code__ for f in map(_unwrapped, functions) if isinstance(f, types.FunctionType)]
    files = [code.co_filename for code in codes]
    is_class = isinstance(thing, type)
    if is_class:  # perhaps without methods of its own: a dataclass, an enumeration
        files += reversed([file for file in linecache.cache if _may_be_cell(file)])
        files.append(getattr(sys.modules["__main__"], "__file__", None) or "")
    for file in files:
        text = "".join(linecache.getlines(file)) if file else ""
        if text and (not is_class or _defines_class(text, name)):
            return file, text
    raise ValueError(f"the text of {name} is not known; run the cell that defines it again")


def _may_be_cell(file: str) -> bool:
    return "ipykernel" in file or file.startswith("<ipython-input")


def _defines_class(text: str, name: str) -> bool:
    try:
        found = [node for node in ast.parse(text).body if name in defines(node)]
        return any(isinstance(node, ast.ClassDef) for node in found)
    except SyntaxError:
        return False


def _unwrapped(thing: object) -> object:
    thing = thing.__func__ if isinstance(thing, (staticmethod, classmethod)) else thing
    return inspect.unwrap(thing) if isinstance(thing, types.FunctionType) else thing


def _made_by(body: list[ast.stmt], thing: object, name: str, known_as: str) -> list[int]:
    """The statements of a cell that made `thing`, by their place; empty where none did.

    A function is what its `def` made, a class what its `class` made, even where the cell assigns to
    the name later, as in `f = or_answer(f)`. Where an assignment made it (a lambda, or
    `g = wrapped(f)`), all statements of both names count.
    """
    made = [at for at, node in enumerate(body) if _makes(node, thing, known_as)]
    return made[-1:] or [at for at, node in enumerate(body) if {name, known_as} & defines(node)]


def _makes(node: ast.stmt, thing: object, name: str) -> bool:
    """Whether a `def` or `class` made `thing`: a function is known by the line of its code."""
    if isinstance(thing, type):
        return isinstance(node, ast.ClassDef) and node.name == name
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    layers = 0
    while hasattr(thing, "__wrapped__"):
        thing, layers = thing.__wrapped__, layers + 1
    code = getattr(thing, "__code__", None)
    lines = {node.lineno, *(decorator.lineno for decorator in node.decorator_list)}
    return (
        code is not None
        and code.co_name == node.name
        and code.co_firstlineno in lines
        and layers <= len(node.decorator_list)  # more: an assignment wrapped it once again
    )


def _in_order(found: set) -> tuple:
    return tuple(sorted(found))


def uses(node: ast.stmt) -> set[str]:
    """Names that a definition looks up outside itself; its own local names are not among them."""

    def looked_up(table: symtable.SymbolTable) -> set[str]:
        outer = table.get_type() == "module"
        found = {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (outer or symbol.is_global())
        }
        return found.union(*map(looked_up, table.get_children()))

    return looked_up(symtable.symtable(ast.unparse(node), "<cell>", "exec"))


def defines(node: ast.stmt) -> set[str]:
    """Names that a top-level statement defines: a function, a class, an assigned name."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return {t.id for t in targets if isinstance(t, ast.Name)}
    return set()


def _label(file: str) -> str:
    """A cell as the learner knows it: its execution number, or the file's name."""
    try:
        from IPython import get_ipython

        number = getattr(get_ipython().compile, "_filename_map", {}).get(file)
        if number is not None:
            return f"cell [{number}]"
    except (ImportError, AttributeError):
        pass
    return Path(file).name if file.endswith(".py") and "ipykernel" not in file else "your cell"


def as_source(function: Callable) -> Source:
    """The text of a notebook function and of all it needs. Raises ValueError with the reason."""
    gather = _Gatherer()
    scope = getattr(function, "__globals__", None) or sys.modules["__main__"].__dict__
    gather.need(function.__name__, function, scope)
    return gather.source(function.__name__, scope)


def pack(
    job: dict, function: Callable, args: tuple, kwargs: dict
) -> tuple[dict[str, bytes], dict[str, str]]:
    """The job and the cells it needs, as files; and the files' names as the learner knows them."""
    sources: list[Source] = []
    known: dict[int, int] = {}

    def ship(thing: object) -> tuple[str, int]:
        if id(thing) not in known:
            known[id(thing)] = len(sources)
            sources.append(thing if isinstance(thing, Source) else as_source(thing))
        return ("shipped", known[id(thing)])

    buffer = io.BytesIO()
    try:
        _Pickler(buffer, ship).dump((function, args, kwargs))
    except _CANNOT_PICKLE as error:
        name = getattr(function, "__name__", "the function")
        raise ValueError(f"{name} uses something that cannot be sent to a rank: {error}") from None
    files, labels = {}, {}
    for i, source in enumerate(sources):
        for j, cell in enumerate(source.cells):
            file = f"cell_{i}_{j}.py"
            labels[file], files[file] = cell.label, cell.text.encode()
    told = [
        dict(name=s.name, values=s.values, late=s.late,
             cells=[(c.names, c.statements, c.aliases) for c in s.cells])
        for s in sources
    ]  # fmt: skip
    job = dict(job, call=buffer.getvalue(), sources=told)
    return {**files, "job": pickle.dumps(job)}, labels
