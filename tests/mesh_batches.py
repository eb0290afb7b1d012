"""Answers to notebook 05 judged many at a time, as each would be by itself.

What needs one rank is run in this process; what needs four in one launch for each exercise. What is
judged is the same as in the exercise's own check; only the launch is shared. Answers that leave
ranks waiting have launches of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from labs.exercise import Card
from labs.mesh_3d.exercises import EXERCISES
from labs.mesh_3d.judging import judge_norm, judge_step, norm, rounds, step
from labs.ranks.ship import Source
from tests import alone
from tests.alone import SEED
from tests.mutants.mesh import MUTANTS, RIGHT, function, source

ON_FOUR = {
    "zero1_step": (step.steps, step.one, judge_step.judged),
    "global_grad_norm": (norm.norms, norm.one, judge_norm.judged),
}
_LIMIT = 100.0


@cache
def launched(name: str) -> dict[str, Card]:
    """The cards of all answers to an exercise on four ranks that run to their end, by name."""
    texts = {one.name: one.text for one in MUTANTS if one.exercise == name and not one.breaks}
    texts |= {way: text for way, (exercise, text) in RIGHT.items() if exercise == name}
    make, one, judged = ON_FOUR[name]
    answers = [source(name, text) for text in texts.values()]
    seen = rounds.run_all(answers, make(SEED), one, _LIMIT)
    return {
        key: Card(EXERCISES[name], judged(rows), 0.0)
        for key, rows in zip(texts, seen, strict=True)
    }  # fmt: skip


def own_launch(answer: Callable | Source) -> Card:
    """The card of an answer by the exercise's own judge, on its own ranks."""
    exercise = EXERCISES[answer.__name__]
    return Card(exercise, exercise.judge(answer, SEED), 0.0)


def in_process(name: str, text: str, patch: pytest.MonkeyPatch) -> Card:
    """The card by the exercise's own judge, whose one rank is this process."""
    return alone.in_process(EXERCISES[name], function(name, text), patch)
