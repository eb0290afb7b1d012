"""What a ring takes: a dependency simulator of ring attention, forward and backward. Pure Python.

A rank posts the message of its block to the right and of the next one from the left, works on the
block at hand, then waits for both messages. A message starts when both its ends have posted it. In
the backward pass the sums of gradients follow one step behind: before a rank adds to them it waits
for what its left neighbour posted at the end of the step before.

Nothing else is assumed: no formula, no lock-step. Messages do not slow each other down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.context_parallel.clock.timeline import (
    BACKWARD,
    FORWARD,
    KV,
    SUMS,
    Computation,
    Message,
    RingTimeline,
)
from labs.formulas.sizes import need_times

Steps = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Times:
    """How long each thing takes; any unit, one throughout.

    forward, backward   [rank][step]: work on the block of that step, 0 where it is skipped;
                        backward None: no such pass
    kv, sums            a message of K, V, and one of dK, dV
    overlap             False: a rank waits for its messages before it works on anything
    """

    forward: Steps
    backward: Steps | None = None
    kv: float = 0
    sums: float = 0
    overlap: bool = True


def simulate(times: Times) -> RingTimeline:
    """Start and end of every computation and message.

    Raises ValueError for a ragged table, and for what is no time: below 0, or no number.
    """
    tables = [times.forward] if times.backward is None else [times.forward, times.backward]
    for steps in tables:
        rows = steps if isinstance(steps, Sequence) else [steps]
        if not rows or not all(isinstance(row, Sequence) for row in rows):
            raise ValueError(f"times are a row of numbers for each rank, got {steps!r}")
    ranks = len(times.forward)
    for steps in tables:
        if len(steps) != ranks or any(len(row) != ranks for row in steps):
            found = " + ".join(str(len(row)) for row in steps)
            raise ValueError(
                f"a ring of {ranks} ranks has {ranks} steps on each of them; the table has {found}"
            )
        for rank, row in enumerate(steps):
            need_times(**{f"step {step} of rank {rank}": took for step, took in enumerate(row)})
    need_times(kv=times.kv, sums=times.sums)
    ring = _Ring(times, ranks)
    ring.forward()
    if times.backward is not None:
        ring.backward()
    return RingTimeline(ranks, ring.computations, ring.messages)


class _Ring:
    """All ranks, a step at a time: what a rank needs of its neighbours is of this step or before,
    so that one pass over the steps knows everything, however far apart in time the ranks are."""

    def __init__(self, times: Times, ranks: int) -> None:
        self.times, self.ranks = times, ranks
        self.now: list[float] = [0] * ranks  # when each rank goes on
        self.computations: list[Computation] = []
        self.messages: list[Message] = []

    def forward(self) -> None:
        for step in range(self.ranks):
            there = self._pass_on(FORWARD, KV) if step + 1 < self.ranks else None
            if there and not self.times.overlap:
                self._wait(there)
            self._compute(FORWARD, self.times.forward, step)
            if there:
                self._wait(there)

    def backward(self) -> None:
        sums: list[float] | None = None  # when those that were posted a step ago are there
        for step in range(self.ranks):
            there = self._pass_on(BACKWARD, KV) if step + 1 < self.ranks else None
            if there and not self.times.overlap:
                self._wait(there)
            self._compute(BACKWARD, self.times.backward, step)
            if sums:
                self._wait(sums)
            if self.ranks > 1:
                sums = self._pass_on(BACKWARD, SUMS)
                if not self.times.overlap:
                    self._wait(sums)
            if there:
                self._wait(there)
        if sums:
            self._wait(sums)

    def _pass_on(self, phase: str, what: str) -> list[float]:
        """Every rank posts a send to the right, a receive from the left. By rank that receives,
        when the message is there."""
        took = self.times.kv if what == KV else self.times.sums
        there = [0.0] * self.ranks
        for rank in range(self.ranks):
            right = (rank + 1) % self.ranks
            start = max(self.now[rank], self.now[right])
            self.messages.append(Message(rank, phase, what, start, start + took))
            there[right] = start + took
        return there

    def _wait(self, there: list[float]) -> None:
        """Each rank goes on when its message has come and its own has arrived at the right."""
        for rank in range(self.ranks):
            sent = there[(rank + 1) % self.ranks]
            self.now[rank] = max(self.now[rank], there[rank], sent)

    def _compute(self, phase: str, table: Steps, step: int) -> None:
        for rank in range(self.ranks):
            took, begin = table[rank][step], self.now[rank]
            if took:
                block = (rank - step) % self.ranks
                self.computations.append(Computation(rank, phase, block, begin, begin + took))
                self.now[rank] = begin + took
