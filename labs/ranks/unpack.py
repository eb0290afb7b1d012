"""A notebook's function on a rank: rebuilt from the cells that labs/ranks/ship.py sent."""

import ast
import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable
from pathlib import Path


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, shipped: Callable[[object], object]) -> None:
        super().__init__(file)
        self._shipped = shipped

    def persistent_load(self, key: tuple) -> object:
        kind, what = key
        return importlib.import_module(what) if kind == "module" else self._shipped(what)


def read(path: Path) -> dict:
    """On a rank: the job, its functions still packed."""
    return pickle.loads(path.read_bytes())


def unpack(job: dict, folder: Path) -> tuple[Callable, tuple, dict]:
    """On a rank: the function and its arguments, notebook functions rebuilt from their cells."""
    built: dict[int, object] = {}

    def shipped(index: int) -> object:
        if index not in built:
            built[index] = _build(job["sources"][index], index, folder)
        return built[index]

    return _Unpickler(io.BytesIO(job["call"]), shipped).load()


def _build(source: dict, index: int, folder: Path) -> object:
    module = types.ModuleType(f"notebook_{index}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    scope = module.__dict__

    def load(names: set[str]) -> None:
        for name in names:
            packed = io.BytesIO(source["values"][name])
            scope[name] = _Unpickler(packed, lambda inner: scope[inner]).load()

    load(set(source["values"]) - set(source["late"]))
    for number, (names, statements, aliases) in enumerate(source["cells"]):
        file = folder / f"cell_{index}_{number}.py"
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        wanted = None if names is None else set(statements)
        tree.body = [node for at, node in enumerate(tree.body) if _wanted(node, at, wanted)]
        before = dict(scope)
        exec(compile(tree, str(file), "exec"), scope)
        for name, defined in aliases:
            scope[name] = scope[defined]
        for defined in {defined for _, defined in aliases} - set(names or ()):
            # known by another name here: its own name may be another cell's by now
            scope.pop(defined)
            if defined in before:
                scope[defined] = before[defined]
    load(set(source["late"]))
    if source["name"] not in scope:
        raise NameError(f"{source['name']} is not defined in what was sent")
    return scope[source["name"]]


def _wanted(node: ast.stmt, at: int, statements: set[int] | None) -> bool:
    """Whether a rank executes the statement, which is number `at` of its cell."""
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return True
    if statements is not None:
        return at in statements
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
        return True
    return isinstance(node, (ast.Assign, ast.AnnAssign)) and is_constant(node.value)


_WORKED_OUT = frozenset((
    "abs", "bool", "complex", "dict", "divmod", "enumerate", "float", "frozenset", "int", "len",
    "list", "max", "min", "pow", "range", "reversed", "round", "set", "slice", "sorted", "str",
    "sum", "tuple", "zip",
    "collections.namedtuple", "functools.partial", "torch.Size", "torch.device", "torch.finfo",
    "torch.iinfo", "torch.tensor",
))  # fmt: skip
"""What makes a value of its arguments and does nothing besides."""
_MODULES = frozenset(("cmath", "math", "operator"))  # of which all do
_BY_NAME = frozenset(name.rpartition(".")[2] for name in _WORKED_OUT) | {
    "ceil", "cos", "exp", "floor", "isqrt", "log", "log10", "log2", "prod", "sin", "sqrt"
}  # fmt: skip
"""The same, and what is often taken from `math`, imported by name."""


def is_constant(node: ast.expr | None) -> bool:
    """Whether a value is worked out without calling anything but what makes plain values.

    A lambda is a value; what it does when it is called does not count.
    """
    todo: list[ast.AST] = [node] if node is not None else []
    while todo:
        inner = todo.pop()
        if isinstance(inner, (ast.Await, ast.Yield, ast.NamedExpr)):
            return False
        if isinstance(inner, ast.Call) and not _makes_a_value(inner.func):
            return False
        todo += ast.iter_child_nodes(inner.args if isinstance(inner, ast.Lambda) else inner)
    return node is not None


def _makes_a_value(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _BY_NAME
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return False
    module = function.value.id
    return module in _MODULES or f"{module}.{function.attr}" in _WORKED_OUT
