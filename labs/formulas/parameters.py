"""Parameters of a transformer, whole and on a rank. Unit: elements.

Two kinds of model: GPT's, with biases and LayerNorm, and (bias=False) Llama's, with neither a bias
nor LayerNorm's: its RMSNorm has d weights. Source of the second: Touvron et al., "LLaMA", 2023,
section 2.2; its MLP is gated (Shazeer, "GLU variants improve transformer", 2020).
"""

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


def norm_parameters(d: int, bias: bool = True) -> int:
    """A norm: LayerNorm's 2d, or RMSNorm's d."""
    return layer_norm_parameters(d) if bias else d


def block_parameters(
    d: int, heads: int, kv_heads: int, d_ff: int, gated: bool = False, bias: bool = True
) -> int:
    """A pre-norm block: two norms, attention, MLP."""
    return block_parameters_on_rank(d, heads, kv_heads, d_ff, 1, gated, bias)


def block_parameters_on_rank(
    d: int, heads: int, kv_heads: int, d_ff: int, ranks: int, gated: bool = False, bias: bool = True
) -> int:
    """What one rank of t holds of a block.

    Cut by t: QKV with its bias, W_o, the MLP's matrices, the bias of the first.
    Held whole on every rank: both norms and the biases of W_o and of the second MLP matrix.
    Held t/kv times where kv < t: each KV head.
    """
    head_dim, width = d // heads, d_ff // ranks
    columns = (heads // ranks + 2 * max(1, kv_heads // ranks)) * head_dim  # of Q, K and V
    into = (2 if gated else 1) * width  # columns of the MLP's first matrix
    matrices = d * columns + heads // ranks * head_dim * d + d * into + width * d
    biases = columns + d + into + d if bias else 0
    return 2 * norm_parameters(d, bias) + matrices + biases


def vocab_parameters(d: int, vocab: int) -> int:
    """An embedding (V, d), or a head (d, V) without bias: V*d."""
    return vocab * d
