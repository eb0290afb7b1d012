"""Answers that need no other rank, judged in this process as their own check judges them.

Only the launch is left out: the one rank is this process.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from labs import ranks
from labs.exercise import Card, Exercise
from labs.ranks.devices import Placement
from labs.ranks.run import Run, RunFailed
from labs.ranks.ship import Source

SEED = 11


def function(source: Source) -> Callable:
    """A learner's function, defined here and now."""
    scope: dict[str, object] = {"__name__": f"cell_of_{source.name}"}
    for cell in source.cells:
        exec(compile(cell.text, cell.label, "exec"), scope)
    return scope[source.name]


def in_process(
    exercise: Exercise, answer: Callable, patch: pytest.MonkeyPatch, seed: int = SEED
) -> Card:
    """The card by the exercise's own judge, whose one rank is this process."""
    kept: dict[str, object] = {}

    def launch(on_rank: Callable, ranks_: int, *, args: tuple, **_: object) -> SimpleNamespace:
        assert ranks_ == 1
        try:
            return SimpleNamespace(values=[on_rank(*args)], output="")
        except Exception as error:
            told = f"rank 0: {type(error).__name__}: {error}"
            place = Placement(1, "gloo", "cpu", "this process", 1)
            raise RunFailed(Run(place, "warm", failure=told, kept=[kept])) from None

    patch.setattr(ranks, "launch", launch)
    patch.setattr(ranks, "keep", kept.__setitem__)
    return Card(exercise, exercise.judge(answer, seed), 0.0)
