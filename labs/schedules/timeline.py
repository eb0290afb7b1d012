"""When each instruction of a schedule ran: simulated, or measured on ranks. One form for both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from labs.schedules.instructions import (
    BACKWARD,
    BACKWARD_WEIGHT,
    FORWARD,
    Instruction,
    Schedule,
)


@dataclass(frozen=True)
class Span:
    """One instruction on its rank, from start to end, in the timeline's unit of time."""

    rank: int
    instruction: Instruction
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """`starts[rank][n]` and `ends[rank][n]` of the n-th instruction of the rank's order."""

    schedule: Schedule
    starts: Sequence[Sequence[float]]
    ends: Sequence[Sequence[float]]

    def spans(self) -> Iterator[Span]:
        for rank, order in enumerate(self.schedule.orders):
            for n, at in enumerate(order):
                yield Span(rank, at, self.starts[rank][n], self.ends[rank][n])

    @cached_property
    def makespan(self) -> float:
        """From the first start to the last end."""
        first = min((start[0] for start in self.starts if start), default=0.0)
        return max((max(end) for end in self.ends if end), default=0.0) - first

    def busy(self, rank: int) -> float:
        """Time in which the rank computed."""
        return sum(e - s for s, e in zip(self.starts[rank], self.ends[rank], strict=True))

    def idle(self, rank: int) -> float:
        """The rank's part of the makespan in which it did not compute."""
        return self.makespan - self.busy(rank)

    @property
    def bubble_share(self) -> float:
        """Idle time of all ranks ÷ (ranks × makespan): the share of the **total** time."""
        whole = self.schedule.ranks * self.makespan
        return sum(map(self.idle, range(self.schedule.ranks))) / whole if whole else 0.0

    def stored(self, rank: int) -> list[tuple[float, int]]:
        """(time, how many) whenever the number of stored forward passes of the rank changes.

        One is stored from the start of its F to the end of its B, or of its W where the backward is
        split: the weights' gradient needs it until then.
        """
        found, now = [], 0
        ended = (BACKWARD, BACKWARD_WEIGHT) if self.schedule.splits_backward else (BACKWARD,)
        times = zip(self.schedule.orders[rank], self.starts[rank], self.ends[rank], strict=True)
        for at, start, end in times if self.schedule.has_backward else ():
            if at.kind == FORWARD:
                now += 1
                found.append((start, now))
            elif at.kind in ended:
                now -= 1
                found.append((end, now))
        return found

    def peak_stored(self, rank: int) -> int:
        """Most forward passes (of one chunk each) that the rank stores at once."""
        return max((count for _, count in self.stored(rank)), default=0)
