"""The longest sequence whose attention fits in a budget of bytes a rank: computed, then run.

Each way runs at the length that the formula gives, with some room left for what a kernel takes
itself, where it must fit; and just past the length that fills the budget with nothing but what the
formula counts, where it must not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs import formulas
from labs.context_parallel.jobs import Job
from labs.result import Check, at_least, at_most
from labs.ring_attention.memory import MIB, SHAPE, WORKSPACE, Peak, full_jobs, ring_jobs

BUDGET = 16 * MIB


@dataclass(frozen=True)
class Longest:
    """The length that fits by the formula, and the jobs that show it."""

    budget: int
    full: int
    ring: int
    full_jobs: list[Job]
    ring_jobs: list[Job]


def longest(n: int, budget: int = BUDGET) -> Longest:
    """For full attention on one rank, and for the ring of `n` by torch's own kernel."""
    heads, width, e = SHAPE["heads"], SHAPE["head_dim"], SHAPE["dtype"].itemsize
    rooms = (int(budget - 1.25 * WORKSPACE), budget)  # the kernel takes some, or nothing
    full, over = (formulas.longest_full(room, 1, heads, width, e, 8) for room in rooms)
    ring, far = (formulas.longest_ring(room, 1, heads, width, e, n, 8 * n) for room in rooms)
    over = [full, over + 8], [ring, far + 8 * n]
    flash = [job for job in ring_jobs(n, over[1]) if job.block == "flash"]
    return Longest(budget, full, ring, full_jobs(over[0]), flash)


def checks(found: Longest, peaks: Sequence[Peak]) -> list[Check]:
    """At the length that was computed the peak fits; past the other it does not."""
    made = []
    for what, length in (("full attention", found.full), ("the ring", found.ring)):
        of = [one for one in peaks if (one.job in found.full_jobs) == (what == "full attention")]
        fits, over = of
        made += [
            at_most(f"{what} at T={length:,}, the longest by formula: peak a rank",
                    fits.peak / MIB, found.budget / MIB, "MiB", "the budget"),
            at_least(f"{what} at T={over.job.length:,}: peak a rank", over.peak / MIB,
                     found.budget / MIB, "MiB", "more than the budget"),
        ]  # fmt: skip
    return made
