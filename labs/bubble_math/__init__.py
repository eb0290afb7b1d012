"""Bubble math: what share of a pipeline's time is idle, by formula, simulator and real ranks.

    rank 0   F0 F1 F2 F3 ── ── ── ──                idle: (p-1) slots of m + p-1
    rank 1   ── F0 F1 F2 F3 ── ── ──

`run(ranks=4)` runs pipelines on real ranks with real messages, for several numbers of
micro-batches, and holds wall time and bubble against the closed form and a simulation of the same
schedule: on simulated devices, with real computation, and with stages that differ, where the
formula no longer holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from labs import ranks, unanswered
from labs.answers import Missing, reference
from labs.bubble_math import accounts
from labs.bubble_math.jobs import (
    CLOCK,
    COMPUTE,
    COMPUTE_RANKS,
    FORMULA,
    SECTIONS,
    UNEVEN,
    Timed,
    jobs,
)
from labs.pipeline import refuse
from labs.pipeline.agreement import Agreement, agreement
from labs.pipeline.computed import computed
from labs.pipeline.jobs import Job, limit, plain_loss
from labs.pipeline.on_rank import on_rank
from labs.ranks import Run
from labs.result import Result
from labs.schedules import Schedule
from labs.schedules.known import KNOWN
from labs.sections import chosen

TOPIC = "bubble_math"
MICRO_BATCHES = (4, 8, 32)
__all__ = ["MICRO_BATCHES", "SECTIONS", "TOPIC", "Agreement", "Result", "command", "gpipe", "run"]


def command(ranks: int = 4) -> str:
    """The plain torchrun command of this lab."""
    return f"torchrun --nproc-per-node {ranks} -m labs.{TOPIC}"


def gpipe(ranks: int, micro_batches: int, order: Callable | None = None) -> Schedule:
    """GPipe's schedule, all forward passes and then all backward passes. Notebook 03 writes it.

    order: your own, in place of the course's. Raises labs.answers.Missing where there is neither.
    """
    known = KNOWN["gpipe"]
    refuse.orders(order=order)
    return known.make(reference(f"one_f_one_b.{known.order}", order), ranks, micro_batches)


def run(
    ranks: int = 4,
    *,
    only: Iterable[str] | str | None = None,
    micro_batches: Iterable[int] = MICRO_BATCHES,
    forward: float = 0.010,
    tries: int = 2,
    mode: str | None = None,
    status: bool = True,
    gpipe_order: Callable | None = None,
) -> Result:
    """The lab on `ranks` real ranks.

    only: some of SECTIONS; micro_batches: the numbers that are run; forward: seconds of a forward
    pass on a simulated device, a backward pass takes twice as long; tries: steps of each, the best
    counts on simulated devices; mode: "warm" or "cold"; gpipe_order: your own, in place of the
    course's.

    Raises ValueError, before anything is launched, for what cannot be.
    """
    sections = chosen(TOPIC, SECTIONS, only)
    asked = refuse.micro_batches(micro_batches)
    refuse.step(ranks, max(asked), forward, tries)
    refuse.orders(gpipe_order=gpipe_order)
    result = Result(TOPIC, dict(ranks=ranks, micro_batches=asked, forward=forward))
    try:
        order = reference("one_f_one_b.gpipe_order", gpipe_order)
    except Missing as missing:
        return unanswered.told(result, missing)
    begun = time.monotonic()
    if ranks == 1 and COMPUTE in sections:
        result.notes.append(f"{COMPUTE} left out: it takes {COMPUTE_RANKS} ranks")
    if FORMULA in sections:
        result.checks += accounts.in_slots(order)
    todo = jobs(order, ranks, sections, asked, forward, tries)
    if todo:
        told = [one.job for one in todo]
        take(result, todo, _launch(ranks, told, mode, status))
    result.seconds = time.monotonic() - begun
    return result


def take(result: Result, todo: list[Timed], run: Run) -> None:
    """Add the checks of a run of these jobs to a result, and what figures draw from."""
    result.run = run
    found = [(one, agreement(one.job, one.known, run, n)) for n, one in enumerate(todo)]
    result.checks += accounts.checks(found, run)
    result.computed += computed([one.job for one in todo], run)
    for one, agreed in found:
        result.values.setdefault(one.section, []).append(agreed)
        result.notes.append(str(agreed))
    if any(one.section in (CLOCK, UNEVEN) for one in todo):
        result.notes.append(accounts.CLOCK_NOTE)


def _launch(n: int, told: list[Job], mode: str | None, status: bool) -> Run:
    return ranks.launch(
        on_rank, n, args=(told, plain_loss), limit=limit(told), mode=mode, status=status
    )
