"""A wrong answer to notebook 02 or 03 with one fault: what a check must catch, and name.

It is the text of one notebook cell that defines the function anew, on top of the right answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from labs.exercise import find
from labs.ranks import Cell, Source

SOLUTIONS = Path(__file__).resolve().parents[3] / "solutions"


@dataclass(frozen=True)
class Wrong:
    """fails: properties that must fail, at least these; hint: words that the card must hold."""

    exercise: str
    name: str
    fails: tuple[str, ...]
    hint: tuple[str, ...]
    text: str
    holds: tuple[str, ...] = ()  # properties that must pass all the same


def source(name: str, text: str) -> Source:
    """The function as a learner's cell defines it, on top of the right answers."""
    answers = (SOLUTIONS / f"{find(name).topic}.py").read_text(encoding="utf-8")
    return Source(name, [Cell("answers", answers), Cell("cell [7]", dedent(text).strip() + "\n")])
