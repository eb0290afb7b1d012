"""Context parallelism: what a ring or an all-to-all sends, who works how much, what is held.

B batch, T tokens of the whole sequence, c ranks, n = T/c tokens a rank, h query heads, h_kv KV
heads, d_h width of a head, e bytes an element: whole numbers from 1 on, T a multiple of c. Each
formula raises ValueError, with the numbers, for anything else.
Sources: Liu, Zaharia and Abbeel, "Ring attention with blockwise transformers", 2023; Dao et al.,
"FlashAttention", 2022; Jacobs et al., "DeepSpeed Ulysses", 2023.
"""

from __future__ import annotations

from labs.formulas.sizes import need_shared, need_times, need_whole


def kv_block_bytes(
    batch: int, length: int, kv_heads: int, head_dim: int, element_bytes: int, ranks: int
) -> int:
    """Bytes of one rank's keys and values: 2·B·(T/c)·h_kv·d_h·e."""
    need_whole(batch=batch, kv_heads=kv_heads, head_dim=head_dim, element_bytes=element_bytes)
    need_shared(length, ranks)
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


def ulysses_bytes(
    batch: int, length: int, heads: int, kv_heads: int, head_dim: int, element_bytes: int,
    ranks: int,
) -> int:  # fmt: skip
    """Bytes a rank sends in an all-to-all attention's forward pass, and as many in its backward.

    (c-1)/c·B·(T/c)·d_h·e·(2h + 2h_kv): of its own tokens a rank sends q, k, v of the heads that
    other ranks work on, (h + 2h_kv)/c each; of its own heads it sends `out` of the tokens that
    other ranks hold, h/c. Backward: d_out takes the way of q, dq, dk, dv that of out. Source:
    Jacobs et al. 2023, section 3.2, which writes 4Nh/P for h = h_kv.
    """
    need_whole(batch=batch, head_dim=head_dim, element_bytes=element_bytes)
    need_shared(length, ranks)
    for name, count in (("query", heads), ("KV", kv_heads)):
        need_whole(heads=count)
        if count % ranks:
            raise ValueError(
                f"an all-to-all deals out {count} {name} heads to {ranks} ranks, equally many to "
                f"each: {count} % {ranks} = {count % ranks}"
            )
    a_head = batch * (length // ranks) * head_dim * element_bytes
    return (ranks - 1) * a_head * (2 * heads + 2 * kv_heads) // ranks


def ring_moves_less(heads: int, kv_heads: int, ranks: int) -> bool:
    """Whether a ring's forward pass sends less than an all-to-all's: h/h_kv + 1 > c.

    c·2·h_kv against 2h + 2h_kv. The ring sends keys and values only, but to every rank; the
    all-to-all sends everything, once. On one rank neither sends anything.
    """
    need_whole(heads=heads, kv_heads=kv_heads, ranks=ranks)
    return ranks > 1 and heads + kv_heads > ranks * kv_heads


# Who works how much on causal attention, and how long a ring takes.


def causal_pairs(length: int, ranks: int, rank: int) -> int:
    """Pairs of a query and a key it sees, for a rank that holds a consecutive run of n tokens.

    r·n² of the ranks before it and n(n+1)/2 of its own: 1:3:5:7 for large n and c = 4.
    """
    need_shared(length, ranks)
    if isinstance(rank, bool) or rank not in range(ranks):
        raise ValueError(f"{ranks} ranks are numbered 0 to {ranks - 1}, got rank {rank!r}")
    own = length // ranks
    return rank * own * own + own * (own + 1) // 2


def zigzag_pairs(length: int, ranks: int) -> int:
    """The same for a rank that holds a chunk of T/2c tokens and its mirror image: T(T+1)/(2c).

    The same on every rank: what rank r's first chunk sees less, its second one sees more. The
    length is a multiple of 2c.
    """
    need_shared(length, ranks, chunks=2)
    return length * (length + 1) // (2 * ranks)


def zigzag_speedup(ranks: int, whole_blocks: bool = False) -> float:
    """Time of a causal step on consecutive runs over that with zigzag: 2 - 1/c.

    The slowest rank sets the step: (c - 1/2)n² pairs against c·n²/2. whole_blocks: a rank's own
    block is worked on whole, its masked half too: c·n² against (c+1)/2·n², 2c/(c+1). Both are the
    limit of long sequences and of messages that take no time.
    """
    need_whole(ranks=ranks)
    return 2 * ranks / (ranks + 1) if whole_blocks else 2 - 1 / ranks


def ring_seconds(ranks: int, block: float, message: float, overlap: bool = True) -> float:
    """Time of a ring's forward pass where every rank works `block` seconds on every block.

    f + (c-1)·max(f, μ): a message has the time in which the block before it is worked on. Without
    overlap it comes on top: f + (c-1)(f + μ). message: μ, of one rank's K and V to its neighbour.
    """
    need_whole(ranks=ranks)
    need_times(block=block, message=message)
    hop = max(block, message) if overlap else block + message
    return block + (ranks - 1) * hop
