"""Ring attention as one differentiable function, put together from the exercises and a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from labs.context_parallel.blocks import attend, attend_backward, tiled, tiled_backward
from labs.context_parallel.flash import flash, flash_backward

BLOCKS: dict[str, tuple[Callable, Callable]] = {
    "matmul": (attend, attend_backward),
    "tiled": (tiled, tiled_backward),
    "flash": (flash, flash_backward),
}
"""How one block is attended to, forward and backward: all scores, a tile's scores, none held."""


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_places: torch.Tensor,
        k_places: torch.Tensor, ring: tuple[Callable, Callable], block: tuple[Callable, Callable],
        group: dist.ProcessGroup | None,
    ) -> torch.Tensor:  # fmt: skip
        # a model hands in views of one projection; what is sent has to lie in one piece
        q, k, v = (x.contiguous() for x in (q, k, v))
        out, lse = ring[0](q, k, v, q_places, k_places, block[0], group)
        ctx.save_for_backward(q, k, v, out, lse, q_places, k_places)
        ctx.backward_pass, ctx.block, ctx.group = ring[1], block[1], group
        return out

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> tuple:
        q, k, v, out, lse, q_places, k_places = ctx.saved_tensors
        grads = ctx.backward_pass(
            d_out.contiguous(), q, k, v, out, lse, q_places, k_places, ctx.block, ctx.group
        )
        return *grads, None, None, None, None, None


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_places: torch.Tensor,
    k_places: torch.Tensor,
    parts: Mapping[str, Callable],
    block: str | tuple[Callable, Callable] = "tiled",
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Attention over the sequence that the ranks of `group` hold together: (B, h, n, d_h).

    parts   "ring_forward" and "ring_backward", where their arguments are explained
    block   a name of BLOCKS, or a pair of functions of the same form
    """
    ring = (parts["ring_forward"], parts["ring_backward"])
    pair = BLOCKS[block] if isinstance(block, str) else block
    return _RingAttention.apply(q, k, v, q_places, k_places, ring, pair, group)
