"""Floating-point operations of training, and how much of a machine's rate they use."""

from __future__ import annotations


def training_flops_per_token(multiplied: int, layers: int, length: int, d: int) -> int:
    """Operations a token, forward and backward: 6·N + 12·L·T·d.

    multiplied  N, the parameters that a token is multiplied with: all but the embedding tables
    layers, length, d   of the model; attention multiplies every query with every key and value,
                        also those that a causal mask then hides

    Forward 2 a parameter (a product and a sum), backward twice that. Source: Kaplan et al., 2020,
    section 2.1; Chowdhery et al., "PaLM", 2022, appendix B.
    """
    return 6 * multiplied + 12 * layers * length * d


def model_flops_utilization(tokens_per_second: float, flops_per_token: int, peak: float) -> float:
    """MFU: the share of `peak` operations a second that the model's own operations use.

    Operations done again (recompute, padding, replicas of the same work) do not count. Source:
    Chowdhery et al., "PaLM", 2022, section 4.1.
    """
    return tokens_per_second * flops_per_token / peak


def recomputed_flops_per_token(multiplied: int, layers: int, length: int, d: int) -> int:
    """Operations a token with full recompute: 8·N + 16·L·T·d, less 2 a parameter of the head.

    multiplied: N without the head, which is not run again; its 6 a parameter are the caller's to
    add. A third pass forward costs what the first did. Source: Narayanan et al., 2021, section 5.1,
    equation 3; Korthikanti et al., 2022, appendix A.
    """
    return 8 * multiplied + 16 * layers * length * d


def product_flops(rows: float, inner: float, columns: float) -> float:
    """Operations of a product (rows, inner) x (inner, columns): one product and one sum each."""
    return 2 * rows * inner * columns


def attention_core_flops(batch: float, length: float, d: float, causal: bool = False) -> float:
    """Operations of scores and of their product with V, forward, all heads: 4·B·T²·d.

    causal: half of them, where masked tiles are left out, as FlashAttention does (Dao, 2023).
    """
    return 4 * batch * length**2 * d / (2 if causal else 1)
