"""Code without what a writer may change and leave it the same: its shape, the same in copies.

Left out are comments, docstrings, annotations and the words of strings; names of variables,
arguments and functions are numbered in the order in which they come. `return x`, `y = x` and `x` at
the end of a block are one thing, so that an answer that was pasted without its `def` is known too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

SMALLEST = 14  # syntax nodes; a body such as `return x` is nobody's secret


@dataclass(frozen=True)
class Body:
    """The statements of one function."""

    name: str  # of whose answer it is, for people
    keys: tuple[int, ...]  # of each statement, without any name; the last as a value
    shape: str  # with names numbered


def bodies(source: str, where: str) -> list[Body]:
    """The functions and methods of a module of answers that are large enough to give one away."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        block = _statements(node.body)
        if block and sum(_size(statement) for statement in block) >= SMALLEST:
            found.append(Body(f"{where}: {node.name}", _keys(block), _shape(block)))
    return found


class Known:
    """Answers that can be looked for."""

    def __init__(self, answers: list[Body]) -> None:
        self._by_first: dict[int, list[Body]] = {}
        for one in answers:
            self._by_first.setdefault(one.keys[0], []).append(one)

    def inside(self, tree: ast.AST) -> list[tuple[int, str]]:
        """(line, answer) of each place in a tree that has an answer's shape."""
        return sorted({at for block in _blocks(tree) for at in self._in_block(block)})

    def _in_block(self, block: list[ast.stmt]) -> Iterator[tuple[int, str]]:
        keys = [_key(statement) for statement in block]
        values = [_value_key(statement) for statement in block]
        for at in range(len(block)):
            # An answer of one statement is known by its value, others by how they begin.
            for one in [*self._by_first.get(keys[at], ()), *self._by_first.get(values[at], ())]:
                n = len(one.keys)
                if at + n > len(block):
                    continue
                if (*keys[at : at + n - 1], values[at + n - 1]) == one.keys and _shape(
                    block[at : at + n]
                ) == one.shape:
                    yield block[at].lineno, one.name


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements, docstrings left out; an expression alone is a list of one."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield _statements(block)
        if isinstance(node, ast.Lambda) and _size(node.body) >= SMALLEST:
            yield [ast.copy_location(ast.Expr(node.body), node.body)]
        elif isinstance(node, (ast.Call, ast.keyword)):
            for inner in ast.iter_child_nodes(node):
                if isinstance(inner, ast.expr) and _size(inner, SMALLEST) >= SMALLEST:
                    yield [ast.copy_location(ast.Expr(inner), inner)]


def _statements(block: list[ast.stmt]) -> list[ast.stmt]:
    """A block without strings that stand alone."""
    return [
        one
        for one in block
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]


def _keys(block: list[ast.stmt]) -> tuple[int, ...]:
    return (*map(_key, block[:-1]), _value_key(block[-1]))


def _key(node: ast.AST) -> int:
    return hash(_dump(node, None))


def _value_key(node: ast.stmt) -> int:
    return hash(("value", _dump(_value(node), None)))


def _value(node: ast.stmt) -> ast.AST:
    """What a last statement comes to: of `return x`, `y = x` and `x` it is x."""
    single = isinstance(node, ast.Assign) and len(node.targets) == 1
    if single or isinstance(node, (ast.AnnAssign, ast.Return, ast.Expr)):
        return node.value or node
    return node


def _shape(block: list[ast.stmt]) -> str:
    numbers: dict[str, int] = {}
    return repr([_dump(one, numbers) for one in [*block[:-1], _value(block[-1])]])


def _dump(node: object, numbers: dict[str, int] | None) -> object:
    """A node as nested tuples; numbers: of names, filled here. None: its hash, names all alike."""
    if isinstance(node, list):
        return tuple(_dump(one, numbers) for one in node)
    if not isinstance(node, ast.AST):
        return node
    if numbers is not None:
        return _dumped(node, numbers)
    if not hasattr(node, "_labs_key"):  # each node is looked at once, however deep it lies
        node._labs_key = hash(_dumped(node, None))
    return node._labs_key


def _dumped(node: ast.AST, numbers: dict[str, int] | None) -> tuple | str:
    """A node as nested tuples, its parts as `_dump` gives them."""

    def named(name: str | None) -> object:
        if name is None or numbers is None:
            return "name"
        return numbers.setdefault(name, len(numbers))

    if isinstance(node, ast.Constant):
        return "text" if isinstance(node.value, (str, bytes)) else ("constant", repr(node.value))
    if isinstance(node, ast.JoinedStr):
        return "text"
    if isinstance(node, ast.Name):
        return ("Name", named(node.id))
    if isinstance(node, ast.arg):
        return ("arg", named(node.arg))
    if isinstance(node, ast.AnnAssign):
        target, value = _dump(node.target, numbers), _dump(node.value, numbers)
        return ("Assign", (target,), value)
    if isinstance(node, ast.Assign):
        return ("Assign", _dump(node.targets, numbers), _dump(node.value, numbers))
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        inner = _dump(node.args, numbers), _dump(_statements(node.body), numbers)
        return ("def", named(node.name), *inner, _dump(node.decorator_list, numbers))
    parts = tuple(
        _dump(value, numbers)
        for name, value in ast.iter_fields(node)
        if name not in ("ctx", "type_comment", "kind", "annotation", "returns")
    )
    return (type(node).__name__, *parts)


def _size(node: ast.AST, enough: int | None = None) -> int:
    """Syntax nodes; counted up to `enough`."""
    size = 0
    for _ in ast.walk(node):
        size += 1
        if size == enough:
            break
    return size
