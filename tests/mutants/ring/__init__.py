"""Wrong answers to notebook 04, one fault each, and other right ones."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

from labs.ranks import Cell, Source
from tests.mutants.ring import backward, forward, merge, places
from tests.mutants.ring.right import RIGHT

ANSWERS = (Path(__file__).resolve().parents[3] / "solutions/ring_attention.py").read_text("utf-8")
MUTANTS = [*merge.MUTANTS, *places.MUTANTS, *forward.MUTANTS, *backward.MUTANTS]


def source(name: str, text: str) -> Source:
    """The function as a learner's cell defines it, on top of the right answers."""
    return Source(name, [Cell("answers", ANSWERS), Cell("cell [7]", dedent(text).strip() + "\n")])


__all__ = ["MUTANTS", "RIGHT", "source"]
