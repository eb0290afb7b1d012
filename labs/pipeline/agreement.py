"""Three ways to the same number: the formula, the simulator, and the ranks; and what is left over.

A rank's own report is never the measurement: wall time is taken outside of executor and device
clock (labs/pipeline/on_rank.py), and the bubble is what of it was not computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.pipeline.jobs import Job
from labs.ranks.run import Run
from labs.result import Check, at_most, by_clock, equal, near
from labs.schedules.instructions import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, Schedule
from labs.schedules.known import Known
from labs.schedules.simulate import Times, simulate
from labs.schedules.timeline import Timeline

RESIDUAL = 0.004
"""Seconds that a run may take longer than simulated, or less."""
SHARE = 0.01
"""How far a measured bubble share may be off its formula."""
COMPUTED = 0.1
"""How far a run that really computes may be off the simulator, as a share."""


@dataclass(frozen=True)
class Try:
    """One step as it was simulated and as it ran. Seconds."""

    simulated: Timeline
    measured: Timeline
    wall: float  # from the agreed start until the last rank was done
    times: Times

    @property
    def residual(self) -> float:
        """Measured minus simulated."""
        return self.wall - self.simulated.makespan

    @property
    def share(self) -> float:
        """What of the ranks' wall time was not computation."""
        schedule = self.simulated.schedule
        work = sum(map(self.simulated.busy, range(schedule.ranks)))
        return 1 - work / (schedule.ranks * self.wall)


@dataclass(frozen=True)
class Agreement:
    """One job: computed, simulated, run. known: None where no formula applies."""

    job: Job
    known: Known | None
    tries: tuple[Try, ...]
    in_order: bool  # whether each rank computed in the schedule's order, each time

    @property
    def best(self) -> Try:
        """The try with the least residual: what else the machine does only adds to one."""
        return min(self.tries, key=lambda one: one.residual)

    @property
    def typical(self) -> Try:
        """The try with the median residual."""
        return sorted(self.tries, key=lambda one: one.residual)[len(self.tries) // 2]

    @property
    def formula(self) -> float | None:
        """Seconds by the formula; of stages that differ it is given the mean."""
        return self.known and self.known.seconds(self.job.schedule, self.best.times)

    def __str__(self) -> str:
        one = self.best
        told = [] if self.formula is None else [f"formula {self.formula * 1e3:.1f}"]
        told += [
            f"simulated {one.simulated.makespan * 1e3:.1f}",
            f"measured {one.wall * 1e3:.1f} ms",
        ]
        return (
            f"{label(self.job)}: {' · '.join(told)}, residual {one.residual * 1e3:+.1f} ms; "
            f"bubble {one.share:.1%}"
        )


def agreement(job: Job, known: Known | None, run: Run, number: int) -> Agreement:
    """What `run`, whose job of that number this was, came to."""
    schedule = job.schedule
    told = [value[number] for value in run.values[: schedule.ranks]]
    message = told[0].get("message", 0.0)
    tries, in_order = [], True
    for n in range(job.tries):
        steps = [one["steps"][n] for one in told]
        in_order &= all(
            [tuple(at) for at in step["done"]] == [tuple(at) for at in order]
            for step, order in zip(steps, schedule.orders, strict=True)
        )
        measured = Timeline(schedule, [s["starts"] for s in steps], [s["ends"] for s in steps])
        times = job.times or mean_times(measured, message)
        wall = max(one["walls"][n] for one in told)
        tries.append(Try(simulate(schedule, times), measured, wall, times))
    return Agreement(job, known, tuple(tries), in_order)


def mean_times(measured: Timeline, message: float) -> Times:
    """What the ranks' computations took in a step, the mean for each stage and kind. Seconds."""
    schedule = measured.schedule
    spans: dict[tuple[str, int], list[float]] = {}
    for span in measured.spans():
        stage = schedule.stage(span.rank, span.instruction.chunk)
        spans.setdefault((span.instruction.kind, stage), []).append(span.end - span.start)

    def mean(kind: str) -> list[float]:
        found = [spans.get((kind, stage), [0.0]) for stage in range(schedule.stages)]
        return [sum(one) / len(one) for one in found]

    inputs, weights = mean(BACKWARD_INPUT), mean(BACKWARD_WEIGHT)
    whole = mean(BACKWARD)
    if schedule.splits_backward:
        whole = [i + w for i, w in zip(inputs, weights, strict=True)]
    return Times(mean(FORWARD), whole, message, weights)


def label(job: Job) -> str:
    """How checks call a job: what is special of it, its schedule, its sizes."""
    s = job.schedule
    shown = f"{s.name}, p={s.ranks}, m={s.micro_batches}"
    if job.name.startswith(shown):  # and says more: another job of that schedule is told apart
        return job.name
    return f"{job.name}: {shown}" if job.name and not job.name.startswith(s.name) else shown


def in_slots(known: Known, schedule: Schedule) -> list[Check]:
    """The simulator against the formula in whole slots (f = 1, b = 2), with nothing measured."""
    p, times = schedule.ranks, Times(forward=1, backward=2)
    simulated, formula = simulate(schedule, times), known.seconds(schedule, times)
    idle = formula - schedule.micro_batches * schedule.chunks * 3
    shown = f"{schedule.name}, p={p}, m={schedule.micro_batches}"
    return [
        equal(f"{shown}: simulated time", _whole(simulated.makespan), _whole(formula),
              "slots of a chunk's forward pass", known.source),
        equal(f"{shown}: simulated idle time, all ranks",
              _whole(sum(map(simulated.idle, range(p)))), _whole(p * idle), "slots", known.source),
    ]  # fmt: skip


def _whole(number: float) -> float:
    """Halves and whole numbers as they are; thirds of slots do not occur."""
    return round(number, 9)


def on_clock(found: Sequence[Agreement]) -> list[Check]:
    """Runs on simulated devices, against the simulator and the formula."""
    checks = []
    for one in found:
        checks += [_order(one), beyond(one, label(one.job))]
        if one.known is not None:
            share = round(100 * one.known.share(one.job.schedule, one.job.times), 2)
            got = round(100 * one.best.share, 2)
            checks.append(
                by_clock(
                    near(f"{label(one.job)}: bubble share", got, share, 100 * SHARE,
                         "% of the total time", one.known.source)
                )
            )  # fmt: skip
    return checks


def beyond(one: Agreement, name: str) -> Check:
    """Wall time minus simulated time. Less than none would be a run that left something out."""
    residual = round(one.best.residual * 1e3, 3)
    return by_clock(
        near(f"{name}: wall time beyond the simulated", residual, 0, RESIDUAL * 1e3, "ms",
             "simulator")
    )  # fmt: skip


def computed(found: Sequence[Agreement]) -> list[Check]:
    """Runs that really compute, against the simulator fed with what their computations took."""
    checks = []
    for one in found:
        apart = abs(one.typical.residual) / one.typical.simulated.makespan
        checks += [
            _order(one),
            by_clock(
                at_most(f"{label(one.job)}: difference of wall time from the simulated",
                        round(apart, 4), COMPUTED, "of the simulated", "simulator")
            ),
        ]  # fmt: skip
    return checks


def _order(one: Agreement) -> Check:
    return equal(f"{label(one.job)}: ranks computed in the schedule's order", one.in_order, True,
                 "", "the schedule")  # fmt: skip
