"""Parts of a mesh's step with one fault each, run on ranks: what a lab's checks must catch."""

from __future__ import annotations

import torch
import torch.distributed as dist


def f_forgets(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """f without its all-reduce in the backward pass."""
    return x


def zero1_gathers_twice(weights, grads, update, group=None) -> None:
    """A ZeRO-1 step that all-gathers the weights once more than it must."""
    from solutions.mesh_3d import zero1_step

    zero1_step(weights, grads, update, group)
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    dist.all_gather_single(weights, weights.chunk(n)[rank].clone(), group=group)
