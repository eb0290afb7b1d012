"""The same stages and weights under torch's own schedules (torch.distributed.pipelining)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from labs import ranks
from labs.gpt import GPT, token_losses
from labs.pipeline.jobs import Job, data
from labs.pipeline.partition import cut

CLASSES = {
    "gpipe": "ScheduleGPipe",
    "one_f_one_b": "Schedule1F1B",
    "interleaved": "ScheduleInterleaved1F1B",
    "zero_bubble": "ScheduleInterleavedZeroBubble",
}
"""torch has no ZB-H1: its zero-bubble schedule of several chunks a rank stands beside it."""


def mean_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean over the tokens of a micro-batch; torch divides by the number of micro-batches."""
    return token_losses(logits, targets).mean()


def on_rank(jobs: Sequence[tuple[str, Job]]) -> list[dict]:
    """On a rank: loss and gradients of each job under torch's schedule of that name."""
    return [_step(name, job) for name, job in jobs]


def make(name: str, job: Job, model: GPT) -> object:
    """torch's schedule object on this rank, for the model's stages."""
    from torch.distributed import pipelining  # late: it imports torch's compiler

    schedule, rank = job.schedule, dist.get_rank()
    stages = cut(model, schedule.stages)
    mine = [
        pipelining.PipelineStage(
            stages[schedule.stage(rank, chunk)], schedule.stage(rank, chunk), schedule.stages,
            ranks.device(),
        )
        for chunk in range(schedule.chunks)
    ]  # fmt: skip
    cls = getattr(pipelining, CLASSES[name])
    loops = name in ("interleaved", "zero_bubble")
    return cls(mine if loops else mine[0], schedule.micro_batches, loss_fn=mean_loss)


def step(made: object, job: Job, tokens: torch.Tensor, targets: torch.Tensor) -> list:
    """One step; the micro-batches' losses on the rank of the last stage, else nothing."""
    schedule, losses = job.schedule, []
    rank, (last, _) = dist.get_rank(), schedule.home(schedule.stages - 1)
    given = (tokens,) if rank == 0 else ()
    if rank == last:
        made.step(*given, target=targets, losses=losses)
    else:
        made.step(*given)
    return losses


def _step(name: str, job: Job) -> dict:
    here = ranks.device()
    model, of = GPT(job.model, job.seed).to(here, job.dtype), data(job)
    with ranks.section(f"torch: {CLASSES[name]}"):
        losses = step(make(name, job, model), job, of.tokens.to(here), of.targets.to(here))
    held = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return dict(gradients=held, loss=torch.stack(losses).mean().item() if losses else None)
