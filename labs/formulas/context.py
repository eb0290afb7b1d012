"""Context parallelism: what a ring or an all-to-all sends, who works how much, what is held.

B batch, T tokens of the whole sequence, c ranks, n = T/c tokens a rank, h query heads, h_kv KV heads,
d_h width of a head, e bytes an element.
Sources: Liu, Zaharia and Abbeel, "Ring attention with blockwise transformers", 2023; Dao et al.,
"FlashAttention", 2022; Jacobs et al., "DeepSpeed Ulysses", 2023.
"""

from __future__ import annotations


def kv_block_bytes(
    batch: int, length: int, kv_heads: int, head_dim: int, element_bytes: int, ranks: int
) -> int:
    """Bytes of one rank's keys and values: 2·B·(T/c)·h_kv·d_h·e."""
    return 2 * batch * (length // ranks) * kv_heads * head_dim * element_bytes


def ring_forward_bytes(
    batch: int, length: int, kv_heads: int, head_dim: int, element_bytes: int, ranks: int
) -> int:
    """Bytes a rank sends in ring attention's forward pass: (c-1)·2·B·(T/c)·h_kv·d_h·e."""
    block = kv_block_bytes(batch, length, kv_heads, head_dim, element_bytes, ranks)
    return (ranks - 1) * block


def ring_backward_bytes(
    batch: int, length: int, kv_heads: int, head_dim: int, element_bytes: int, ranks: int,
    own_stays: bool = False,
) -> int:  # fmt: skip
    """Bytes a rank sends in its backward pass: c-1 blocks of K, V and c of dK, dV.

    The sums of gradients are in fp32 or better, 4 bytes or e. own_stays: each rank keeps its own
    share of dK, dV at home, and one of those blocks less is sent.
    """
    place = (batch, length, kv_heads, head_dim)
    keys = kv_block_bytes(*place, element_bytes, ranks)
    sums = kv_block_bytes(*place, max(element_bytes, 4), ranks)
    hops = 0 if ranks == 1 else ranks - own_stays
    return (ranks - 1) * keys + hops * sums
