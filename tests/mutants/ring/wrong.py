"""A wrong answer to notebook 04 with one fault: what a check must catch, and name."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutants.pipeline import wrong


@dataclass(frozen=True)
class Wrong(wrong.Wrong):
    """breaks: it does not run to its end, so it is judged in a launch of its own."""

    breaks: bool = False
