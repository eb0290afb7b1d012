"""Which rank holds which numbers of which weight: what is legal, how it is cut, how it goes back.

Pure: no process group, nothing runs in parallel. A cut is a list of indices along one dimension, so
cutting is one indexing and putting back is its inverse.

    qkv_w    columns, each of Q, K, V by heads     out_w    rows, by heads
    up_w     columns                               down_w   rows
    head_w   columns, padded                       embedding  rows, padded
    norms, out_b, down_b    whole on every rank
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from labs.formulas import padded_vocab
from labs.tp_linear_pair.legality import (
    check_shape,
    held_kv_heads,
    held_query_heads,
    kv_copies,
)

__all__ = [
    "assemble",
    "check_shape",
    "cut",
    "cut_weights",
    "fused_columns",
    "held",
    "kv_copies",
    "padded_vocab",
    "qkv_columns",
]

Weights = dict[str, torch.Tensor]

CUT_DIMENSION = {
    "qkv_w": -1,
    "qkv_b": -1,
    "out_w": 0,
    "up_w": -1,
    "up_b": -1,
    "down_w": 0,
    "gate_up_w": -1,
    "gate_up_b": -1,
    "embedding": 0,
    "head_w": -1,
}
"""The dimension along which a weight is cut. A weight that is not here is whole on every rank."""


def _share(width: int, rank: int, ranks: int) -> list[int]:
    """The rank's run of `width` columns."""
    mine = width // ranks
    return list(range(rank * mine, (rank + 1) * mine))


def fused_columns(widths: Sequence[int], rank: int, ranks: int) -> list[int]:
    """Columns of a fused matrix that a rank holds: its share of each part, not of the whole.

    [gate | up] of width 4 + 4 on 2 ranks: rank 0 holds 0 1 4 5, rank 1 holds 2 3 6 7.
    """
    columns: list[int] = []
    start = 0
    for width in widths:
        columns += [start + column for column in _share(width, rank, ranks)]
        start += width
    return columns


def qkv_columns(heads: int, kv_heads: int, head_dim: int, rank: int, ranks: int) -> list[int]:
    """Columns of [Q | K | V] that a rank holds; with kv_heads < ranks its KV head is a copy."""

    def of_heads(held_heads: range, start: int) -> list[int]:
        return [start + h * head_dim + e for h in held_heads for e in range(head_dim)]

    q_width, kv_width = heads * head_dim, kv_heads * head_dim
    kv = held_kv_heads(kv_heads, rank, ranks)
    return (
        of_heads(held_query_heads(heads, rank, ranks), 0)
        + of_heads(kv, q_width)
        + of_heads(kv, q_width + kv_width)
    )


def held(
    name: str, size: int, heads: int, kv_heads: int, rank: int, ranks: int
) -> list[int] | None:
    """Indices of weight `name` that a rank holds along its cut dimension; None: all of it.

    size  of that dimension on one device. Indices of `size` and above are vocabulary padding.
    """
    if name not in CUT_DIMENSION:
        return None
    if name in ("qkv_w", "qkv_b"):
        return qkv_columns(heads, kv_heads, size // (heads + 2 * kv_heads), rank, ranks)
    if name in ("gate_up_w", "gate_up_b"):
        return fused_columns([size // 2, size // 2], rank, ranks)
    if name in ("embedding", "head_w"):
        return _share(padded_vocab(size, ranks), rank, ranks)
    return _share(size, rank, ranks)


def cut(
    name: str, weight: torch.Tensor, heads: int, kv_heads: int, rank: int, ranks: int
) -> torch.Tensor:
    """A rank's shard of one weight, contiguous and its own. Vocabulary padding is zeros."""
    if name not in CUT_DIMENSION:
        return weight.clone()
    dimension = CUT_DIMENSION[name]
    size = weight.shape[dimension]
    indices = held(name, size, heads, kv_heads, rank, ranks) or []
    real = torch.tensor([i for i in indices if i < size], dtype=torch.long)
    shard = weight.index_select(dimension, real)
    padding = len(indices) - len(real)
    if padding:
        shape = list(shard.shape)
        shape[dimension] = padding
        shard = torch.cat([shard, shard.new_zeros(shape)], dim=dimension)
    return shard.contiguous()


def cut_weights(weights: Weights, heads: int, kv_heads: int, rank: int, ranks: int) -> Weights:
    """A rank's shard of every weight. Check the shape first: `legality.check_shape`."""
    return {name: cut(name, w, heads, kv_heads, rank, ranks) for name, w in weights.items()}


def assemble(
    shards: Sequence[Weights], like: Weights, heads: int, kv_heads: int
) -> tuple[Weights, float]:
    """Put the ranks' shards (weights or gradients) together again.

    shards   one dict a rank, in rank order
    like     the weights on one device, for names and shapes
    returns  the whole tensors, and the largest difference between two ranks that hold the same
             numbers (replicated weights, copied KV heads). It must be 0: each of them is counted
             once, from the first rank that holds it, and whoever adds copies up twice is seen.
    Vocabulary padding is left out.
    """
    ranks = len(shards)
    whole: Weights = {}
    apart = 0.0
    for name, model in like.items():
        parts = [shard[name] for shard in shards]
        if name not in CUT_DIMENSION:
            whole[name] = parts[0]
            apart = max([apart, *(largest_gap(parts[0], part) for part in parts[1:])])
            continue
        dimension = CUT_DIMENSION[name] % model.dim()
        size = model.shape[dimension]
        out = parts[0].new_zeros(model.shape)
        written: set[int] = set()
        for rank, part in enumerate(parts):
            indices = held(name, size, heads, kv_heads, rank, ranks) or []
            again = [(i, at) for at, i in enumerate(indices) if i in written]
            fresh = [(i, at) for at, i in enumerate(indices) if i < size and i not in written]
            apart = max(
                apart,
                largest_gap(_take(out, dimension, again, 0), _take(part, dimension, again, 1)),
            )
            to = torch.tensor([i for i, _ in fresh], dtype=torch.long)
            out.index_copy_(dimension, to, _take(part, dimension, fresh, 1))
            written.update(i for i, _ in fresh)
        whole[name] = out
    return whole, apart


def _take(
    tensor: torch.Tensor, dimension: int, pairs: list[tuple[int, int]], which: int
) -> torch.Tensor:
    """The entries named by the first (0) or second (1) numbers of the pairs."""
    return tensor.index_select(
        dimension, torch.tensor([pair[which] for pair in pairs], dtype=torch.long)
    )


def largest_gap(one: torch.Tensor, other: torch.Tensor) -> float:
    """Largest difference of two tensors, 0 for empty ones; infinite where it is not a number."""
    gap = (one - other).abs().max().item() if one.numel() else 0.0
    return gap if gap == gap else float("inf")
