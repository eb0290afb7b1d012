"""Cases that no student sees: other world sizes, uneven shapes, changes whose effect is known.

An exercise without cases of its own here is judged a second time by its public judge, on inputs
from another seed. A release of the course leaves this package out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from labs.exercise import Exercise, Verdict
from labs.ranks.ship import Source


@dataclass(frozen=True)
class Hidden:
    """One hidden case of an exercise: judged as the public ones, and never shown.

    after: a property. Where a public case found it wrong already, this case is left out.
    """

    label: str
    judge: Callable[[Source, int], list[Verdict]]
    most_grown: int = 0  # bytes by which a rank's memory may grow, seen from outside; 0: any
    after: str = ""
    early: int = 0  # bytes that inputs take before that; what grows more then, counts as well


_TOPICS = (
    "ranks_and_collectives", "tp_linear_pair", "bubble_math", "one_f_one_b", "ring_attention",
    "mesh_3d", "planner_widget",
)  # fmt: skip


def hidden_of(exercise: Exercise) -> list[Hidden]:
    """The hidden cases of an exercise, the quickest first."""
    again = Hidden("another seed", exercise.judge)
    if exercise.topic not in _TOPICS:
        return [again]
    module = importlib.import_module(f"labs.grading.hidden.{exercise.topic}")
    return module.CASES.get(exercise.name, [again])
