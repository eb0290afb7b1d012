"""What one call moves: the operator's arguments, this backend's algorithm, the ring's formula.

Bytes are three things, kept apart. payload: the tensor the caller hands in. wire: what a rank
sends with the algorithm that this backend runs. ideal: what the bandwidth-optimal ring sends.
All are bytes sent by one rank. The wire figures of gloo are held against the kernel's own counters
in tests/test_ranks_wire.py.
"""

import math
from dataclasses import dataclass

from labs import formulas


@dataclass(frozen=True)
class Call:
    """One c10d operator: its plain name and where its arguments stand."""

    operator: str
    op: str
    input_at: int
    group_at: int
    peer_at: int | None = None  # root, source or destination, as a rank of the group
    tag_at: int | None = None


CALLS = (
    Call("allreduce_", "all_reduce", 0, 1),
    Call("allreduce_coalesced_", "all_reduce", 0, 1),
    Call("broadcast_", "broadcast", 0, 1, 2),
    Call("reduce_", "reduce", 0, 1, 3),
    Call("allgather_", "all_gather", 1, 2),
    Call("_allgather_base_", "all_gather", 1, 2),
    Call("allgather_coalesced_", "all_gather", 1, 2),
    Call("allgather_into_tensor_coalesced_", "all_gather", 1, 2),
    Call("reduce_scatter_", "reduce_scatter", 1, 2),
    Call("_reduce_scatter_base_", "reduce_scatter", 1, 2),
    Call("reduce_scatter_tensor_coalesced_", "reduce_scatter", 1, 2),
    Call("gather_", "gather", 1, 2, 3),
    Call("scatter_", "scatter", 1, 2, 3),
    Call("alltoall_", "all_to_all", 1, 2),
    Call("alltoall_base_", "all_to_all", 1, 2),
    Call("barrier", "barrier", 0, 1),
    Call("send", "send", 0, 1, 2, 3),
    Call("recv_", "recv", 0, 1, 2, 3),
    Call("recv_any_source_", "recv", 0, 1, tag_at=2),
)


@dataclass(frozen=True)
class Cost:
    """Bytes one rank sends for one call."""

    algorithm: str
    wire: float
    ideal: float


def ideal_bytes(
    op: str, payload: int, ranks: int, position: int, root: int | None, own: float | None = None
) -> float:
    """Bytes a rank sends with the bandwidth-optimal algorithm, per the ring formulas.

    own: of an all-to-all, the bytes that stay on the rank; None: an n-th of the payload.
    """
    n, first = ranks, position == root
    if op == "all_reduce":
        return formulas.ring_all_reduce_bytes(payload, n)
    if op == "all_gather":
        return formulas.ring_all_gather_bytes(payload * n, n)  # the payload is a rank's share
    if op == "reduce_scatter":
        return formulas.ring_reduce_scatter_bytes(payload, n)
    if op == "all_to_all":
        return payload - (payload / n if own is None else own)
    if op == "send":
        return payload
    if op == "gather":
        return 0 if first else payload
    if op == "scatter":
        return payload * (n - 1) / n if first else 0
    if op in ("broadcast", "reduce"):
        # A chain that is cut in small pieces: all ranks but the last (the first) pass it on.
        last = (root - 1) % n if op == "broadcast" else root
        return 0 if n == 1 or position == last else payload
    return 0  # recv, barrier


def cost(
    backend: str, op: str, payload: int, ranks: int, position: int, root: int | None,
    own: float | None = None,
) -> Cost:  # fmt: skip
    """Bytes that this rank sends. backend: "gloo" or "nccl" (NCCL is counted as the ring)."""
    ideal = ideal_bytes(op, payload, ranks, position, root, own)
    if ranks == 1:
        return Cost("none", 0.0, 0.0)
    if op in ("send", "recv"):
        return Cost("direct", ideal, ideal)
    if op == "barrier":
        return Cost("dissemination", 0.0, 0.0)
    if backend != "gloo":
        return Cost("ring", ideal, ideal)
    n, first = ranks, position == root
    if op == "reduce_scatter":  # gloo has none of its own: an all-reduce, of which a slice is kept
        return Cost("all-reduce, then a slice", formulas.ring_all_reduce_bytes(payload, n), ideal)
    if op == "broadcast":
        return Cost("binomial tree", payload * _tree_children((position - root) % n, n), ideal)
    if op == "reduce":  # a ring reduce-scatter, then every rank hands its slice to the root
        handed = 0 if first else payload / n
        return Cost("ring, then gather", payload * (n - 1) / n + handed, ideal)
    algorithm = "ring" if op in ("all_reduce", "all_gather") else "direct"
    return Cost(algorithm, ideal, ideal)


def _tree_children(place: int, ranks: int) -> int:
    """How many ranks the one at `place` (0 is the root) sends to in gloo's broadcast.

    Each round doubles the ranks that have the tensor: in round k those below 2**k send it on to
    the one 2**k places further. Who came in later has fewer rounds left.
    """
    rounds = range(place.bit_length(), math.ceil(math.log2(ranks)))
    return sum(1 for k in rounds if place + (1 << k) < ranks)
