"""A wrong answer to notebook 00 with one fault: what a check must catch, and name.

It is the text of one notebook cell that defines the function anew, on top of the right answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import solutions.ranks_and_collectives as answers
from labs.ranks import Cell, Source

ANSWERS = Path(answers.__file__).read_text(encoding="utf-8")
VALUES, LEFT_ALONE, TRAFFIC, FLIGHT = "values", "x left alone", "traffic", "messages on their way"


@dataclass(frozen=True)
class Wrong:
    """fails: properties that must fail, at least these; hint: words that the advice must hold."""

    exercise: str
    name: str
    fails: tuple[str, ...]
    hint: tuple[str, ...]
    text: str
    waits: bool = False  # the ranks wait for each other, and do not come to an end
    not_told: str = ""  # what the card must not say: a hint that leads astray
    holds: tuple[str, ...] = ()  # properties that earlier cases showed to hold


def source(name: str, text: str) -> Source:
    """The function as a learner's cell defines it, on top of the right answers."""
    return Source(name, [Cell("answers", ANSWERS), Cell("cell [7]", dedent(text).strip() + "\n")])
