"""What a schedule takes: every instruction starts when its rank is free and what it needs is there.

Nothing else is assumed: no slots, no waves, no formula. Pure Python, one visit an instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real

from labs.schedules.instructions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    Schedule,
)
from labs.schedules.timeline import Timeline

Seconds = float | Sequence[float]  # one for all stages, or one for each


@dataclass(frozen=True)
class Times:
    """How long each thing takes, for all stages or by stage. Any unit, one throughout.

    backward: whole; where a schedule splits it, `backward_weight` of it is W and the rest is I
    (half and half, unless given). message: from the end of a sender's computation until its
    neighbour can start on it; no computation is held up by it.
    """

    forward: Seconds = 1.0
    backward: Seconds = 2.0
    message: float = 0.0
    backward_weight: Seconds | None = None

    def of(self, kind: str, stages: int) -> list[float]:
        """The time of `kind` on each stage.

        Raises ValueError for a list of another length, for what is no time, and for a W that takes
        longer than the whole backward pass.
        """
        whole = _spread("backward", self.backward, stages)
        if self.backward_weight is None:
            weight = [time / 2 for time in whole]
        else:
            weight = _spread("backward_weight", self.backward_weight, stages)
            longer = [(w, b) for w, b in zip(weight, whole, strict=True) if w > b * (1 + 1e-9)]
            if longer:
                raise ValueError(
                    f"backward_weight, {longer[0][0]:g}, is a part of backward, and that is "
                    f"{longer[0][1]:g} only"
                )
        if kind == FORWARD:
            return _spread("forward", self.forward, stages)
        if kind == BACKWARD:
            return whole
        if kind == BACKWARD_WEIGHT:
            return weight
        return [max(0.0, b - w) for b, w in zip(whole, weight, strict=True)]


def _spread(name: str, given: Seconds, stages: int) -> list[float]:
    one = isinstance(given, (Real, str)) or not isinstance(given, Iterable)
    times = [given] * stages if one else list(given)
    if len(times) != stages:
        raise ValueError(f"{name} names {len(times)} times, but there are {stages} stages")
    if not all(isinstance(time, Real) and 0 <= time < float("inf") for time in times):
        raise ValueError(f"{name} must be times of 0 or more; got {given!r}")
    return times


class CannotGoOn(ValueError):
    """No rank can make its next step. `waits`: rank → (its next instruction, the rank it needs)."""

    def __init__(self, schedule: Schedule, waits: dict) -> None:
        self.waits = waits
        told = "; ".join(
            f"rank {rank} is to do {at} and waits for rank {other}"
            for rank, (at, other) in sorted(waits.items())[:4]
        )
        super().__init__(f"{schedule.name} comes to a stop: {told}")


def simulate(schedule: Schedule, times: Times | None = None) -> Timeline:
    """Start and end of every instruction.

    Raises CannotGoOn for an order that waits for ever, ValueError for times that cannot be.
    """
    times = Times() if times is None else times
    for given, kind, how in ((schedule, Schedule, "make(...)"), (times, Times, "Times(...)")):
        if not isinstance(given, kind):
            raise ValueError(f"simulate takes a schedule and times; {given!r} is not made by {how}")
    p, stages, m = schedule.ranks, schedule.stages, schedule.micro_batches
    took = {
        kind: times.of(kind, stages)
        for kind in (FORWARD, BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT)
    }
    (message,), last = _spread("message", times.message, 1), stages - 1
    # When each stage's forward, and the gradient of its input, is done; None: not yet.
    forward_done: list[list] = [[None] * m for _ in range(stages)]
    gradient_done: list[list] = [[None] * m for _ in range(stages)]
    starts = [[0.0] * len(order) for order in schedule.orders]
    ends = [[0.0] * len(order) for order in schedule.orders]
    at, free = [0] * p, [0.0] * p
    asleep: dict[tuple, int] = {}  # what a rank waits for
    awake = list(range(p))
    while awake:
        rank = awake.pop()
        order, n = schedule.orders[rank], at[rank]
        now, start_of, end_of = free[rank], starts[rank], ends[rank]
        while n < len(order):
            kind, i, chunk = order[n]
            stage = chunk * p + rank
            if kind == FORWARD:
                if stage:
                    ready = forward_done[stage - 1][i]
                    if ready is None:
                        asleep[stage - 1, i, True] = rank
                        break
                    if (stage - 1) % p != rank:
                        ready += message
                    now = max(now, ready)
                done = forward_done
            elif kind == BACKWARD_WEIGHT:
                if gradient_done[stage][i] is None:  # its own I comes later: never
                    break
                done = None
            else:
                if stage == last:
                    ready = forward_done[stage][i]
                    needs = (stage, i, True)
                else:
                    ready = gradient_done[stage + 1][i]
                    needs = (stage + 1, i, False)
                    if ready is not None and (stage + 1) % p != rank:
                        ready += message
                if ready is None or forward_done[stage][i] is None:
                    asleep[needs] = rank
                    break
                now = max(now, ready)
                done = gradient_done
            start_of[n] = now
            now += took[kind][stage]
            end_of[n] = now
            n += 1
            if done is not None:
                done[stage][i] = now
                waker = asleep.pop((stage, i, done is forward_done), None)
                if waker is not None and waker != rank:
                    awake.append(waker)
        at[rank], free[rank] = n, now
    if any(n < len(order) for n, order in zip(at, schedule.orders, strict=True)):
        raise CannotGoOn(schedule, _waits(schedule, at))
    return Timeline(schedule, starts, ends)


def _waits(schedule: Schedule, at: list[int]) -> dict:
    found = {}
    for rank, n in enumerate(at):
        if n == len(schedule.orders[rank]):
            continue
        step = schedule.orders[rank][n]
        stage = schedule.stage(rank, step.chunk)
        needs = stage - 1 if step.kind == FORWARD else stage + 1
        other = schedule.home(needs)[0] if 0 <= needs < schedule.stages else rank
        found[rank] = (step, rank if step.kind == BACKWARD_WEIGHT else other)
    return found
