"""Peak bytes of attention, forward and backward: the whole at once, and a ring of blocks.

Counted: tensors that are live at the worst moment of the backward pass, besides q, k, v and the
gradient that arrives. One KV head for each query head; other cases hold less. Symbols as in
labs/formulas/context.py; a unit is one rank's q: B·h·(T/c)·d_h·e bytes.
"""

from __future__ import annotations

import math

from labs.formulas.sizes import need_shared, need_whole

SCORES_COPIES = 3
"""T x T tensors a head at the peak of full attention: the shares that the forward pass saved, the
gradient by the shares, and the gradient by the scores."""

FULL_UNITS = 2
"""Besides them: out, and dv, which is done by then."""

RING_UNITS = {2: 11, 3: 13}
"""Of the ring of 2, and of 3 ranks or more, at the peak: out and dq (2), the block of K, V at hand
and the next one (4), sums of dK, dV on their way out and in (4), the block's own dq, dk, dv (3). On
two ranks no next block is on its way while sums go out and in."""

TILE_UNITS, FUSED_UNITS = 4, 1
"""More of them: a tile's part of dK and dV, as it is multiplied out and as it is summed over the
query heads of a group; what torch's fused CPU kernel holds while it works."""


def full_attention_peak(
    batch: int, length: int, heads: int, head_dim: int, element_bytes: int
) -> int:
    """Bytes of full causal attention at its peak: 3·B·h·T²·e, a mask of T² and 2 units."""
    need_whole(
        batch=batch, length=length, heads=heads, head_dim=head_dim, element_bytes=element_bytes
    )
    scores = SCORES_COPIES * batch * heads * length**2 * element_bytes
    return scores + length**2 + FULL_UNITS * batch * heads * length * head_dim * element_bytes


def ring_peak(
    batch: int, length: int, heads: int, head_dim: int, element_bytes: int, ranks: int,
    tile: int = 0,
) -> int:  # fmt: skip
    """Bytes of the ring at its peak on a rank.

    On 3 ranks or more 17 units and the shares of a tile of `tile` queries with their gradient,
    2·B·h·tile·(T/c)·e (a rank with fewer queries has one tile of them); with a fused kernel (tile
    0), which holds no scores, 14 units. Raises ValueError for one rank, which is no ring.
    """
    need_whole(batch=batch, heads=heads, head_dim=head_dim, element_bytes=element_bytes)
    units = _units(ranks)
    need_shared(length, ranks)
    own = length // ranks
    unit = batch * heads * own * head_dim * element_bytes
    if not tile:
        return (units + FUSED_UNITS) * unit
    need_whole(tile=tile)
    scores = 2 * batch * heads * min(tile, own) * own * element_bytes
    return (units + TILE_UNITS) * unit + scores


def _units(ranks: int) -> int:
    need_whole(ranks=ranks)
    if ranks < 2:
        raise ValueError(f"A ring of {ranks} rank was asked for; it begins with 2.")
    return RING_UNITS[min(ranks, 3)]


def longest_full(
    budget: int, batch: int, heads: int, head_dim: int, element_bytes: int, multiple: int = 1
) -> int:
    """The longest sequence, a multiple of `multiple`, whose full attention fits in `budget`."""
    need_whole(budget=budget, batch=batch, heads=heads, head_dim=head_dim,
               element_bytes=element_bytes, multiple=multiple)  # fmt: skip
    square = SCORES_COPIES * batch * heads * element_bytes + 1
    half = FULL_UNITS * batch * heads * head_dim * element_bytes / 2
    most = (math.sqrt(half**2 + square * budget) - half) / square  # square·T² + 2·half·T = budget
    return int(most) // multiple * multiple


def longest_ring(
    budget: int, batch: int, heads: int, head_dim: int, element_bytes: int, ranks: int,
    multiple: int = 1,
) -> int:  # fmt: skip
    """The longest sequence, a multiple of `multiple`, whose ring fits in `budget` bytes a rank.

    With a fused kernel: 14 units on 3 ranks or more. Raises ValueError for one rank.
    """
    need_whole(budget=budget, batch=batch, heads=heads, head_dim=head_dim,
               element_bytes=element_bytes, multiple=multiple)  # fmt: skip
    units = _units(ranks) + FUSED_UNITS
    token = units * batch * heads * head_dim * element_bytes / ranks
    return int(budget / token) // multiple * multiple
