"""Whether an answer uses the course's own judges, which work out what is expected.

    uses(["from labs.mesh_3d.judging.groups import groups\n..."])      True

Students have these files, for `check`; a rank can import them, and nothing but a reader can tell
that from an answer. Named are imports of modules of the course with a part `judging` or `grading`,
of `solutions`, and of the few others that work out what an exercise asks for; the same by the names
of modules that were imported; and text that holds such a name, as importlib or exec takes it. Named
too is what looks at its callers (`looks`). Text is parsed, nothing is executed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator

from labs.topics import TOPICS

NOTE = (
    "the answer uses the course's own judge, which works out what is expected; somebody should "
    "look at this"
)
"""The note of a grade whose answer does."""
LOOKS = (
    "the answer looks into the code that calls it, or into all modules; somebody should look at "
    "this"
)
"""The note of a grade whose answer does that: a judge can be found so, under whatever name."""

_PARTS = ("judging", "grading")
_WORKS_OUT = (
    ("labs", "planner", "search"), ("labs", "planner", "legal"),
    ("labs", "planner", "lesson", "view"), ("labs", "tp_linear_pair", "sharding"),
)  # fmt: skip
# In text a module may stand as a path too, as open() takes it.
_IN_TEXT = re.compile(
    r"\blabs(?:[./\\]\w+){0,5}[./\\](?:judging|grading)\b|"
    r"\blabs[./\\](?:planner[./\\](?:search|legal)|tp_linear_pair[./\\]sharding)\b|"
    rf"\bsolutions[./\\](?:{'|'.join(TOPICS)})\b"
)
_LOOKING = frozenset((
    "_getframe", "_current_frames", "currentframe", "getouterframes", "f_back", "f_globals",
    "f_locals", "__globals__", "__closure__", "cell_contents", "get_objects", "get_referrers",
    "get_referents", "tb_frame", "_disable_current_modes", "__subclasses__",
))  # fmt: skip
_IMPORTERS = ("import_module", "__import__")


def uses(texts: Iterable[str]) -> bool:
    """Whether one of the texts, an answer's cells, uses a judge. Text that is not Python does not.

    Never raises for what is in them.
    """
    trees = list(filter(None, map(_parsed, texts)))
    known = dict(pair for tree in trees for pair in _imported(tree))
    return any(_is_judge(name) for tree in trees for name in _named(tree, known)) or any(
        _in_text(tree) for tree in trees
    )


def looks(texts: Iterable[str]) -> bool:
    """Whether one of the texts looks at its callers, at what a function holds, or at sys.modules.

    By the names that this needs, also in text. Never raises for what is in them.
    """
    for tree in filter(None, map(_parsed, texts)):
        known = dict(_imported(tree))
        if "sys.modules" in known.values():
            return True
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                if node.attr in _LOOKING or _in_full(node, known) == "sys.modules":
                    return True
            elif isinstance(node, ast.Name):
                if node.id in _LOOKING:
                    return True
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node.value in _LOOKING:
                    return True
            elif isinstance(node, ast.alias) and node.name in _LOOKING:
                return True
    return False


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():  # "\d" in a string is the student's own affair
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_judge(module: str) -> bool:
    parts = tuple(module.split("."))
    if parts[0] == "solutions":
        return True
    if parts[0] != "labs":
        return False
    works_out = any(parts[: len(one)] == one for one in _WORKS_OUT)
    return works_out or bool(set(parts) & set(_PARTS))


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name in the text, what it is called where it was imported from)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield (one.asname, one.name) if one.asname else (one.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def _named(tree: ast.Module, known: dict[str, str]) -> Iterator[str]:
    """Every module that is imported or reached through one that was, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Attribute):
            yield _in_full(node, known)
        elif isinstance(node, ast.Call):
            yield from _by_call(node, known)


def _in_full(node: ast.expr, known: dict[str, str]) -> str:
    """`m.judging` as "labs.mesh_3d.judging", where m is labs.mesh_3d; else empty."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in known:
        return ""
    return ".".join([known[node.id], *reversed(parts)])


def _by_call(call: ast.Call, known: dict[str, str]) -> Iterator[str]:
    """The module that import_module("...") or getattr(module, "...") gives."""
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    given = [*call.args, *(one.value for one in call.keywords)]
    texts = [str(one.value) for one in given if isinstance(one, ast.Constant)]
    if called in _IMPORTERS and texts:
        package = texts[1] if texts[0].startswith(".") and len(texts) > 1 else ""
        yield package + texts[0]
    elif called == "getattr" and len(call.args) > 1 and texts:
        yield f"{_in_full(call.args[0], known) or _name(call.args[0], known)}.{texts[0]}"


def _name(node: ast.expr, known: dict[str, str]) -> str:
    return known.get(node.id, "") if isinstance(node, ast.Name) else ""


def _in_text(tree: ast.Module) -> bool:
    """Whether text in it, other than what stands alone as a line, names a judge."""
    words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in words
        and _IN_TEXT.search(node.value)
        for node in ast.walk(tree)
    )
