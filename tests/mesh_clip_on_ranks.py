"""A step that clips, on ranks, by the course's global norm and by two that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist

from labs.mesh import on_rank as mesh_on_rank
from labs.mesh.config import Config


def this_rank_alone(
    grads: Sequence[torch.Tensor], holders: Sequence[int], group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """The plain utility's norm: of what this rank holds."""
    return torch.stack([grad.square().sum() for grad in grads]).sum().sqrt()


def copies_counted(
    grads: Sequence[torch.Tensor], holders: Sequence[int], group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """Squares summed over all ranks, those of replicated parameters on each of them."""
    total = torch.stack([grad.square().sum() for grad in grads]).sum()
    dist.all_reduce(total, group=group)
    return total.sqrt()


def steps(
    todo: Mapping[str, Sequence[Config]],
    parts: Mapping[str, Callable],
    norms: Mapping[str, Callable],
) -> dict[str, list]:
    """By the norm's name: one step of each of its configurations, as labs/mesh/on_rank.py tells."""
    return {
        name: mesh_on_rank.on_rank(configs, {**parts, "global_grad_norm": norms[name]}, 1)
        for name, configs in todo.items()
    }
