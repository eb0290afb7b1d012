"""The lab's checks: formula against simulator in whole slots, both against what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from labs import formulas
from labs.bubble_math.jobs import CLOCK, COMPUTE, GPIPE, UNEVEN, Timed
from labs.pipeline import agreement as agreeing
from labs.pipeline.agreement import Agreement
from labs.pipeline.orders import schedules
from labs.ranks.run import Run
from labs.result import Check, at_least, by_clock, equal

LESSON = ((4, 4), (4, 32), (4, 64), (8, 32))
"""(p, m) of the figures 42.9, 8.6, 4.5 and 17.9 %."""
CLOCK_NOTE = (
    "simulated devices, real messages: computation takes the time it is told to, so that ranks "
    "that share a core do not distort the bubble"
)


def in_slots(order: Callable) -> list[Check]:
    """Closed form and simulator, exactly."""
    found = []
    for schedule in schedules(GPIPE, order, [(p, m, 1) for p, m in LESSON]):
        found += agreeing.in_slots(GPIPE, schedule)
    return found


def checks(found: Sequence[tuple[Timed, Agreement]], run: Run) -> list[Check]:
    """All checks of one run."""
    held = [(one, agreed) for one, agreed in found if one.section == CLOCK]
    made = agreeing.on_clock([agreed for _, agreed in held])
    made += agreeing.computed([agreed for one, agreed in found if one.section == COMPUTE])
    for one, agreed in found:
        if one.section == COMPUTE:
            times = agreed.typical.times
            made.append(
                by_clock(
                    at_least("real compute: a forward pass takes", round(min(times.forward) /
                             times.message, 1), 5.0, "messages", "long beside a message")
                )
            )  # fmt: skip
        if one.section == UNEVEN:
            made += _uneven(agreed)
        made.append(_sends(one, run))
    return made


def _uneven(one: Agreement) -> list[Check]:
    """Simulator and run agree, and the formula, fed with the mean stage, does not."""
    best = one.best
    label = f"uneven, {one.job.name}"
    made = [
        agreeing.beyond(one, label),
        at_least(f"{label}: the formula for equal stages is off by",
                 round(1 - one.formula / best.wall, 3), 0.05, "of the time", "Huang et al. 2019"),
    ]  # fmt: skip
    return list(map(by_clock, made))


def _sends(one: Timed, run: Run) -> Check:
    schedule, job = one.job.schedule, one.job
    wanted = job.tries * formulas.pipeline_sends(schedule.ranks, schedule.micro_batches)
    got = run.ledger.count(section=job.name, op="send")
    return equal(f"{agreeing.label(job)}: sends", got, wanted,
                 "all ranks", f"2·m·(p-1) a step, {job.tries} steps")  # fmt: skip
