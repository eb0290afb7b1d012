"""Parameters of a transformer, whole and on a rank. Unit: elements, biases included."""

from __future__ import annotations


def linear_parameters(inputs: int, outputs: int) -> int:
    """A linear layer with bias: in*out + out."""
    return inputs * outputs + outputs


def layer_norm_parameters(d: int) -> int:
    """A LayerNorm: a weight and a bias of d each."""
    return 2 * d


def mlp_parameters(d: int, d_ff: int) -> int:
    """Both matrices of an MLP and their biases: 2*d*d_ff + d_ff + d."""
    return linear_parameters(d, d_ff) + linear_parameters(d_ff, d)


def swiglu_parameters(d: int, d_ff: int) -> int:
    """A gated MLP, with [gate | up] fused in one (d, 2·d_ff) matrix: 3*d*d_ff + 2·d_ff + d."""
    return linear_parameters(d, 2 * d_ff) + linear_parameters(d_ff, d)


def attention_parameters(d: int, heads: int, kv_heads: int) -> int:
    """Fused [Q | K | V] and W_o with their biases; kv_heads < heads is grouped-query attention."""
    head_dim = d // heads
    return linear_parameters(d, (heads + 2 * kv_heads) * head_dim) + linear_parameters(d, d)


def block_parameters(d: int, heads: int, kv_heads: int, d_ff: int) -> int:
    """A pre-LayerNorm block: two norms, attention, MLP."""
    return (
        2 * layer_norm_parameters(d)
        + attention_parameters(d, heads, kv_heads)
        + mlp_parameters(d, d_ff)
    )


def block_parameters_on_rank(d: int, heads: int, kv_heads: int, d_ff: int, ranks: int) -> int:
    """What one rank of t holds of a block.

    Cut by t: QKV with its bias, W_o, the MLP's two matrices, the bias of the first.
    Held whole on every rank: both norms and the biases of W_o and of the second MLP matrix.
    Held t/kv times where kv < t: each KV head.
    """
    head_dim = d // heads
    kv_on_rank = max(1, kv_heads // ranks)
    qkv = linear_parameters(d, (heads // ranks + 2 * kv_on_rank) * head_dim)
    w_o = d // ranks * d + d
    mlp = linear_parameters(d, d_ff // ranks) + d_ff // ranks * d + d
    return 2 * layer_norm_parameters(d) + qkv + w_o + mlp


def vocab_parameters(d: int, vocab: int) -> int:
    """An embedding (V, d), or a head (d, V) without bias: V*d."""
    return vocab * d
