"""Peak bytes of attention, forward and backward: the whole at once, and a ring of blocks.

Counted: tensors that are live at the worst moment of the backward pass, besides q, k, v and the
gradient that arrives. One KV head for each query head; other cases hold less. Symbols as in
labs/formulas/context.py; a unit is one rank's q: B·h·(T/c)·d_h·e bytes.
"""

from __future__ import annotations

import math

FULL_COPIES = 3
"""T x T tensors a head at the peak of full attention: the shares that the forward pass saved, the
gradient by the shares, and the gradient by the scores."""

RING_UNITS = 13
"""Of the ring, at the peak: out and dq (2), the block of K, V at hand and the next one (4), the sums
of dK, dV on their way out and in (4), the block's own dq, dk, dv (3)."""


def full_attention_peak(batch: int, length: int, heads: int, element_bytes: int) -> int:
    """Bytes of full attention at its peak: 3·B·h·T²·e. What grows as T alone is left out."""
    return FULL_COPIES * batch * heads * length**2 * element_bytes


def ring_peak(
    batch: int, length: int, heads: int, head_dim: int, element_bytes: int, ranks: int,
    tile: int = 0,
) -> int:  # fmt: skip
    """Bytes of the ring at its peak on a rank: 13 units; with tiles of `tile` queries more.

    A tile holds its shares and their gradient, 2·B·h·tile·(T/c)·e, and what it adds to dK and dV
    twice (as it is multiplied out, and summed over the query heads of a group): 4 units.
    """
    unit = batch * heads * (length // ranks) * head_dim * element_bytes
    scores = batch * heads * tile * (length // ranks) * element_bytes
    return (RING_UNITS + (4 if tile else 0)) * unit + 2 * scores


def longest_full(budget: int, batch: int, heads: int, element_bytes: int, multiple: int = 1) -> int:
    """The longest sequence, a multiple of `multiple`, whose full attention fits in `budget` bytes."""
    most = math.isqrt(budget // (FULL_COPIES * batch * heads * element_bytes))
    return most // multiple * multiple


def longest_ring(
    budget: int, batch: int, heads: int, head_dim: int, element_bytes: int, ranks: int,
    multiple: int = 1,
) -> int:  # fmt: skip
    """The longest sequence, a multiple of `multiple`, whose ring of `ranks` fits in `budget` bytes a
    rank."""
    token = RING_UNITS * batch * heads * head_dim * element_bytes / ranks
    return int(budget / token) // multiple * multiple
