"""Wrong answers to notebook 05 as the text of a cell, and the texts of the right ones to change."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

from labs.ranks import Cell, Source
from tests import alone
from tests.mutants.mutant import changed
from tests.mutants.ring.wrong import Wrong

ANSWERS = (Path(__file__).resolve().parents[3] / "solutions/mesh_3d.py").read_text("utf-8")


def text_of(*names: str) -> str:
    """The definitions of some functions of the answers, one after the other."""
    found = {node.name: node for node in ast.parse(ANSWERS).body if hasattr(node, "name")}
    return "\n\n".join(ast.unparse(found[name]) for name in names)


def source(name: str, text: str) -> Source:
    """The function as a learner's cell defines it, on top of the right answers."""
    return Source(name, [Cell("answers", ANSWERS), Cell("cell [7]", dedent(text).strip() + "\n")])


def function(name: str, text: str) -> Callable:
    """The same function, defined here and now."""
    return alone.function(source(name, text))


def body(signature: str) -> Callable[[str], str]:
    """Text of a function with that head: (lines of its body) -> its definition."""
    return lambda lines: f"def {signature}:\n" + indent(dedent(lines).strip("\n"), "    ")


__all__ = ["ANSWERS", "Wrong", "body", "changed", "function", "source", "text_of"]
