"""How a layer enters and leaves a region: on one device, tensor-parallel, sequence-parallel.

A way is a function (x, column, rest) -> y. It brings x before the region's first linear layer,
hands the result to `rest`, which gives this rank's summand, and makes of the summands what goes on.

                      enters by                     leaves by
    one device        -                             -
    tensor-parallel   f: all-reduce backward        g: all-reduce forward
    with sequence     all-gather, scatter backward  reduce-scatter, gather backward

Written with the exercise functions, handed in as `parts`, so that a learner's own can stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from labs.sequence_parallel.kept import named

Parts = Mapping[str, Callable[..., Any]]
Rest = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Column:
    """The linear layer at the entry of a region, this rank's columns: (B, T, d) -> (B, T, n/t)."""

    weight: torch.Tensor  # (d, n/t)
    bias: torch.Tensor  # (n/t,)
    input_name: str  # of its input, in an account of what is kept

    def __call__(self, whole: torch.Tensor) -> torch.Tensor:
        return named(self.input_name, whole) @ self.weight + self.bias


Way = Callable[[torch.Tensor, Column, Rest], torch.Tensor]


def one_device(x: torch.Tensor, column: Column, rest: Rest) -> torch.Tensor:
    """Nobody to hear from: (B, T, d) -> (B, T, d)."""
    return rest(column(x))


def tensor_parallel(parts: Parts, group: dist.ProcessGroup | None = None) -> Way:
    """f before, g after: (B, T, d) -> (B, T, d), the same on every rank."""

    def way(x: torch.Tensor, column: Column, rest: Rest) -> torch.Tensor:
        whole = parts["copy_to_ranks"](x, group)
        return parts["reduce_from_ranks"](rest(column(whole)), group)

    return way


def sequence_parallel(
    parts: Parts, group: dist.ProcessGroup | None = None, kept_sharded: bool = False
) -> Way:
    """Tokens gathered before, summands scattered after: (B, T/t, d) -> (B, T/t, d).

    kept_sharded: the first linear layer keeps this rank's tokens only, not all of them, and gathers
    the others again in the backward pass (as Megatron does): one all-gather more a region.
    """

    def way(x: torch.Tensor, column: Column, rest: Rest) -> torch.Tensor:
        def region(whole: torch.Tensor) -> torch.Tensor:
            if not kept_sharded:
                return rest(column(whole))
            shard = named(column.input_name, x).detach()
            return rest(_KeepsShard.apply(whole, shard, column.weight, column.bias, group))

        return parts["sequence_scatter_gather"](x, region, group)

    return way


class _KeepsShard(torch.autograd.Function):
    """whole @ w + b, which keeps this rank's tokens in place of `whole`.

    The weight's gradient needs all tokens: they are gathered once more. The gradient of `whole`
    does not, so on a GPU that gather runs beside its product.
    """

    @staticmethod
    def forward(
        ctx: Any,
        whole: torch.Tensor,
        shard: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        group: dist.ProcessGroup | None,
    ) -> torch.Tensor:
        ctx.group = group
        ctx.save_for_backward(shard, weight)
        return whole @ weight + bias

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        shard, weight = ctx.saved_tensors
        piece = shard.transpose(0, 1).contiguous()  # (T/t, B, d)
        length = piece.shape[0] * dist.get_world_size(ctx.group)
        again = piece.new_empty(length, *piece.shape[1:])
        dist.all_gather_single(again, piece, group=ctx.group)
        rows = grad.transpose(0, 1).reshape(-1, grad.shape[-1])  # in the order of `again`
        d_weight = again.view(-1, again.shape[-1]).T @ rows
        return grad @ weight.T, None, d_weight, rows.sum(0), None
