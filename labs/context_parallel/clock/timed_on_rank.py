"""What a rank executes: one timed ring after the other, on simulated devices.

Wall time is taken outside of ring and device: from a moment that all ranks agree on to the end of
the rank's own pass. The messages are gloo's, whatever the machine has: a device that sleeps is on
the CPU. How long a message takes is measured in the same job, with nothing computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist

from labs import ranks
from labs.context_parallel.clock.blocking import blocking
from labs.context_parallel.clock.device import RingClock, Worked, passed_round
from labs.context_parallel.clock.slow_link import slow_link
from labs.context_parallel.clock.timed_jobs import BACKWARD, FEW, WIDTH, Timed
from labs.context_parallel.clock.timeline import KV, SUMS
from labs.context_parallel.clock.watched import Posted, Watch
from labs.pipeline.on_rank import together

_QUIET = 0.005  # seconds after a try in which a rank leaves the cores to those that end it too


def on_rank(parts: Mapping[str, Callable], jobs: Sequence[Timed]) -> list[dict | None]:
    """What the rank has to tell of each job; None where it takes no part.

    parts: "ring_forward" and "ring_backward"
    """
    torch.set_num_threads(1)  # what is computed is nothing; threads would only wait for each other
    groups = {}
    for size in sorted({job.ranks for job in jobs}):
        groups[size] = dist.new_group(range(size), backend="gloo")
        if dist.get_rank() < size:
            ranks.name_axis(groups[size], "cp")
    found: list[dict | None] = []
    hops: dict[tuple, float] = {}
    for number, job in enumerate(jobs):
        ranks.step(number + 1, len(jobs))
        part = dist.get_rank() < job.ranks
        with slow_link(job.link) as slow:
            told = _Part(job, groups[job.ranks], parts, hops).run() if part else None
        found.append(told and told | {"slow_link": slow})
    return found


class _Part:
    """One rank's part of one job."""

    def __init__(
        self, job: Timed, group: dist.ProcessGroup, parts: Mapping[str, Callable],
        hops: dict[tuple, float],
    ) -> None:  # fmt: skip
        self.job, self.group, self.rank = job, group, dist.get_rank(group)
        self.rings = [parts["ring_forward"], parts["ring_backward"]]
        if job.blocking:
            self.rings = [blocking(ring) for ring in self.rings]
        queries, self.k_places = job.places()
        self.q_places = queries[self.rank]
        n_q, n_k = queries.shape[1], self.k_places.shape[1]
        width, dtype = (1, torch.bfloat16) if job.causal else (WIDTH, torch.float32)
        self.q = torch.zeros(1, 1, n_q, width, dtype=dtype)
        self.k, self.v = torch.zeros(2, 1, 1, n_k, width, dtype=dtype)
        block = torch.stack([self.k, self.v])
        with ranks.section(f"{job.name}: messages alone"):
            self.kv = self._hop(block, hops)
            self.sums = self._hop(block.float(), hops) if job.causal else 0.0
        whole = FEW * n_k  # pairs of a block
        self.pair = job.pair if job.causal else job.of_message * self.kv / whole

    def _hop(self, block: torch.Tensor, known: dict[tuple, float]) -> float:
        """Seconds that such a block takes to the neighbour, the same number on all ranks."""
        key = (self.job.ranks, block.nbytes)
        if key not in known:
            known[key] = min(passed_round(block, self.group))
        return known[key]

    def run(self) -> dict:
        """Times of a try count from `began`, which is by time.time as the run's timeline has it."""
        tries = []
        for _ in range(self.job.tries):
            with Watch() as watch:
                origin = together(self.group)
                clock = RingClock(self.pair, BACKWARD, self.job.work, watch, free=origin)
                time.sleep(max(0.0, origin - time.monotonic()))
                with ranks.section(self.job.name, timeline=True):
                    lse, dv, split = self._pass(clock, watch)
                    wall = time.monotonic() - origin
                    time.sleep(_QUIET)
            blocks = [self._block(one, origin) for one in clock.blocks]
            messages = [
                self._message(one, origin, n < split) for n, one in enumerate(watch.messages)
            ]
            began = time.time() - (time.monotonic() - origin)
            tries.append(
                dict(wall=wall, began=began, blocks=blocks, messages=messages,
                     keys=lse.exp().round().long().flatten().tolist(),
                     ranks=None if dv is None else sorted(set(dv.flatten().tolist())))
            )  # fmt: skip
        return dict(tries=tries, pair=self.pair, kv=self.kv, sums=self.sums)

    def _pass(
        self, clock: RingClock, watch: Watch
    ) -> tuple[torch.Tensor, torch.Tensor | None, int]:
        """lse, dv, and how many messages were posted forward."""
        q, k, v, places = self.q, self.k, self.v, (self.q_places, self.k_places)
        out, lse = self.rings[0](q, k, v, *places, clock.attend, self.group)
        forward = len(watch.messages)
        if not self.job.causal:
            return lse, None, forward
        attend_backward = clock.attend_backward
        _, _, dv = self.rings[1](q, q, k, v, out, lse, *places, attend_backward, self.group)
        return lse, dv, forward

    def _block(self, one: Worked, origin: float) -> dict:
        same = (self.k_places == one.k_places).all(dim=1)
        told = {name: getattr(one, name) for name in ("phase", "pairs", "worked")}
        return dict(**told, block=int(same.int().argmax()), start=one.start - origin,
                    end=one.end - origin, under_way=(one.sends, one.receives))  # fmt: skip

    def _message(self, one: Posted, origin: float, forward: bool) -> dict:
        what = KV if forward or one.tensor.dtype == self.k.dtype else SUMS
        when = {
            name: getattr(one, name) and getattr(one, name) - origin
            for name in ("posted", "arrived", "waited", "done")
        }
        return dict(op=one.op, what=what, forward=forward, **when)
