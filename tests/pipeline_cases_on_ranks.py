"""What test_cases_pipeline.py needs of real ranks, in one launch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from labs.pipeline import on_rank
from labs.pipeline.executor import Executor
from labs.pipeline.jobs import Job
from labs.schedules.instructions import make
from solutions import one_f_one_b as answers


def divided_late(losses, valid, valid_in_batch):
    """Its value is right, and its gradient is that of the sum."""
    total = (losses * valid).sum()
    return total - total.detach() + total.detach() / valid_in_batch


LOSSES = {"right": answers.micro_batch_loss, "late": divided_late}


def cases(jobs: Sequence[tuple[str, Job]]) -> dict:
    """On a rank: each job with its loss, and what reached the last stage of four constants."""
    return dict(
        jobs=[on_rank.on_rank([job], LOSSES[loss])[0] for loss, job in jobs],
        own=arrived([1.0, 2.0, 3.0, 4.0]), same=arrived([1.0] * 4),
    )  # fmt: skip


class _Times(nn.Module):
    """Multiplies by a weight, which is 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def arrived(constants: Sequence[float]) -> list[float]:
    """What the last stage made of each micro-batch, in order; empty on the other ranks."""
    p, m, seen = dist.get_world_size(), len(constants), []
    schedule = make("1F1B", answers.one_f_one_b_order, p, m)

    def loss(y: torch.Tensor) -> torch.Tensor:
        seen.append(y.mean().item())
        return y.mean() / m

    inputs = [torch.full((1, 3), constant) for constant in constants]
    Executor(schedule, [_Times()], (1, 3)).step(inputs, [loss] * m)
    return seen
