"""ZeRO-2's sums of gradients beside the backward pass: the real code, on a slow link.

A unit's backward pass is a sleep on a device clock; its gradients then go the way of
labs/data_parallel/zero2.py, with overlap or all at the end. Messages are real, over a link that is
paced (labs/context_parallel/clock/slow_link.py), so that they take their time and no core.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from labs import ranks
from labs.context_parallel.clock.slow_link import slow_link
from labs.data_parallel.adamw import AdamW
from labs.data_parallel.clipping import Clip
from labs.data_parallel.zero2 import ShardedGradients, Unit
from labs.pipeline.device_clock import DeviceClock
from labs.pipeline.on_rank import together

LINK = 100e6
"""Bytes a second that a rank sends."""
_ROUNDS = 9
_QUIET = 0.005  # seconds after a try in which a rank leaves the cores to those that end it too


@dataclass(frozen=True)
class Reduced:
    """One backward pass, run a few times.

    of_message: a unit's backward pass in messages; overlap: sums begin as soon as they can, else
    after the last unit; numel: gradients of a unit, fp32, a multiple of the ranks
    """

    name: str
    of_message: float
    overlap: bool
    units: int = 5
    numel: int = 12 * 2**15
    link: float | None = LINK
    tries: int = 3


@dataclass(frozen=True)
class Pass:
    """(start, end) of each unit's computation and of its message, in the order of the pass."""

    computed: Sequence[tuple[float, float]]
    sent: Sequence[tuple[float, float]]

    @property
    def end(self) -> float:
        """When all gradients are whole."""
        return max(end for _, end in (*self.computed, *self.sent))

    @property
    def exposed(self) -> float:
        """The part of it in which nothing was computed."""
        return self.end - sum(end - start for start, end in self.computed)


def simulate(backward: Sequence[float], message: Sequence[float], overlap: bool) -> Pass:
    """One rank: units one after the other, and a link that carries one message after the other.

    backward, message: seconds of each unit, in the order of the pass.
    """
    computed, sent, now, link = [], [], 0.0, 0.0
    for took in backward:
        computed.append((now, now + took))
        now += took
    for (_, ready), took in zip(computed, message, strict=True):
        start = max(link, ready if overlap else now)
        link = start + took
        sent.append((start, link))
    return Pass(computed, sent)


def on_rank(jobs: Sequence[Reduced]) -> list[dict]:
    """What the rank has to tell of each job.

    message: seconds of one alone, the slowest rank's shortest; slow_link: whether it is paced;
    tries: of each `wall`, `computed` and `sent` (see Pass), `sums`, the smallest and the largest of
    the summed gradients (rank r's are all r + 1), and `went_on`, how often the rank went on from a
    sum that it had begun without having waited for it. Seconds from the common start.
    """
    torch.set_num_threads(1)
    group = dist.new_group(backend="gloo")  # a device that sleeps is on the CPU
    ranks.name_axis(group, "dp")
    found, known, count = [], {}, itertools.count(1)
    for number, job in enumerate(jobs):
        ranks.step(number + 1, len(jobs))
        with slow_link(job.link) as slow:
            if job.numel not in known:
                known[job.numel] = _alone(job, group)
            message = known[job.numel]
            tries = [_once(job, group, message, next(count)) for _ in range(job.tries)]
        found.append(dict(message=message, slow_link=slow, tries=tries))
    return found


def _alone(job: Reduced, group: dist.ProcessGroup) -> float:
    whole = torch.zeros(job.numel)
    share = torch.empty(job.numel // dist.get_world_size(group))
    took = []
    with ranks.section("overlap: a message alone"):
        for _ in range(_ROUNDS):
            dist.barrier(group)
            begun = time.monotonic()
            dist.reduce_scatter_single(share, whole, group=group)
            took.append(time.monotonic() - begun)
        slowest = torch.tensor([min(took)], dtype=torch.float64)
        dist.all_reduce(slowest, dist.ReduceOp.MAX, group)
    return slowest.item()


def _once(job: Reduced, group: dist.ProcessGroup, message: float, number: int) -> dict:
    """Gradients are `number` times the rank + 1, so that memory of another pass has other sums."""
    clock = _Clock(DeviceClock({("B", 0): job.of_message * message}))
    weights = [nn.Parameter(torch.zeros(job.numel)) for _ in range(job.units)]
    sharding = _sharding(weights, group, job, clock)
    y = torch.zeros(1, requires_grad=True)
    for weight in weights:
        y = _Slept.apply(y, weight, clock, float(number * (dist.get_rank(group) + 1)))
    sharding.begin()
    origin = clock.origin = together(group)
    clock.device.start(origin)
    with ranks.section(job.name):
        y.sum().backward()
        clock.send_the_rest()
        sharding.finish()
    wall = time.monotonic() - origin
    time.sleep(_QUIET)
    sums = torch.cat([unit.grad for unit in sharding.units]) / number
    return dict(wall=wall, computed=clock.computed, sent=clock.sent, went_on=clock.went_on,
                sums=(sums.min().item(), sums.max().item()))  # fmt: skip


class _Clock:
    """The device of one rank, and what it did when. later: units whose sums wait for the end."""

    def __init__(self, device: DeviceClock) -> None:
        self.device, self.origin = device, 0.0
        self.computed: list[tuple[float, float]] = []
        self.sent: list[list[float]] = []
        self.later: list[_Watched] = []
        self.went_on = 0

    def take(self) -> None:
        """A unit's backward pass."""
        begun = self.now()
        self.device.compute("B", 0, 0.0, 0.0)
        self.computed.append((begun, self.now()))

    def now(self) -> float:
        return time.monotonic() - self.origin

    def send_the_rest(self) -> None:
        """Now that the backward pass is over."""
        waiting, self.later = self.later, []
        for unit in waiting:
            unit.send()


class _Slept(torch.autograd.Function):
    """A unit: its backward pass takes its time on the clock, and gives a gradient of one number."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, clock: _Clock, number: float
    ) -> torch.Tensor:
        ctx.clock, ctx.number, ctx.size = clock, number, weight.shape
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        ctx.clock.take()
        return grad, torch.full(ctx.size, ctx.number), None, None


class _Watched(Unit):
    """A unit of ZeRO-2 that notes when its sum was under way."""

    clock: _Clock
    at_end = False

    def reduce(self) -> None:
        if self.at_end:
            self.clock.later.append(self)
        else:
            self.send()

    def send(self) -> None:
        when = [self.clock.now(), 0.0]
        self.clock.sent.append(when)
        super().reduce()
        if self.coming is None:  # it was waited for
            when[1] = self.clock.now()
            return
        self.clock.went_on += 1
        work, *rest = self.coming
        self.coming = (_Noted(work, when, self.clock), *rest)


class _Noted:
    """A handle that a thread of its own waits for at once: gloo tells no other way when it ends."""

    def __init__(self, work: dist.Work, when: list[float], clock: _Clock) -> None:
        def wait() -> None:
            work.wait()
            when[1] = clock.now()

        self._thread = threading.Thread(target=wait, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join()


class _Sharded(ShardedGradients):
    unit = _Watched


def _sharding(
    weights: Sequence[nn.Parameter], group: dist.ProcessGroup, job: Reduced, clock: _Clock
) -> _Sharded:
    no_clip = Clip(lambda *_: torch.zeros(()), group, None)
    made = _Sharded([[weight] for weight in weights], group, AdamW(), no_clip, job.overlap)
    for unit in made.units:
        unit.clock, unit.at_end = clock, not job.overlap
    return made
