"""What a rank executes: one job after the other, each a few steps of a pipeline.

Wall time is taken here, outside of executor and device clock: from a moment that all ranks agree on
to the end of the rank's own step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import torch
import torch.distributed as dist

from labs import ranks
from labs.gpt import GPT, token_losses
from labs.pipeline.device_clock import DeviceClock
from labs.pipeline.executor import Executor
from labs.pipeline.jobs import Data, Job, MicroBatchLoss, data
from labs.pipeline.messages import channels
from labs.pipeline.partition import cut, micro_batches
from labs.pipeline.ping_pong import message_seconds
from labs.pipeline.shares import batch, fill
from labs.schedules.instructions import COMPUTE, Schedule
from labs.schedules.simulate import Times

_LEAD = 0.02  # seconds until a step begins, once all ranks have come
_QUIET = 0.005  # seconds after a step in which a rank leaves the cores to those that end it too


def on_rank(
    jobs: Sequence[Job], loss: MicroBatchLoss, handed: ranks.Handed | None = None
) -> list[dict | None]:
    """What the rank has to tell of each job; None where it takes no part.

    handed: by job, the rank's share (labs/pipeline/shares.py); None: it makes all from the seeds.
    """
    # Stages this small gain nothing from more threads; threads that wait for each other on a busy
    # machine cost a hundred times what they compute.
    torch.set_num_threads(1)
    groups = _groups(jobs)
    found, given = [], [None] * len(jobs) if handed is None else handed.get()
    for number, job in enumerate(jobs):
        ranks.step(number + 1, len(jobs))
        if dist.get_rank() < job.schedule.ranks:
            found.append(_Part(job, *groups[job.schedule.ranks], loss, given[number]).run())
        else:
            found.append(None)
        ranks.keep("jobs", len(found))
    return found


def _groups(jobs: Sequence[Job]) -> dict[int, tuple[dist.ProcessGroup, dict | None]]:
    """By size, the group of that many first ranks and its channels. All ranks make all of them."""
    world, found = dist.get_world_size(), {}
    for size in sorted({job.schedule.ranks for job in jobs}):
        group = dist.group.WORLD if size == world else dist.new_group(range(size))
        found[size] = (group, channels(size))
        for one in (group, *(found[size][1] or {}).values()):
            if dist.get_rank(one) >= 0:
                ranks.name_axis(one, "pp")
    return found


class _Part:
    """One rank's part of one job."""

    def __init__(
        self, job: Job, group: dist.ProcessGroup, apart: dict | None, loss: MicroBatchLoss,
        share: dict | None,
    ) -> None:  # fmt: skip
        self.job, self.group, self.rank = job, group, dist.get_rank(group)
        schedule, here = job.schedule, ranks.device()
        self.model = GPT(job.model, job.seed).to(here, job.dtype)
        if share is not None:
            fill(self.model, share["weights"])
        stages = cut(self.model, schedule.stages)
        chunks = [stages[schedule.stage(self.rank, chunk)] for chunk in range(schedule.chunks)]
        of, m = data(job) if share is None else batch(share), schedule.micro_batches
        first, last = of.tokens is not None, of.targets is not None
        self.inputs = [part.to(here) for part in micro_batches(of.tokens, m)] if first else []
        self.losses = _losses(of, m, loss, here) if last else []
        shape = (job.rows, job.model.length, job.model.d)
        clock = job.times and DeviceClock(
            durations(schedule, self.rank, job.times), message=job.times.message
        )
        self.executor = Executor(
            schedule, chunks, shape, job.dtype, device=here, group=group, clock=clock,
            programs=job.programs, channels=apart,
        )  # fmt: skip

    def run(self) -> dict:
        """Every try's step and wall time, and what else the job asks for.

        began: of each try, the moment from which its times count, by time.time as the run's
        timeline has it.
        """
        job, told = self.job, dict(steps=[], walls=[], began=[])
        for _ in range(job.tries):
            self.model.zero_grad()
            origin = together(self.group)
            if job.times is None:  # a device clock waits by itself
                time.sleep(max(0.0, origin - time.monotonic()))
            with ranks.section(job.name, timeline=True):
                step = self.executor.step(self.inputs, self.losses, origin)
                told["walls"].append(time.monotonic() - origin)
                if job.times is not None:  # ranks that end at the same moment share the cores
                    time.sleep(_QUIET)
            told["began"].append(time.time() - (time.monotonic() - origin))
            told["steps"].append(step.to_dict())
        if job.gradients:
            held = {n: p.grad for n, p in self.model.named_parameters() if p.grad is not None}
            told["gradients"] = held
        if job.memory:
            told["peak_bytes"] = self._peak_bytes()
        if job.message_time:
            with ranks.section(f"{job.name}: message"):
                told["message"] = message_seconds(self.executor)
        return told

    def _peak_bytes(self) -> int:
        """Most bytes that a step adds to what is there before it; gradients are there."""
        dist.barrier(self.group)
        with ranks.section(f"{self.job.name}: memory"), ranks.allocations(self.job.name) as seen:
            self.executor.step(self.inputs, self.losses)
        return seen.peak_bytes


def _losses(of: Data, m: int, loss: MicroBatchLoss, here: torch.device) -> list:
    targets, valid = of.targets.to(here), of.valid.to(here)
    parts = zip(micro_batches(targets, m), micro_batches(valid, m), strict=True)
    count = of.count
    return [lambda y, t=t, ok=ok: loss(token_losses(y, t), ok, count) for t, ok in parts]


def durations(schedule: Schedule, rank: int, times: Times) -> dict[tuple[str, int], float]:
    """(kind, chunk): seconds of this rank's computations."""
    by_kind = {kind: times.of(kind, schedule.stages) for kind in COMPUTE}
    return {
        (kind, chunk): by_kind[kind][schedule.stage(rank, chunk)]
        for kind in COMPUTE for chunk in range(schedule.chunks)
    }  # fmt: skip


def together(group: dist.ProcessGroup) -> float:
    """A moment shortly ahead that all ranks of the group agree on, by time.monotonic.

    Where they are on several machines, whose clocks know nothing of each other, each takes its own
    moment after a barrier.
    """
    dist.barrier(group)
    moment = time.monotonic() + _LEAD
    if os.environ.get("LOCAL_WORLD_SIZE", "1") != os.environ.get("WORLD_SIZE", "1"):
        return moment
    told = torch.tensor([moment], dtype=torch.float64, device=ranks.device())
    dist.broadcast(told, group_src=0, group=group)
    return told.item()
