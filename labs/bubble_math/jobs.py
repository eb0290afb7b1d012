"""What the lab runs, as data: pipelines on simulated devices, with real computation, and uneven."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labs.pipeline.jobs import Job, computing
from labs.pipeline.orders import legal, schedules
from labs.schedules.known import KNOWN, Known
from labs.schedules.simulate import Times

FORMULA, CLOCK, COMPUTE, UNEVEN = "formula", "device clock", "real compute", "uneven"
SECTIONS = (FORMULA, CLOCK, COMPUTE, UNEVEN)
GPIPE = KNOWN["gpipe"]
COMPUTE_RANKS, COMPUTE_MICRO_BATCHES = 2, 8
SLOWER = 1.5
"""How much longer the straggler, and the last stage with its head, take than the others."""


@dataclass(frozen=True)
class Timed:
    """One job, the section it belongs to, and its formula where one applies."""

    section: str
    job: Job
    known: Known | None


def jobs(
    order: Callable, ranks: int, sections: Sequence[str], micro_batches: Sequence[int],
    forward: float, tries: int,
) -> list[Timed]:  # fmt: skip
    """All jobs of these sections."""
    found = []
    if CLOCK in sections:
        asked = [(ranks, m, 1) for m in micro_batches]
        times = Times(forward, 2 * forward)
        for schedule in legal(schedules(GPIPE, order, asked)):
            name = f"{schedule.name} m={schedule.micro_batches}"
            job = Job(name, schedule, times, tries=tries)
            found.append(Timed(CLOCK, job, GPIPE))
    if COMPUTE in sections and ranks >= COMPUTE_RANKS:
        (schedule,) = legal(schedules(GPIPE, order, [(COMPUTE_RANKS, COMPUTE_MICRO_BATCHES, 1)]))
        found.append(Timed(COMPUTE, computing(schedule), GPIPE))
    if UNEVEN in sections and ranks > 1:
        (schedule,) = legal(schedules(GPIPE, order, [(ranks, 8, 1)]))
        for name, slow in (("straggler: stage 1", 1), ("heavy head: last stage", ranks - 1)):
            times = uneven(ranks, slow, forward)
            found.append(Timed(UNEVEN, Job(name, schedule, times, tries=tries), GPIPE))
    return found


def uneven(ranks: int, slow: int, forward: float) -> Times:
    """One stage takes `SLOWER` times as long as the others."""
    by_stage = [forward * (SLOWER if stage == slow else 1) for stage in range(ranks)]
    return Times(by_stage, [2 * seconds for seconds in by_stage])
