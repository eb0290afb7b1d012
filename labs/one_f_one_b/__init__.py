"""1F1B and its kin: orders in which the ranks of a pipeline compute, what they take and store.

    rank 0   F0 F1 F2 F3 B0 F4 B1 F5 B2 …
    rank 3            F0 B0 F1 B1 F2 B2 …

`run(ranks=4)` runs GPipe, 1F1B, interleaved 1F1B, breadth-first and ZB-H1 on real ranks and holds
wall time, order, what is stored, what is sent and every stage's gradients against formula,
simulator and one device, and beside torch's own schedules.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from labs import ranks, unanswered
from labs.answers import Missing, references
from labs.one_f_one_b import accounts, copies, torch_native
from labs.one_f_one_b.jobs import (
    CLOCK,
    COPIES,
    SECTIONS,
    SLOTS,
    TORCH,
    Orders,
    Planned,
    chunks,
    jobs,
)
from labs.one_f_one_b.parity import parity
from labs.pipeline import refuse
from labs.pipeline.computed import computed
from labs.pipeline.jobs import TINY, Job, limit
from labs.pipeline.on_rank import on_rank
from labs.pipeline.parity import held
from labs.ranks import Run
from labs.result import Result
from labs.schedules.known import KNOWN
from labs.sections import chosen

TOPIC = "one_f_one_b"
MICRO_BATCHES = (4, 8, 32)
PARTS = (*(known.order for known in KNOWN.values()), "micro_batch_loss")
__all__ = ["MICRO_BATCHES", "PARTS", "SECTIONS", "TOPIC", "Result", "command", "run"]


def command(ranks: int = 4) -> str:
    """The plain torchrun command of this lab."""
    return f"torchrun --nproc-per-node {ranks} -m labs.{TOPIC}"


def run(
    ranks: int = 4,
    *,
    only: Iterable[str] | str | None = None,
    micro_batches: Iterable[int] = MICRO_BATCHES,
    forward: float = 0.010,
    tries: int = 2,
    mode: str | None = None,
    status: bool = True,
    **mine: Callable,
) -> Result:
    """The lab on `ranks` real ranks.

    only: some of SECTIONS; micro_batches: the numbers that are timed; forward: seconds of a forward
    pass on a simulated device, a backward pass takes twice as long; tries: steps of each timed run,
    the best counts; mode: "warm" or "cold"; mine: orders of your own, by the name of the exercise,
    in place of the course's.

    Raises ValueError, before anything is launched, for what cannot be.
    """
    sections = chosen(TOPIC, SECTIONS, only)
    asked = refuse.micro_batches(micro_batches)
    refuse.step(ranks, max(asked), forward, tries)
    unknown = [name for name in mine if name not in PARTS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no part of {TOPIC}; its parts are {', '.join(PARTS)}")
    refuse.orders(**mine)
    result = Result(TOPIC, dict(ranks=ranks, micro_batches=asked, forward=forward))
    if CLOCK in sections:
        left = filter(None, (refuse.no_multiple(m, ranks) for m in asked))
        result.notes += [f"interleaved 1F1B is left out: {told}" for told in left]
    try:
        parts = references(dict.fromkeys(PARTS, TOPIC), mine)
    except Missing as missing:
        return unanswered.told(result, missing)
    begun = time.monotonic()
    orders = Orders(parts)
    if SLOTS in sections:
        result.checks += accounts.in_slots(orders)
    if TORCH in sections and ranks > 1:
        told = native_jobs(orders, ranks)
        args = (torch_native.on_rank, ranks, (told,))
        take_native(result, told, _launch(*args, [job for _, job in told], mode, status))
    if COPIES in sections and ranks % 4 == 0:  # two stages, each over two ranks or more
        ways = [(copies.on_rank, ranks, (way,), []) for way in copies.WAYS]
        runs = [_launch(*args, mode, status) for args in ways]
        result.checks += copies.checks(runs)
        result.run = runs[-1]
    planned = jobs(orders, ranks, sections, asked, forward, tries)
    if planned:
        todo = [one.job for one in planned]
        args = (on_rank, ranks, (todo, parts["micro_batch_loss"]))
        take(result, planned, _launch(*args, todo, mode, status))
    result.seconds = time.monotonic() - begun
    return result


def _launch(
    function: Callable, n: int, args: tuple, todo: list[Job], mode: str | None, status: bool
) -> Run:
    return ranks.launch(function, n, args=args, limit=limit(todo), mode=mode, status=status)


def take(result: Result, planned: list[Planned], run: Run) -> None:
    """Add the checks of a run of these jobs to a result, and what figures draw from."""
    result.run = run
    made, agreed = accounts.checks(planned, run)
    result.checks += [*made, *parity(planned, run)]
    result.values["timed"] = agreed
    result.values["planned"] = planned
    result.computed += computed([one.job for one in planned], run)
    result.notes += map(str, agreed)


def native_jobs(orders: Orders, n: int) -> list[tuple[str, Job]]:
    """What runs under torch's schedules: the same model and stages, each with weights of its own.

    With one set of weights for all, the gradients of one schedule could pass for another's.
    """
    found = []
    for seed, (name, title) in enumerate(torch_native.CLASSES.items()):
        # torch's zero-bubble schedule has two chunks a rank, placed as the interleaved one's.
        schedule = orders.one("interleaved" if name == "zero_bubble" else name, n, 2 * n, 2)
        layers = max(TINY.layers, n * chunks("interleaved"))
        shape = type(TINY)(layers, TINY.d, TINY.heads, TINY.length)
        found.append((name, Job(title, schedule, None, shape, rows=2, seed=seed)))
    return found


def take_native(result: Result, told: list[tuple[str, Job]], run: Run) -> None:
    """Add torch's loss and gradients against one device."""
    result.run = run
    for number, (_, job) in enumerate(told):
        by_rank = [value[number] for value in run.values]
        loss = next(one["loss"] for one in by_rank if one["loss"] is not None)
        label = f"torch {job.name}, m={job.schedule.micro_batches}"
        result.checks += held(label, job, [one["gradients"] for one in by_rank], loss)
