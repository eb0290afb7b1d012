"""When each rank of a ring computed and when each message was on its way: simulated or measured.

A rank's step i works on the block that came to it over i hops. A message belongs to the rank that
sends it, to its right neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FORWARD, BACKWARD = "forward", "backward"
KV, SUMS = "K, V", "dK, dV"
"""What travels: a block of keys and values, and the sums of its gradients."""


@dataclass(frozen=True)
class Computation:
    """One block worked on, in the timeline's unit of time."""

    rank: int
    phase: str  # FORWARD or BACKWARD
    block: int  # of which rank the keys were at the start
    start: float
    end: float


@dataclass(frozen=True)
class Message:
    """One message, from the moment at which both ends had posted it until it was there."""

    rank: int  # that sends
    phase: str
    what: str  # KV or SUMS
    start: float
    end: float


@dataclass(frozen=True)
class RingTimeline:
    """One pass or two of a ring; all ranks start at 0."""

    ranks: int
    computations: Sequence[Computation]
    messages: Sequence[Message]

    @property
    def makespan(self) -> float:
        """Until the last rank has computed all and has its last message."""
        return max((one.end for one in (*self.computations, *self.messages)), default=0)

    def busy(self, rank: int) -> float:
        """Time in which the rank computed."""
        return sum(one.end - one.start for one in self.computations if one.rank == rank)

    def idle(self, rank: int) -> float:
        """The rank's part of the makespan in which it did not compute."""
        return self.makespan - self.busy(rank)
