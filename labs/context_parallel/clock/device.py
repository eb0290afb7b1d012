"""A simulated device for ring attention: a block takes the time it is told to, messages are real.

`RingClock.attend` and `.attend_backward` stand in for a block's attention. They count what there is
to work on, by the places that the ring hands them, and sleep for as long as that would take. What
they return is small or costs nothing, so that two cores are enough for four ranks.

A device starts on a block when it is free and no message holds its rank up, and the rank sleeps
until the end by the clock: a rank that the machine woke late catches up, one that had to wait for a
message does not. A figure made with this says that its devices are simulated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from labs.context_parallel.clock.timeline import BACKWARD, FORWARD
from labs.context_parallel.clock.watched import Watch
from labs.context_parallel.places import pairs, seen

PAIRS, WHOLE, ALL = "masked halves skipped", "own block whole", "nothing skipped"


def _rectangle(q_places: torch.Tensor, k_places: torch.Tensor) -> int:
    """Pairs of the queries that see anything of the block and the keys that anybody sees."""
    part = seen(q_places, k_places)
    return (len(q_places) - part.first) * part.last


WORK: dict[str, Callable[[torch.Tensor, torch.Tensor], int]] = {
    PAIRS: pairs,
    WHOLE: _rectangle,
    ALL: lambda q_places, k_places: len(q_places) * len(k_places),
}
"""What a device works on in a block, in pairs of a query and a key: those that are visible; the
part in which anything is visible, the triangle of a rank's own block computed and masked; all."""


@dataclass(frozen=True)
class Worked:
    """One block that was worked on; seconds by time.monotonic."""

    phase: str
    k_places: torch.Tensor
    pairs: int  # visible ones
    worked: int  # those that it was charged for
    start: float
    end: float
    sends: int  # messages under way when it began
    receives: int


@dataclass
class RingClock:
    """One device.

    pair: seconds for a pair, forward; backward: how many times as long a pair takes there;
    watch: of the messages meanwhile; free: from when on, by time.monotonic, it can start.
    """

    pair: float
    backward: float
    work: str
    watch: Watch
    free: float = 0.0
    blocks: list[Worked] = field(default_factory=list)

    def attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_places: torch.Tensor,
        k_places: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        """As if all scores were 0 and all values: out 0, lse the log of the keys that are seen."""
        self._take(FORWARD, self.pair, q_places, k_places)
        keys = torch.searchsorted(k_places, q_places, right=True)
        lse = keys.to(torch.float32).log().expand(q.shape[:-1])
        return torch.zeros_like(q, dtype=torch.float32), lse

    def attend_backward(
        self, d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        out: torch.Tensor, lse: torch.Tensor, q_places: torch.Tensor, k_places: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        """Adds nothing to dq and dk, and 1 to dv: that counts the ranks which worked on a block."""
        self._take(BACKWARD, self.pair * self.backward, q_places, k_places)
        zero, one = torch.zeros((), dtype=torch.float32), torch.ones((), dtype=torch.float32)
        return zero.expand(q.shape), zero.expand(k.shape), one.expand(v.shape)

    def _take(
        self, phase: str, pair: float, q_places: torch.Tensor, k_places: torch.Tensor
    ) -> None:
        under_way = self.watch.in_flight()
        start = max(self.free, self.watch.held_until)
        worked = WORK[self.work](q_places, k_places)
        self.free = end = start + worked * pair
        visible = pairs(q_places, k_places)
        time.sleep(max(0.0, end - time.monotonic()))
        self.blocks.append(Worked(phase, k_places, visible, worked, start, end, *under_way))


def passed_round(block: torch.Tensor, group: dist.ProcessGroup, rounds: int = 5) -> list[float]:
    """Seconds a hop, of each round, when all ranks pass such a block round and compute nothing.

    The slowest rank's. Buffers are new for each hop, as they are in a ring that computes.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if ranks == 1:
        return [0.0]
    took = []
    for _ in range(rounds):
        dist.barrier(group)
        begun = time.monotonic()
        for _ in range(ranks - 1):
            arriving = torch.empty_like(block)
            ends = [
                dist.P2POp(dist.isend, block, group=group, group_peer=(rank + 1) % ranks),
                dist.P2POp(dist.irecv, arriving, group=group, group_peer=(rank - 1) % ranks),
            ]
            for work in dist.batch_isend_irecv(ends):
                work.wait()
            block = arriving
        took.append((time.monotonic() - begun) / (ranks - 1))
    slowest = torch.tensor(took, dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX, group)
    return slowest.tolist()
