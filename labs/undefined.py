"""A NameError in an answer: which line of the notebook brings the name that is missing.

A learner's file often holds the functions without the imports that stand at the notebook's top.
Python's own message names the name and leaves the learner to look for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from labs import cells, topics
from labs.ranks.ship import Source, defines, uses

ROOT = Path(__file__).resolve().parents[1]
_RAISED = re.compile(r"NameError: name '(\w+)' is not defined")


def advice(topic: str, function: Callable | Source, told: Iterable[str]) -> list[str]:
    """What to add for the names that were missing when `function` ran; empty: none was, or unknown.

    topic: whose notebook is looked through first. told: the texts that may hold a NameError. Of an
    answer that is known as text the names that it would have missed next are named as well.
    """
    raised = list(dict.fromkeys(name for text in told for name in _RAISED.findall(text)))
    if not raised:
        return []
    names = [*raised, *(n for n in _missed_by(function) if n not in raised)]
    exercises = topics.find(topic).exercises()
    by_line: dict[tuple[str, str], list[str]] = {}
    for name in names:
        if (line := _import_line(topic, name)) is not None:
            by_line.setdefault(line, []).append(name)
    found = []
    for notebook in dict.fromkeys(notebook for notebook, _ in by_line):
        brought = [names for (where, _), names in by_line.items() if where == notebook]
        lines = "; ".join(line for where, line in by_line if where == notebook)
        found.append(_sentence(sum(brought, []), notebook, lines, isinstance(function, Source)))
    where = "in your file" if isinstance(function, Source) else "here yet"
    found += [
        f"{name}, which {function.__name__} calls, is an exercise too, and not defined {where}"
        for name in names
        if name in exercises
    ]
    return found


def _sentence(names: list[str], notebook: str, lines: str, in_file: bool) -> str:
    told = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    if in_file:
        return f"{told}: imported in {notebook}, but not in your file; add: {lines}"
    return f"{told}: not imported here; run the cell of {notebook} that has: {lines}"


def _missed_by(function: Callable | Source) -> list[str]:
    """Names that a text uses and that none of its cells binds; of a function: not known."""
    if not isinstance(function, Source):
        return []
    body = [node for cell in function.cells for node in ast.parse(cell.text).body]
    bound = set().union(*map(defines, body), *map(_imported, body))
    return sorted(set().union(*map(uses, body)) - bound)


def _import_line(topic: str, name: str) -> tuple[str, str] | None:
    """(notebook, line) that imports a name: the topic's own notebook goes before the others."""
    own = topics.find(topic)
    for one in [own, *(other for other in topics.TOPICS.values() if other is not own)]:
        line = _imports(ROOT / one.notebook).get(name)
        if line is not None:
            return one.notebook, line
    return None


@cache
def _imports(notebook: Path) -> dict[str, str]:
    """name → the line of a notebook that imports it first; empty where it cannot be read."""
    try:
        found = cells.read(notebook).cells
    except ValueError:  # a copy of the course without notebooks
        return {}
    lines: dict[str, str] = {}
    for node in (node for cell in found for node in cell.tree.body):
        for name in _imported(node):
            lines.setdefault(name, ast.unparse(node))
    return lines


def _imported(node: ast.stmt) -> set[str]:
    if not isinstance(node, (ast.Import, ast.ImportFrom)):
        return set()
    return {alias.asname or alias.name.split(".")[0] for alias in node.names}
