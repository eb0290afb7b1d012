"""The normalised form of an answer: what is left of a function when names and words are gone.

    tokens(["import torch\n\ndef f(x):\n    return torch.relu(x)\n"], "f")

The syntax tree is walked in order and each node leaves a token. Docstrings, comments, annotations
and blank space leave none; arguments and local names are all "v", so renaming changes nothing;
names from outside (torch, another exercise), attributes and constants stay, since they say what is
computed. Prints leave none; the sides of +, * and of a comparison stand in one order. Helpers and
constants of the answer's own follow in the order of their use. Text is parsed, nothing is
executed.
"""

from __future__ import annotations

import ast
import itertools
import warnings
from collections.abc import Iterable
from typing import Any

_NAMED = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef, ast.ExceptHandler)
_TURNED = {ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_DEEPEST = 200  # levels of a tree; labs.cells refuses what is deeper
_MOST = 20_000  # tokens of one answer: no answer of the course has a tenth of it

Token = str


def tokens(
    texts: Iterable[str], name: str, others: Iterable[str] = (), own: Iterable[str] = ()
) -> list[Token]:
    """The tokens of function `name` as the texts define it, then those of its own helpers.

    others: names of exercises, which are not helpers. own: more names that leave "v". An answer
    without such a function has no tokens, and a text that is not Python leaves none.
    """
    defined: dict[str, ast.stmt] = {}
    for text in texts:
        for node in _parsed(text):
            defined |= dict.fromkeys(_binds(node), node)
    if not isinstance(defined.get(name), ast.FunctionDef):
        return []
    found: list[Token] = []
    todo, seen = [name], {name, *others}
    while todo:
        node = defined.get(todo.pop(0))
        if node is None or _too_deep(node):
            continue
        found += _of(node, set(defined) - set(others) | set(own))
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id in defined and inner.id not in seen:
                seen.add(inner.id)
                todo.append(inner.id)
        if len(found) > _MOST:
            return found[:_MOST]
    return found


def bodies(text: str, own: Iterable[str] = ()) -> list[tuple[str, list[Token]]]:
    """Each function of a text, methods and inner ones too: its name, and the tokens of its body.

    Names of the text's own, those that it imports from judges, and `own` leave "v".
    """
    known, body = set(own), _parsed(text)
    for node in body:
        known |= set(_binds(node))
        if isinstance(node, ast.ImportFrom) and "judging" in (node.module or "").split("."):
            known |= {one.asname or one.name for one in node.names}
    functions = [
        inner
        for node in body
        if not _too_deep(node)
        for inner in ast.walk(node)
        if isinstance(inner, ast.FunctionDef)
    ]
    return [
        (one.name, [token for line in one.body if not _is_words(line)
                    for token in _walk(line, _own(one, known))])
        for one in functions
    ]  # fmt: skip


def _parsed(text: str) -> list[ast.stmt]:
    try:
        with warnings.catch_warnings():  # "\\d" in a string is the student's own affair
            warnings.simplefilter("ignore")
            return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _binds(node: ast.stmt) -> list[str]:
    """The names of a definition or of constants at the top of a cell."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


def grams(found: list[Token], size: int) -> set[tuple[Token, ...]]:
    """All runs of `size` tokens, each once."""
    return set(zip(*(found[at:] for at in range(size)), strict=False))


def _of(node: ast.stmt, helpers: set[str]) -> list[Token]:
    """The tokens of one definition."""
    return list(_walk(node, _own(node, helpers)))


def _own(node: ast.stmt, helpers: set[str]) -> set[str]:
    """The names that leave "v": arguments and locals, the definition's own, those of helpers."""
    own = set(helpers) | {getattr(node, "name", "")}
    for inner in ast.walk(node):
        if isinstance(inner, ast.arg):
            own.add(inner.arg)
        elif isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            own.add(inner.id)
        elif isinstance(inner, _NAMED) and inner.name:
            own.add(inner.name)
    return own


def _walk(node: ast.AST, own: set[str]) -> Iterable[Token]:
    if isinstance(node, ast.Name):
        yield "v" if node.id in own else node.id
        return
    if isinstance(node, ast.Constant):
        yield repr(node.value)[:80]
        return
    if isinstance(node, ast.arg):
        yield "v"
        return
    if isinstance(node, ast.Attribute):
        yield from _walk(node.value, own)
        yield "." + node.attr
        return
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        node = ast.Assign([node.target], node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
        yield type(node.op).__name__
        for side in sorted([[*_walk(node.left, own)], [*_walk(node.right, own)]]):
            yield from side
        return
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        turned = _TURNED.get(type(node.ops[0]))
        if turned is not None:
            node = ast.Compare(node.comparators[0], [turned()], [node.left])
    yield type(node).__name__
    if isinstance(node, ast.keyword) and node.arg:
        yield "=" + node.arg
    for name, value in ast.iter_fields(node):
        if name in (
            "annotation",
            "returns",
            "type_params",
            "ctx",
            "type_comment",
            "decorator_list",
        ):
            continue
        inner = value if isinstance(value, list) else [value]
        inner = [one for one in inner if not _is_words(one)]
        for one in inner:
            if isinstance(one, ast.AST):
                yield from _walk(one, own)


def _is_words(line: Any) -> bool:
    """A docstring, an ellipsis, a comment written as a string, `pass`, a print."""
    if isinstance(line, ast.Pass):
        return True
    if not isinstance(line, ast.Expr):
        return False
    called = getattr(line.value, "func", None)
    return isinstance(line.value, ast.Constant) or getattr(called, "id", "") == "print"


def _too_deep(node: ast.AST) -> bool:
    level: list[ast.AST] = [node]
    for _ in itertools.repeat(None, _DEEPEST):
        level = [inner for one in level for inner in ast.iter_child_nodes(one)]
        if not level:
            return False
    return True
