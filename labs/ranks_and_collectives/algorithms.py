"""Who sends what to whom, and after what: gloo's algorithms as data.

`messages("all_reduce", 4)` is the list of messages of a ring all-reduce. What is counted, simulated
and held against the ledger is this list; nothing else knows an algorithm. Sizes are in blocks, of
which the whole tensor has t (a broadcast sends all of them in each message).

gloo cuts each message of a ring in two or more segments, so that one is summed while the next is
under way. The model has one message there, as the books do.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.ranks_and_collectives.collectives import ROOT


@dataclass(frozen=True)
class Message:
    """`blocks` blocks from one rank to another, once the messages `after` have arrived."""

    source: int
    target: int
    blocks: int = 1
    after: tuple[int, ...] = ()  # places in the list


def messages(op: str, ranks: int) -> list[Message]:
    """The messages of one collective on `ranks` ranks, root 0. ValueError for another `op`."""
    t = ranks
    others = [rank for rank in range(t) if rank != ROOT]
    if op == "broadcast":
        return _tree(t)
    if op == "gather":
        return [Message(rank, ROOT) for rank in others]
    if op == "scatter":
        return [Message(ROOT, rank) for rank in others]
    if op == "all_to_all":
        return [Message(rank, (rank + far) % t) for far in range(1, t) for rank in range(t)]
    if op == "all_gather":
        return _ring(t, t - 1)
    if op in ("all_reduce", "reduce_scatter"):  # gloo has no reduce-scatter of its own
        return _ring(t, 2 * (t - 1))
    if op == "reduce":
        ring = _ring(t, t - 1)
        last = {m.target: place for place, m in enumerate(ring)}  # a rank's slice is then whole
        return ring + [Message(rank, ROOT, 1, (last[rank],)) for rank in others]
    raise ValueError(f"no algorithm of {op!r} is known")


def _ring(t: int, steps: int) -> list[Message]:
    """In each step every rank passes on to the next what came to it in the step before."""
    if t == 1:
        return []
    return [
        Message(rank, (rank + 1) % t, 1, ((step - 1) * t + (rank - 1) % t,) if step else ())
        for step in range(steps)
        for rank in range(t)
    ]


def _tree(t: int) -> list[Message]:
    """A binomial tree: in step k the ranks below 2**k, which have it, send 2**k further."""
    found: list[Message] = []
    came: dict[int, tuple[int, ...]] = {ROOT: ()}
    reach = 1
    while reach < t:
        for rank in range(min(reach, t - reach)):
            came[rank + reach] = (len(found),)
            found.append(Message(rank, rank + reach, t, came[rank]))
        reach *= 2
    return found


def blocks_sent(op: str, ranks: int, backend: str = "gloo") -> list[int]:
    """Blocks that each rank sends. NCCL's are counted as rings, whatever it chooses at a size."""
    if backend != "gloo" and ranks > 1:
        t = ranks
        own = {"broadcast": [t] * (t - 1) + [0], "reduce": [0] + [t] * (t - 1),
               "reduce_scatter": [t - 1] * t}  # fmt: skip
        if op in own:
            return own[op]
    sent = [0] * ranks
    for message in messages(op, ranks):
        sent[message.source] += message.blocks
    return sent
