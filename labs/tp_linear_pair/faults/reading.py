"""What the text of an answer tells, where what came back leaves two faults open.

An answer is judged by what it does; its text is read only to word a hint for one that has failed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator

from labs.ranks import ship
from labs.ranks.ship import Source

LOST_RESULT = "dist.all_reduce returns None; it changes its argument"
_ALL_REDUCE = ("dist.all_reduce", "torch.distributed.all_reduce")


def uses(function: Callable | Source, name: str) -> bool:
    """Whether the answer, or what it calls of the same text, looks up this name."""
    return any(name in ship.uses(node) for node in _reached(function))


def lost_all_reduce(function: Callable | Source) -> bool:
    """Whether the answer goes on with what `dist.all_reduce` returns, which is None."""
    calls, alone = [], set()
    for node in _inside(function):
        if isinstance(node, ast.Expr):
            alone.add(id(node.value))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _ALL_REDUCE:
            calls.append(node)
    return any(
        id(call) not in alone and all(word.arg != "async_op" for word in call.keywords)
        for call in calls
    )


def returns(function: Callable | Source) -> bool:
    """Whether the function itself has a `return` with a value. True where its text is not known."""
    found = [n for n in _reached(function) if getattr(n, "name", None) == function.__name__]
    return not found or any(
        isinstance(inner, ast.Return) and inner.value is not None for inner in ast.walk(found[0])
    )


def says(function: Callable | Source, *words: str) -> bool:
    """Whether a call or an attribute of the answer is written with one of these words."""
    told = [ast.unparse(n) for n in _inside(function) if isinstance(n, (ast.Call, ast.Attribute))]
    return any(word in one for one in told for word in words)


def _inside(function: Callable | Source) -> Iterator[ast.AST]:
    for node in _reached(function):
        yield from ast.walk(node)


def _reached(function: Callable | Source) -> list[ast.stmt]:
    """The definitions that the answer needs, itself first. Empty where its text is not known."""
    try:
        known = _definitions(function)
    except (AttributeError, OSError, SyntaxError, TypeError, ValueError):
        return []
    found: dict[str, ast.stmt] = {}
    todo = [function.__name__]
    while todo:
        name = todo.pop()
        if name in known and name not in found:
            found[name] = known[name]
            todo += ship.uses(known[name])
    return list(found.values())


def _definitions(function: Callable | Source) -> dict[str, ast.stmt]:
    """What defines each name last; a `def` or `class` before an assignment."""
    if not isinstance(function, Source) and ship.from_notebook(function):
        function = ship.as_source(function)
    if isinstance(function, Source):
        texts = [cell.text for cell in function.cells]
    else:
        texts = ["".join(linecache.getlines(function.__code__.co_filename))]
    found: dict[str, ast.stmt] = {}
    for node in (node for text in texts for node in ast.parse(text).body):
        for name in ship.defines(node):
            if name not in found or not isinstance(node, (ast.Assign, ast.AnnAssign)):
                found[name] = node
    return found
