"""The layer, written once: a way says how it enters and leaves its two regions (ways.py).

    x ── norm ──[ heads of this rank ]── bias, dropout ── + ──
    └─────────────────────────────────────────────────────┘   and the same with the MLP's columns

Under sequence parallelism x and all that is outside the brackets is (B, T/t, d): this rank's
tokens. Under tensor parallelism it is (B, T, d), the same on every rank.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F

from labs.formulas import sequence
from labs.sequence_parallel import dropout
from labs.sequence_parallel.dropout import Drop, nowhere
from labs.sequence_parallel.kept import named
from labs.sequence_parallel.recompute import again
from labs.sequence_parallel.ways import Column, Way
from labs.tp_linear_pair.one_device import Weights, layer_norm


def block(
    x: torch.Tensor,
    w: Weights,
    heads: int,
    way: Way,
    drop: Drop = nowhere,
    recompute: str = "none",
) -> torch.Tensor:
    """A pre-LayerNorm transformer block: x's shape in, the same out.

    w          this rank's shards, names as in labs/tp_linear_pair/one_device.py
    heads      of this rank, each with its own K and V
    recompute  "none", "selective" (the core of attention), "full" (all but the layer's input)

    The biases of the row-parallel layers, out_b and down_b, are added once, after the summands have
    become a sum. Under sequence parallelism that is to this rank's tokens: their gradients, like
    those of the norms, are summands (gradients.py).
    """
    if recompute == "full":
        named(sequence.LAYER_NORM, x)
        return again(lambda kept: _block(kept, w, heads, way, drop, False), x)
    return _block(x, w, heads, way, drop, recompute == "selective")


def _block(
    x: torch.Tensor, w: Weights, heads: int, way: Way, drop: Drop, selective: bool
) -> torch.Tensor:
    def attention(qkv: torch.Tensor) -> torch.Tensor:
        return _attention(qkv, heads, drop, selective) @ w["out_w"]

    def mlp(up: torch.Tensor) -> torch.Tensor:
        hidden = drop(dropout.HIDDEN, F.gelu(named(sequence.GELU_INPUT, up)))
        return named(sequence.DOWN_INPUT, hidden) @ w["down_w"]

    y = layer_norm(named(sequence.LAYER_NORM, x), w["norm1_w"], w["norm1_b"])
    y = way(y, Column(w["qkv_w"], w["qkv_b"], sequence.QKV_INPUT), attention)
    x = x + drop(dropout.AFTER_ATTENTION, y + w["out_b"])
    y = layer_norm(named(sequence.LAYER_NORM, x), w["norm2_w"], w["norm2_b"])
    y = way(y, Column(w["up_w"], w["up_b"], sequence.MLP_INPUT), mlp)
    return x + drop(dropout.AFTER_MLP, y + w["down_b"])


def _attention(qkv: torch.Tensor, heads: int, drop: Drop, selective: bool) -> torch.Tensor:
    """Causal attention of `heads` heads: [Q | K | V] (B, T, 3·heads·hd) -> (B, T, heads·hd)."""
    batch, length, _ = qkv.shape
    q, k, v = (
        named(sequence.QKV, part.unflatten(-1, (heads, -1)).transpose(1, 2).contiguous())
        for part in qkv.chunk(3, dim=-1)
    )  # (B, heads, T, hd)
    core = partial(_core, drop=drop)
    mixed = again(core, q, k, v) if selective else core(q, k, v)
    mixed = mixed.transpose(1, 2).reshape(batch, length, -1)
    return named(sequence.PROJECTION_INPUT, mixed)


def _core(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, drop: Drop) -> torch.Tensor:
    """The part whose activations grow with T²: scores, softmax, its dropout, the product with V."""
    length = q.shape[-2]
    later = q.new_full((length, length), -torch.inf).triu(1)
    scores = q @ k.mT * q.shape[-1] ** -0.5 + later  # (B, heads, T, T)
    share = named(sequence.SOFTMAX, scores.softmax(dim=-1))
    return drop(dropout.ATTENTION_WEIGHTS, share) @ v
