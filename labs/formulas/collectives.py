"""Collectives: bytes on a ring, and the time of messages in the α–β model."""

from __future__ import annotations

from dataclasses import dataclass

# Collectives on a ring.
# Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
# workstations", 2009. Unit: bytes sent by one rank (it receives as many).


def need_ranks(ranks: int) -> None:
    if ranks < 1:
        raise ValueError(f"A group of {ranks} ranks was asked for; the smallest has 1 rank.")


def ring_all_reduce_bytes(payload: float, ranks: int) -> float:
    """Bytes a rank sends to all-reduce a tensor of `payload` bytes: 2(t-1)/t * payload.

    A reduce-scatter, then an all-gather: each is t-1 steps of one t-th of the tensor.
    """
    need_ranks(ranks)
    return 2 * (ranks - 1) * payload / ranks


def ring_all_gather_bytes(full: float, ranks: int) -> float:
    """Bytes a rank sends to all-gather: (t-1)/t * full, `full` being the gathered tensor."""
    need_ranks(ranks)
    return (ranks - 1) * full / ranks


def ring_reduce_scatter_bytes(full: float, ranks: int) -> float:
    """Bytes a rank sends to reduce-scatter: (t-1)/t * full, `full` being a rank's whole input."""
    need_ranks(ranks)
    return (ranks - 1) * full / ranks


def ring_broadcast_bytes(payload: float, ranks: int) -> float:
    """Bytes a rank sends on average to broadcast `payload` bytes: (t-1)/t * payload.

    The tensor is passed along the ring in pieces: every rank but the last sends all of it once.
    """
    need_ranks(ranks)
    return (ranks - 1) * payload / ranks


def send_bytes(payload: float) -> float:
    """Bytes a point-to-point send moves: its payload."""
    return payload


# Time: the α–β model. A message of n bytes takes α + β·n, α in seconds, β in seconds a byte.
# Sources: Hockney, "The communication challenge for MPP", 1994 (α–β); Chan et al., "Collective
# communication: theory, practice, and experience", 2007 (a rank sends one message and receives one
# at a time); Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
# in MPICH", 2005 (trees and rings); Patarasuk and Yuan, 2009 (ring all-reduce).


def message_seconds(payload: float, alpha: float, beta: float) -> float:
    """Seconds of one message of `payload` bytes: α + β·n."""
    return alpha + beta * payload


@dataclass(frozen=True)
class Messages:
    """The messages of one collective by gloo's algorithm. All of them have the same size."""

    steps: int  # those that pass the busiest rank, one after the other
    count: int  # those of all ranks together
    size: float  # bytes of each


def collective_messages(op: str, whole: float, ranks: int) -> Messages:
    """Messages of a collective on t ranks; `whole` is the bytes of all its blocks together.

    whole: the tensor itself, or for gather and all-gather the gathered one, for scatter the one
    that is shared out. Raises ValueError for another `op`.
    """
    need_ranks(ranks)
    t, others, share = ranks, ranks - 1, whole / ranks
    if op == "broadcast":  # a binomial tree: the ranks that have it double in each of log2(t) steps
        return Messages(others.bit_length(), others, whole)
    known = {
        "gather": Messages(others, others, share),  # direct: the root takes one after the other
        "scatter": Messages(others, others, share),
        "all_gather": Messages(others, t * others, share),  # a ring
        "all_to_all": Messages(others, t * others, share),  # direct, to every other rank
        "all_reduce": Messages(2 * others, 2 * t * others, share),  # a ring, twice round
        "reduce_scatter": Messages(2 * others, 2 * t * others, share),  # gloo: by an all-reduce
        "reduce": Messages(2 * others, (t + 1) * others, share),  # a ring once, then a gather
    }
    if op not in known:
        raise ValueError(
            f"no algorithm of {op!r} is known; there are broadcast, {', '.join(known)}"
        )
    return known[op]


def collective_seconds(op: str, whole: float, ranks: int, alpha: float, beta: float) -> float:
    """Seconds of a collective where every rank has a link of its own: steps · (α + β·size)."""
    found = collective_messages(op, whole, ranks)
    return found.steps * message_seconds(found.size, alpha, beta)


def ring_all_reduce_seconds(payload: float, ranks: int, alpha: float, beta: float) -> float:
    """Seconds of a ring all-reduce: 2(t-1)·α + 2(t-1)/t·payload·β."""
    return collective_seconds("all_reduce", payload, ranks, alpha, beta)


def tree_all_reduce_seconds(payload: float, ranks: int, alpha: float, beta: float) -> float:
    """Seconds of an all-reduce up a binomial tree and down again: 2·⌈log2 t⌉·(α + β·payload)."""
    need_ranks(ranks)
    return 2 * (ranks - 1).bit_length() * message_seconds(payload, alpha, beta)


def ring_pays_from(ranks: int, alpha: float, beta: float) -> float:
    """Bytes of the tensor for which the ring and the tree take equally long; above, the ring wins.

    α/β · (t-1-L) / (L - (t-1)/t), L = ⌈log2 t⌉: where the two formulas above are equal. Raises
    ValueError for one rank, on which neither sends anything.
    """
    if ranks < 2:
        raise ValueError(f"A ring and a tree differ on 2 ranks or more; {ranks} was asked for.")
    deep = (ranks - 1).bit_length()
    return alpha / beta * (ranks - 1 - deep) / (deep - (ranks - 1) / ranks)
