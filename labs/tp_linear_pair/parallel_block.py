"""The same block on a rank, over that rank's shards: f and g around each pair of layers.

Written with nothing but the exercise functions, handed in as `parts`, so that a learner's own can
stand for any of them. Where communication happens, one of them does it: a block has two all-reduces
forward (g after attention, g after the MLP) and two backward (f before each).

    x ── norm ── f ─ heads of this rank ─ g ── + ── norm ── f ─ columns of this rank ─ g ── + ──
    └────────────────────────────────────────┘ └─────────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
import torch.nn.functional as F

from labs.tp_linear_pair.legality import held_kv_heads, kv_copies
from labs.tp_linear_pair.one_device import Weights, layer_norm

Parts = Mapping[str, Callable[..., torch.Tensor]]

PARTS = (
    "copy_to_ranks",
    "reduce_from_ranks",
    "column_parallel",
    "row_parallel",
    "attention_heads",
    "vocab_parallel_loss",
)
"""The names that `parts` holds."""


def copies_group(kv_heads: int, ranks: int) -> dist.ProcessGroup | None:
    """The process group of the ranks that hold this rank's KV head; None where none is copied.

    Every rank of the world must call it, since every rank takes part in making each group.
    """
    if kv_heads >= ranks:
        return None
    mine = None
    for group in kv_copies(kv_heads, ranks):
        made = dist.new_group(group)
        if dist.get_rank() in group:
            mine = made
    return mine


def mlp(parts: Parts, x: torch.Tensor, shard: Weights) -> torch.Tensor:
    """Column-parallel, GELU, row-parallel: (B, T, d) -> (B, T, d), one all-reduce forward.

    GELU acts on each column alone, so it needs no message between the two layers.
    """
    hidden = F.gelu(parts["column_parallel"](x, shard["up_w"], shard["up_b"]))  # (B, T, d_ff/t)
    return parts["row_parallel"](hidden, shard["down_w"], shard["down_b"])


def swiglu(parts: Parts, x: torch.Tensor, shard: Weights) -> torch.Tensor:
    """The gated MLP: (B, T, d) -> (B, T, d). The shard holds gate columns, then as many up."""
    both = parts["column_parallel"](x, shard["gate_up_w"], shard["gate_up_b"])  # (B, T, 2·d_ff/t)
    gate, up = both.chunk(2, dim=-1)
    return parts["row_parallel"](F.silu(gate) * up, shard["down_w"], shard["down_b"])


def attention(
    parts: Parts,
    x: torch.Tensor,
    shard: Weights,
    heads: int,
    kv_heads: int,
    copies: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """This rank's heads: (B, T, d) -> (B, T, d), one all-reduce forward.

    heads, kv_heads  the whole model's
    copies           what `copies_group` gave
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    return parts["attention_heads"](
        x,
        shard["qkv_w"],
        shard["qkv_b"],
        shard["out_w"],
        shard["out_b"],
        heads // ranks,
        len(held_kv_heads(kv_heads, rank, ranks)),
        copies,
    )


def block(
    parts: Parts,
    x: torch.Tensor,
    shard: Weights,
    heads: int,
    kv_heads: int,
    copies: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """The pre-LayerNorm block: (B, T, d) -> (B, T, d), the same on every rank.

    The norms, like the biases after g, are whole on every rank. Their gradients need no message: x
    is whole, and f's backward has made the gradient that reaches the norm whole, so every rank
    computes the full gradient, the same one. Summing it over the ranks would count it t times;
    averaging it would hide that by chance. (It becomes a sum over ranks once the sequence is
    sharded between the pairs, as in sequence parallelism.)
    """
    y = layer_norm(x, shard["norm1_w"], shard["norm1_b"])
    x = x + attention(parts, y, shard, heads, kv_heads, copies)
    y = layer_norm(x, shard["norm2_w"], shard["norm2_b"])
    return x + mlp(parts, y, shard)


def embedding(parts: Parts, tokens: torch.Tensor, table_shard: torch.Tensor) -> torch.Tensor:
    """(B, T) of numbers in [0, V), (V/t, d) -> (B, T, d), the same on every rank.

    A rank looks up the tokens whose rows it holds and puts zeros for the others. One rank holds
    each, so g's sum is the row itself. One all-reduce of (B, T, d) forward, none backward.
    """
    rows = table_shard.shape[0]
    row = tokens - dist.get_rank() * rows
    here = (row >= 0) & (row < rows)
    found = F.embedding(row.clamp(0, rows - 1), table_shard)
    return parts["reduce_from_ranks"](found.masked_fill(~here.unsqueeze(-1), 0.0))


def head(parts: Parts, x: torch.Tensor, head_shard: torch.Tensor, vocab: int) -> torch.Tensor:
    """Logits of this rank's columns: (B, T, d), (d, V/t) -> (B, T, V/t).

    No message forward, one all-reduce of (B, T, d) backward. Columns past the vocabulary are
    padding: their logits are -inf, so they get no probability and their weights no gradient.
    """
    logits = parts["copy_to_ranks"](x) @ head_shard
    columns = head_shard.shape[1]
    real = max(0, min(columns, vocab - dist.get_rank() * columns))
    if real < columns:
        logits[..., real:] = -torch.inf  # in place: a second tensor of this size would be waste
    return logits


def token_losses(
    parts: Parts, x: torch.Tensor, head_shard: torch.Tensor, targets: torch.Tensor, vocab: int
) -> torch.Tensor:
    """Loss of each token: (B, T, d), (d, V/t), (B, T) -> (B, T), the same on every rank."""
    return parts["vocab_parallel_loss"](head(parts, x, head_shard, vocab), targets)


def model(
    parts: Parts,
    tokens: torch.Tensor,
    targets: torch.Tensor,
    shard: Weights,
    heads: int,
    kv_heads: int,
    vocab: int,
    copies: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Embedding, one block, norm, head, loss: (B, T), (B, T) -> (B, T) loss a token."""
    x = embedding(parts, tokens, shard["embedding"])
    x = block(parts, x, shard, heads, kv_heads, copies)
    x = layer_norm(x, shard["norm_w"], shard["norm_b"])
    return token_losses(parts, x, shard["head_w"], targets, vocab)
