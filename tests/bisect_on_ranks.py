"""Steps that are wrong on purpose, watched point by point, all in one world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from labs.mesh import probe
from labs.mesh.config import Config
from labs.mesh.trainer import Trainer


def forgotten_f(x: torch.Tensor, group: Any = None) -> torch.Tensor:
    return x.view_as(x)


class _SummedTwice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group, total = group, x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple:
        total = grad.clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


def g_summed_twice(x: torch.Tensor, group: Any = None) -> torch.Tensor:
    return _SummedTwice.apply(x, group)


def forgotten_g(x: torch.Tensor, group: Any = None) -> torch.Tensor:
    return x.view_as(x)


def mean_again(weights: torch.Tensor, grads: torch.Tensor, update: Callable, group: Any) -> None:
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    share = weights.chunk(n)[rank].clone()
    grad = torch.empty_like(share)
    dist.reduce_scatter_single(grad, grads, group=group)
    update(share, grad / n)
    dist.all_gather_single(weights, share, group=group)


def mean_of_micro_batch(losses: torch.Tensor, valid: torch.Tensor, count: int) -> torch.Tensor:
    return losses.mean()


WRONG: dict[str, Mapping[str, Callable]] = {
    "right": {},
    "forgotten f": {"copy_to_ranks": forgotten_f},
    "forgotten g": {"reduce_from_ranks": forgotten_g},
    "g summed twice": {"reduce_from_ranks": g_summed_twice},
    "mean again": {"zero1_step": mean_again},
    "mean of the micro-batch": {"micro_batch_loss": mean_of_micro_batch},
}


class _NothingSummed(Trainer):
    """Forgets what several ranks know a summand of: norms under SP, a tied weight."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.summands, self.tied = [], None


def on_rank(config: Config, parts: Mapping[str, Callable]) -> dict[str, dict | None]:
    found = {name: probe.on_rank(config, {**parts, **wrong}) for name, wrong in WRONG.items()}
    split = replace(config, sequence_parallel=True)
    tied = replace(config, model=replace(config.model, tied=True))
    found["split"] = probe.on_rank(split, parts)
    probe.Trainer = _NothingSummed
    try:
        found["norms not summed"] = probe.on_rank(split, parts)
        found["tied not summed"] = probe.on_rank(tied, parts)
    finally:
        probe.Trainer = Trainer
    return found
