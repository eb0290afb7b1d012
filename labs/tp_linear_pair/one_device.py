"""The reference: a transformer block, its embedding and its loss on one device.

Nothing here knows of ranks. Weights are a dict of tensors, drawn once from a seed; a linear layer's
is stored as (in, out), so that y = x @ w + b. Everything parallel is held against these functions.

    tokens ─ embedding ─ block ─ norm ─ head ─ cross-entropy
    block:  x + attention(norm1(x)),  then  x + mlp(norm2(x))
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

Weights = dict[str, torch.Tensor]


def mlp(
    x: torch.Tensor, a: torch.Tensor, a_bias: torch.Tensor, b: torch.Tensor, b_bias: torch.Tensor
) -> torch.Tensor:
    """Z = GELU(X A + a) B + b: (B, T, d), (d, d_ff), (d_ff,), (d_ff, d), (d,) -> (B, T, d)."""
    return F.gelu(x @ a + a_bias) @ b + b_bias


def swiglu(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    gate_up_bias: torch.Tensor,
    down: torch.Tensor,
    down_bias: torch.Tensor,
) -> torch.Tensor:
    """A gated MLP, (SiLU(gate) * up) down, with [gate | up] fused in one (d, 2·d_ff) matrix.

    (B, T, d), (d, 2·d_ff), (2·d_ff,), (d_ff, d), (d,) -> (B, T, d).
    Source: Shazeer, "GLU variants", 2020.
    """
    gate, up = (x @ gate_up + gate_up_bias).chunk(2, dim=-1)
    return (F.silu(gate) * up) @ down + down_bias


def attention(
    x: torch.Tensor,
    qkv: torch.Tensor,
    qkv_bias: torch.Tensor,
    out: torch.Tensor,
    out_bias: torch.Tensor,
    heads: int,
    kv_heads: int,
) -> torch.Tensor:
    """Causal attention: (B, T, d), (d, (heads+2*kv_heads)*hd), bias, (d, d), (d,) -> (B, T, d).

    Columns of `qkv` are [Q | K | V]. Query head i uses KV head i // (heads // kv_heads): with
    kv_heads < heads this is grouped-query attention, with kv_heads = 1 multi-query attention.
    Written out with its mask and softmax, so that it shares nothing with the parallel version.
    """
    batch, sequence, d = x.shape
    head_dim = d // heads
    widths = [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]
    q, k, v = (x @ qkv + qkv_bias).split(widths, dim=-1)
    q = q.view(batch, sequence, heads, head_dim)
    k = k.view(batch, sequence, kv_heads, head_dim)
    v = v.view(batch, sequence, kv_heads, head_dim)
    of_query = torch.arange(heads, device=x.device) // (heads // kv_heads)
    k, v = k[:, :, of_query], v[:, :, of_query]  # (B, T, heads, hd)

    scores = torch.einsum("bqhe,bkhe->bhqk", q, k) * head_dim**-0.5
    later = torch.ones(sequence, sequence, dtype=torch.bool, device=x.device).triu(1)
    share = scores.masked_fill(later, -torch.inf).softmax(dim=-1)  # (B, heads, T, T)
    mixed = torch.einsum("bhqk,bkhe->bqhe", share, v).reshape(batch, sequence, d)
    return mixed @ out + out_bias


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """LayerNorm over the last dimension: (B, T, d), (d,), (d,) -> (B, T, d)."""
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def block(x: torch.Tensor, weights: Weights, heads: int, kv_heads: int) -> torch.Tensor:
    """A pre-LayerNorm transformer block with its two residuals: (B, T, d) -> (B, T, d)."""
    w = weights
    y = layer_norm(x, w["norm1_w"], w["norm1_b"])
    x = x + attention(y, w["qkv_w"], w["qkv_b"], w["out_w"], w["out_b"], heads, kv_heads)
    y = layer_norm(x, w["norm2_w"], w["norm2_b"])
    return x + mlp(y, w["up_w"], w["up_b"], w["down_w"], w["down_b"])


def embedding(tokens: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Rows of the table: (B, T) of numbers in [0, V), (V, d) -> (B, T, d)."""
    return F.embedding(tokens, table)


def token_losses(x: torch.Tensor, head: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each token: (B, T, d), (d, V), (B, T) -> (B, T)."""
    logits = x @ head  # (B, T, V)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(
        targets
    )


def model(
    tokens: torch.Tensor, targets: torch.Tensor, weights: Weights, heads: int, kv_heads: int
) -> torch.Tensor:
    """Embedding, one block, norm, head, loss: (B, T), (B, T) -> (B, T) loss a token."""
    x = block(embedding(tokens, weights["embedding"]), weights, heads, kv_heads)
    x = layer_norm(x, weights["norm_w"], weights["norm_b"])
    return token_losses(x, weights["head_w"], targets)


def shapes(
    d: int, heads: int, kv_heads: int, d_ff: int, vocab: int | None = None
) -> dict[str, tuple[int, ...]]:
    """Name and shape of each weight of the block; with `vocab` also of the model around it."""
    qkv = (heads + 2 * kv_heads) * (d // heads)
    block_shapes: dict[str, tuple[int, ...]] = {
        "norm1_w": (d,),
        "norm1_b": (d,),
        "qkv_w": (d, qkv),
        "qkv_b": (qkv,),
        "out_w": (d, d),
        "out_b": (d,),
        "norm2_w": (d,),
        "norm2_b": (d,),
        "up_w": (d, d_ff),
        "up_b": (d_ff,),
        "down_w": (d_ff, d),
        "down_b": (d,),
    }
    if vocab is None:
        return block_shapes
    around = {"embedding": (vocab, d), "norm_w": (d,), "norm_b": (d,), "head_w": (d, vocab)}
    return block_shapes | around


def swiglu_shapes(d: int, d_ff: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of every weight of the gated MLP."""
    return {
        "gate_up_w": (d, 2 * d_ff),
        "gate_up_b": (2 * d_ff,),
        "down_w": (d_ff, d),
        "down_b": (d,),
    }


def make_weights(
    named_shapes: dict[str, tuple[int, ...]], seed: int = 0, dtype: torch.dtype = torch.float64
) -> Weights:
    """Draw every weight once, from one seed.

    Matrices keep the size of what passes through them: N(0, 1/in). Biases are N(0, 1/4) and norm
    weights N(1, 1/16): a bias of zero, or a weight of one, would hide a fault that touches it.
    Drawn in fp64 and then rounded, so that all dtypes see the same weights.
    """
    source = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in named_shapes.items():
        drawn = torch.randn(shape, generator=source, dtype=torch.float64)
        if name == "embedding":
            pass  # the residual stream starts as N(0, 1)
        elif len(shape) == 2:
            drawn *= shape[0] ** -0.5
        elif name.startswith("norm") and name.endswith("_w"):
            drawn = 1 + drawn / 4
        else:
            drawn /= 2
        weights[name] = drawn.to(dtype)
    return weights


def with_gradients(weights: Weights) -> Weights:
    """Fresh leaves of the same values, which collect gradients."""
    return {name: w.detach().clone().requires_grad_() for name, w in weights.items()}


def gradients(weights: Weights) -> Weights:
    """The gradients that the leaves collected, by name; zeros where none arrived."""
    return {name: torch.zeros_like(w) if w.grad is None else w.grad for name, w in weights.items()}
