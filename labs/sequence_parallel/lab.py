"""Sequence parallelism in the lab of notebook 04: what runs on the ranks, and its checks.

plan = lab.plan(4)                                # inputs, cut for 4 ranks
run = ranks.launch(lab.on_rank, 4, args=(plan, lab.parts()))
lab.checks(plan, run)                             # -> list of labs.result.Check
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs import ranks
from labs.answers import references
from labs.ranks import Run
from labs.result import Check
from labs.sequence_parallel import (
    activations,
    gradients,
    legality,
    masks,
    masks_checks,
    parity,
    parity_checks,
)
from labs.sequence_parallel.shape import Shape
from labs.sequence_parallel.ways import Parts

SECTIONS = ("sequence parallel", "dropout", "activations")
PARTS = {
    "sequence_scatter_gather": "ring_attention",
    "copy_to_ranks": "tp_linear_pair",
    "reduce_from_ranks": "tp_linear_pair",
}
"""Exercises that the lab is built of → the topic of each."""
SUMS = "sum_gradients"
"""A part besides: (gradients by name, group=None) -> the same, replicated ones summed."""


@dataclass(frozen=True)
class Plan:
    """The jobs of one world of ranks, by section."""

    ranks: int
    jobs: dict[str, parity.Job | masks.Job | activations.Job]


_ROOMS = {
    "sequence parallel": (parity.on_rank, parity_checks.checks),
    "dropout": (masks.on_rank, masks_checks.checks),
    "activations": (activations.on_rank, activations.checks),
}


def parts(**mine: Callable) -> dict[str, Callable]:
    """The functions that the ranks call: `mine` where attempted, else the course's answers.

    mine: by the name of the exercise; or sum_gradients. Raises ValueError for another name, and
    labs.answers.Missing where there is neither.
    """
    unknown = [name for name in mine if name not in (*PARTS, SUMS)]
    if unknown:
        raise ValueError(
            f"{unknown[0]!r} is no part of sequence parallelism; its parts are "
            f"{', '.join(PARTS)} and {SUMS}"
        )
    found = references(PARTS, mine)
    return {**found, SUMS: mine.get(SUMS, gradients.sum_over_ranks)}


def plan(
    n: int,
    *,
    only: Iterable[str] | str = SECTIONS,
    shape: Shape | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    timed: bool = True,
) -> Plan:
    """Inputs for `n` ranks.

    only: some of SECTIONS. shape: None is one that `n` ranks can share. dtype: of the sections that
    are held against one device. timed: whether the time of recompute is measured. Raises
    ValueError, with the numbers, for what the ranks cannot share.
    """
    only = (only,) if isinstance(only, str) else tuple(only)
    unknown = [name for name in only if name not in SECTIONS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no section; there are {', '.join(SECTIONS)}")
    shape = shape or Shape.shared_by(n)
    legality.check(shape.d, shape.heads, shape.length, n)
    makers = {
        "sequence parallel": lambda: parity.make(n, shape, seed, dtype),
        "dropout": lambda: masks.make(n, shape, seed, dtype),
        "activations": lambda: activations.make(n, shape, seed, timed),
    }
    return Plan(n, {name: makers[name]() for name in SECTIONS if name in only})


def on_rank(plan: Plan, parts: Parts) -> dict[str, dict]:
    """What a rank executes. By section of the ledger: tensors and counts that the checks read."""
    ranks.name_axis(dist.group.WORLD, "tp")
    found: dict[str, dict] = {}
    for number, (name, job) in enumerate(plan.jobs.items()):
        ranks.step(number + 1, len(plan.jobs))
        found |= _ROOMS[name][0](job, parts)
    return found


def checks(plan: Plan, run: Run) -> list[Check]:
    """Every measurement of the run beside its formula or its reference."""
    return [check for name, job in plan.jobs.items() for check in _ROOMS[name][1](job, run)]


def activation_points(plan: Plan, run: Run) -> list[dict[str, object]]:
    """For figures: each way to run a layer, its bytes by summand: measured and by formula."""
    job = plan.jobs["activations"]
    return [
        dict(
            name=str(case),
            formula=case.formula(job.shape, plan.ranks),
            measured=activations.measured(run, case),
        )
        for case in activations.CASES
    ]
