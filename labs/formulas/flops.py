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
