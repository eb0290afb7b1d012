"""The lab's checks of time, order, storage, traffic: measured beside formula and simulator."""

from __future__ import annotations

from collections.abc import Sequence

from labs import formulas
from labs.one_f_one_b.jobs import (
    CLOCK,
    COMPUTE,
    FIXED_BATCH,
    FULL,
    LET_GO,
    STORED,
    Orders,
    Planned,
    chunks,
)
from labs.pipeline import agreement as agreeing
from labs.pipeline.agreement import Agreement, agreement
from labs.ranks.run import Run
from labs.result import Check, equal, near
from labs.schedules.known import KNOWN
from labs.schedules.lint import lint
from labs.schedules.simulate import Times, simulate

_PART = 0.3
"""How far bytes may be off a whole number of stored micro-batches, in micro-batches."""


def in_slots(orders: Orders) -> list[Check]:
    """The lesson's 78 slots, and every schedule's formula against the simulator, exactly."""
    found = []
    for name in ("gpipe", "one_f_one_b"):
        schedule, each = orders.one(name, 8, 32), Times(1, 1)
        shown = f"{schedule.name}, p=8, m=32, f = b"
        found += [
            equal(f"{shown}: simulated time", simulate(schedule, each).makespan,
                  KNOWN[name].seconds(schedule, each), "slots", KNOWN[name].source),
        ]  # fmt: skip
    for name, known in KNOWN.items():
        schedule = orders.one(name, 4, 8, chunks(name))
        found += agreeing.in_slots(known, schedule)
        found.append(
            equal(f"{schedule.name}, p=4, m=8: complaints of the linter", len(lint(schedule)), 0,
                  "", "the rules of a schedule")
        )  # fmt: skip
    return found


def checks(planned: Sequence[Planned], run: Run) -> tuple[list[Check], list[Agreement]]:
    """All checks of a run, and the timed jobs in their three forms."""
    made, agreed = [], []
    for number, one in enumerate(planned):
        if one.section in (CLOCK, COMPUTE):
            known = one.known if one.timed else None
            found = agreement(one.job, known, run, number)
            agreed.append(found)
            on_clock = one.section == CLOCK
            made += agreeing.on_clock([found]) if on_clock else agreeing.computed([found])
        made += _counted(one, run, number)
    made += _bytes(planned, run)
    return made, agreed


def peaks(one: Planned, run: Run, number: int) -> list[int]:
    """By rank, most forward passes stored at once."""
    told = [value[number] for value in run.values[: one.job.schedule.ranks]]
    return [max(step["peak_stored"] for step in of_rank["steps"]) for of_rank in told]


def _counted(one: Planned, run: Run, number: int) -> list[Check]:
    """What was stored and sent, counted on the ranks."""
    job, s = one.job, one.job.schedule
    p, m, v = s.ranks, s.micro_batches, s.chunks
    known = one.known
    wanted = [known.stored(p, rank, m, v) for rank in range(p)]
    label = agreeing.label(job)
    sends = job.tries * formulas.pipeline_sends(p, m, v)
    where = dict(section=job.name, op="send")
    got = run.ledger.count(**where)
    return [
        equal(f"{label}: most stored at once, by rank", _listed(peaks(one, run, number)),
              _listed(wanted), "forward passes" if v == 1 else "forward passes of a chunk",
              known.source),
        equal(f"{label}: messages", got, sends, "all ranks",
              f"2·m·(p·v-1) a step, {job.tries} steps"),
        equal(f"{label}: bytes of messages", run.ledger.payload_bytes(**where),
              sends * job.message_bytes, "all ranks", "an activation each"),
    ]  # fmt: skip


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _bytes(planned: Sequence[Planned], run: Run) -> list[Check]:
    """Bytes follow the count, at a fixed micro-batch and at a fixed batch, and nothing else."""
    of = {one.job.name: (one, n) for n, one in enumerate(planned) if one.section == STORED}
    if not of:
        return []

    def peak(name: str) -> list[int]:
        one, number = of[name]
        return [value[number]["peak_bytes"] for value in run.values[: one.job.schedule.ranks]]

    p = next(iter(of.values()))[0].job.schedule.ranks
    few, many, other = (
        peak(f"stored: {name} m={m}")
        for name, m in (("GPipe", p), ("GPipe", 2 * p), ("1F1B", 2 * p))
    )
    found = []
    for rank in range(p):
        each = (many[rank] - few[rank]) / p  # bytes of a stored micro-batch
        less = 2 * p - formulas.stored_1f1b(p, rank, 2 * p)
        found.append(
            near(f"1F1B beside GPipe, m={2 * p}, rank {rank}: fewer bytes",
                 round((many[rank] - other[rank]) / each, 2), less, _PART, "micro-batches",
                 "m - min(m, p - s)")
        )  # fmt: skip
    few, many = (peak(f"{LET_GO} m={m}") for m in (2 * p, FULL * p))
    message = of[f"{LET_GO} m={2 * p}"][0].job.message_bytes
    found += [
        near(f"1F1B, m={FULL * p} beside m={2 * p}, rank {rank}: more bytes",
             round((many[rank] - few[rank]) / message, 2), 0, 1, "messages",
             "what was sent and received is let go")
        for rank in range(p)
    ]  # fmt: skip
    for name, ratio in (("GPipe", 1.0), ("1F1B", min(16, p) / 16 * 4 / min(4, p))):
        first, last = (peak(f"batch of {FIXED_BATCH}: {name} m={m}")[0] for m in (4, 16))
        found.append(
            near(f"{name}, batch of {FIXED_BATCH}: peak bytes on rank 0 at m=16 beside m=4",
                 round(last / first, 3), ratio, 0.15, "times", "stored × size of a micro-batch")
        )  # fmt: skip
    return found
