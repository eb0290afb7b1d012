"""One cell of a notebook as Python: without magics and shell lines, and as a usable tree."""

from __future__ import annotations

import ast
import io
import tokenize

_DEEPEST = 200  # levels of a syntax tree; ast.unparse gives up at some 300
# Cell magics whose body is Python; every other one (%%bash, %%html, ...) takes the whole cell.
_PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun", "%%python3")


def parse(text: str) -> ast.Module:
    """The syntax tree. Jupyter allows `await` outside of a function."""
    tree = compile(text, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise RecursionError  # what looks through the tree later would raise it


def python(text: str) -> str:
    """The cell without magics and shell lines, line for line. Raises SyntaxError of the rest."""
    first = text.lstrip().split(None, 1)[:1]
    if first and first[0].startswith("%%"):
        if first[0] not in _PYTHON_MAGICS:
            return ""
        text = text.replace(text.lstrip().split("\n", 1)[0], "", 1)
    try:
        parse(text)
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
        taken = taken and not _is_open("\n".join(lines))
        goes_on = taken and bare.endswith("\\")
        lines.append(line[: len(line) - len(line.lstrip())] + "pass" if taken else line)
    text = "\n".join(lines)
    parse(text)
    return text


def _is_open(text: str) -> bool:
    """Whether a bracket or a long string is still open at the end: what follows is no magic."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text + "\n").readline):
            pass
    except tokenize.TokenError as error:
        return "multi-line" in str(error)  # statement or string
    except SyntaxError:  # IndentationError of a half line
        return False
    return False


def _ends_as_help(line: str) -> bool:
    """`row_parallel?`: Jupyter's question for help."""
    return line.endswith("?") and line.rstrip("?").replace(".", "_").isidentifier()


def _assigns(line: str) -> bool:
    """`files = !ls` or `took = %timeit ...`"""
    left, equals, right = line.partition("=")
    return bool(equals) and left.strip().isidentifier() and right.lstrip().startswith(("!", "%"))
