"""Answers as a learner's cell holds them, for the tests of the checks."""

from __future__ import annotations

from textwrap import dedent

from labs.exercise import Card, judged
from labs.ranks import Cell, Source
from tests.mutants.mutant import ANSWERS


def source(name: str, text: str) -> Source:
    """The function as a learner's cell defines it, on top of the right answers."""
    return Source(name, [Cell("answers", ANSWERS), Cell("cell [7]", dedent(text).strip() + "\n")])


def card_of(name: str, text: str) -> Card:
    return judged(source(name, text))
