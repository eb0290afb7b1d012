"""Gradients of what every rank holds whole: norms, and the biases after the scatter.

Under tensor parallelism each rank sees all tokens there, and its gradient is the whole one already.
Under sequence parallelism it has seen its own T/t tokens: its gradient is a summand. A sum, and not
a mean: the loss counts each token once, whichever rank it is on.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from labs.tp_linear_pair.one_device import Weights

REPLICATED = ("norm1_w", "norm1_b", "norm2_w", "norm2_b", "out_b", "down_b")
"""Weights of a block that lie outside its regions: whole on every rank."""


def sum_over_ranks(grads: Weights, group: dist.ProcessGroup | None = None) -> Weights:
    """The gradients with those of REPLICATED summed over the group: one all-reduce of 6·d numbers.

    The others belong to this rank's shards and stay as they are. Nothing is changed in place.
    """
    mine = {name: grads[name] for name in REPLICATED if name in grads}
    together = torch.cat([grad.flatten() for grad in mine.values()])
    dist.all_reduce(together, group=group)
    parts = together.split([grad.numel() for grad in mine.values()])
    summed = {
        name: part.view_as(grad) for (name, grad), part in zip(mine.items(), parts, strict=True)
    }
    return {**grads, **summed}


def not_summed(grads: Weights, group: dist.ProcessGroup | None = None) -> Weights:
    """Wrong on purpose: each rank goes on with the gradient of its own tokens, and they drift."""
    return dict(grads)


def averaged(grads: Weights, group: dist.ProcessGroup | None = None) -> Weights:
    """Wrong on purpose: alike on every rank, and t times too small."""
    size = dist.get_world_size(group)
    total = sum_over_ranks(grads, group)
    return {name: g / size if name in REPLICATED else g for name, g in total.items()}


WRONG = {"not summed": not_summed, "averaged": averaged}
