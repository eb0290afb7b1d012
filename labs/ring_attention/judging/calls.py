"""Which blocks a rank attended to: each pair of a query and a key that it sees once, no block more.

What `attend` was given is known token by token, so that a block may come whole or in parts. A call
is wrong where the keys are not those that stand at the places it names: that is what a block taken
for another rank's looks like, a local mask, or a buffer that was written to on its way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labs.ring_attention.judging.trial import FORWARD
from labs.ring_attention.judging.trial_reference import Reference, Token


@dataclass(frozen=True)
class Fault:
    """What is wrong, and what probably lies behind it."""

    told: str
    hint: str


def first_fault(rings: list[Reference], told: list[list[dict]]) -> Fault | None:
    """What is wrong on any rank. The last of a ring sees most, and so tells most."""
    for reference, ring in zip(rings, told, strict=True):
        for member in reversed(range(len(ring))):
            wrong = fault(reference, member, ring[member]["calls"])
            if wrong:
                return wrong
    return None


def fault(reference: Reference, member: int, calls: list[dict]) -> Fault | None:
    """What is wrong with the calls of one rank of a ring; None: nothing."""
    job = reference.job
    n = job.tokens
    seen = torch.zeros(n, job.ranks * n, dtype=torch.int64)
    for call in calls:
        wrong = _given(reference, member, call)
        if wrong:
            return wrong
        rows = [reference.owners["q"][stamp][1] for stamp in call["q"]]
        keys = [reference.owners["k"][stamp] for stamp in call["k"]]
        columns = [source * n + at for source, at in keys]
        if not reference.mask[member * n : member * n + n][rows][:, columns].any():
            sources = sorted({source for source, _ in keys})
            return Fault(
                f"rank {member} of the ring attends to a block of rank {_listed(sources)}, of "
                "which none of its queries sees a key",
                "a block whose keys all come later than the queries is passed on, not worked on: "
                "compare k_places[source].min() with q_places.max()",
            )
        seen[torch.tensor(rows).unsqueeze(1), torch.tensor(columns)] += 1
    return _coverage(reference, member, seen)


def _coverage(reference: Reference, member: int, seen: torch.Tensor) -> Fault | None:
    n, c = reference.job.tokens, reference.job.ranks
    mask = reference.mask[member * n : member * n + n]
    blocks = (seen.view(n, c, n), mask.view(n, c, n))
    missing = [s for s in range(c) if ((blocks[0] == 0) & blocks[1])[:, s].any()]
    twice = [s for s in range(c) if ((blocks[0] > 1) & blocks[1])[:, s].any()]
    if missing:
        told = f"rank {member} of the ring does not attend to keys of rank {_listed(missing)} that "
        told += "its queries see"
        return Fault(told, _why_missing(reference, member, missing))
    if twice:
        told = f"rank {member} of the ring attends twice to keys of rank {_listed(twice)}"
        return Fault(told, "each block counts once: after c-1 hops the next one is your own again")
    return None


def _why_missing(reference: Reference, member: int, missing: list[int]) -> str:
    job, c = reference.job, reference.job.ranks
    if missing == [member] and job.tokens == 1:
        return (
            "a token sees itself: a block counts when its first key is AT or before the last query"
        )
    if missing == [member]:
        return "your own block is attended to as well: it is the first one, before any arrives"
    later = all(source > member for source in missing)
    if later and not torch.equal(job.k_places.flatten().sort()[0], job.k_places.flatten()):
        return (
            "which blocks can be skipped is said by places, not by ranks: with zigzag, or for "
            "full attention, a later rank's block is seen too"
        )
    if later:
        return (
            "full attention: queries placed after all keys see every block. Skip by places, "
            "not by ranks"
        )
    if len(missing) == 1 and missing[0] == (member + 1) % c and c > 2:
        return (
            "the last block that arrives, that of the right neighbour, is not attended to: your "
            "own and c-1 that arrive make c"
        )
    return "every block that a query sees is attended to: your own and the c-1 that arrive"


def _given(reference: Reference, member: int, call: dict) -> Fault | None:
    """What is wrong with the tensors and places of one call."""
    keys, values = ([reference.owners[n].get(stamp) for stamp in call[n]] for n in "kv")
    whose = [reference.owners["q"].get(stamp) for stamp in call["q"]]
    if wrong := _tokens(reference, member, call, keys, values):
        return wrong
    if not whose or any(token is None or token[0] != member for token in whose):
        return Fault(
            f"rank {member} of the ring attends with queries that are not its own",
            "the queries stay: only K and V go round",
        )
    places = reference.job.q_places[member].tolist()
    own = call["q_places"] == [places[at] for _, at in whose]
    if wrong := _key_places(reference, member, call["k_places"], keys, own):
        return wrong
    if not own:
        told = (
            f"rank {member} of the ring attends with query places {_few(call['q_places'])}, its "
            f"queries stand at {_few(places)}"
        )
        if len(set(call["q_places"])) == 1 and min(call["q_places"]) > max(places):
            return Fault(told, "no mask: the queries' own places say what they see; hand q_places "
                         "on as it is")  # fmt: skip
        return Fault(told, _GLOBAL)
    return _results(reference, member, call, whose)


_GLOBAL = (
    "the mask goes by global positions: for every block hand on q_places and k_places[source], "
    "which count in the whole sequence, not places within the block"
)
_OVERWRITTEN = (
    "this is nobody's block: was a buffer written to while it was still being sent, or read before "
    "its wait? Receive into a new tensor, and wait for send and receive before you go on. Or are "
    "its heads in another order?"
)


def _tokens(
    reference: Reference, member: int, call: dict, keys: list[Token | None],
    values: list[Token | None],
) -> Fault | None:  # fmt: skip
    at, job = f"rank {member} of the ring: attend", reference.job
    for name, heads in (("q", job.heads), ("k", job.kv_heads), ("v", job.kv_heads)):
        shape = call["shapes"][name]
        if len(shape) != 4 or shape[1] % heads or shape[0] != job.batch or shape[3] != job.width:
            want = f"({job.batch}, {heads}, n, {job.width})"
            hint = "hand on all heads of all sequences: q (B, h, n, d_h), k and v (B, h_kv, n, d_h)"
            return Fault(f"{at} was given {name} of shape {shape}, expected {want}", hint)
    if not keys or not values or None in keys or None in values:
        if call["k"] and all(stamp in reference.owners["v"] for stamp in call["k"]):
            hint = "attend takes q, k, v in this order; in which were k and v stacked?"
            return Fault(f"{at} was given V in the place of K", hint)
        return Fault(f"{at} was given keys or values that no rank holds", _OVERWRITTEN)
    if len(call["k"]) > reference.job.tokens:
        return Fault(
            f"{at} was given {len(call['k'])} keys, a block has {reference.job.tokens}",
            "one block at a time: no rank may hold the keys of all",
        )
    if keys != values:
        pair = next((k, v) for k, v in zip(keys, values, strict=False) if k != v)
        return Fault(
            f"{at} was given K of rank {pair[0][0]} with V of rank {pair[1][0]}",
            "K and V of a block travel together: as one message, or two that arrive in one order",
        )
    return None


def _key_places(
    reference: Reference, member: int, given: list[int], keys: list[Token], queries_right: bool
) -> Fault | None:
    table = reference.job.k_places.tolist()
    if given == [table[source][at] for source, at in keys]:
        return None
    source = keys[0][0]
    told = (
        f"rank {member} of the ring attends to the keys of rank {source}, which stand at "
        f"{_few(table[source])}, as if they stood at {_few(given)}"
    )
    named = next((r for r, row in enumerate(table) if row == given), None)
    if named is None or named == member or not queries_right:
        return Fault(told, f"a local causal mask: {_GLOBAL}")
    return Fault(
        told,
        f"these are the places of rank {named}: whose block is it after s hops to the right? That "
        "of group rank (rank - s) % c",
    )


def _results(reference: Reference, member: int, call: dict, whose: list[Token]) -> Fault | None:
    """Of a backward call: are d_out, out and lse those of the queries?"""
    for name in ("d_out", *FORWARD):
        if name not in call:
            continue
        right = [reference.stamped[name][member][at] for _, at in whose]
        if call[name] != right:
            told = f"rank {member} of the ring: attend_backward was given another {name} than its "
            told += "own over all keys"
            return Fault(told, _OWN.get(name, ""))
    return None


_OWN = {
    "lse": "with a block's own lse the gradients are those of a softmax over this block alone. "
    "Hand on the lse over all keys, as ring_forward returned it",
    "out": "with a block's own out the mean that softmax's gradient subtracts is that of one "
    "block (dv does without). Hand on the out over all keys, as ring_forward returned it",
    "d_out": "d_out belongs to the queries and is handed on as it came: was it changed on the way?",
}


def sources(reference: Reference, call: dict) -> set[int]:
    """The ranks of the ring whose keys a call was given."""
    found = (reference.owners["k"].get(stamp) for stamp in call["k"])
    return {token[0] for token in found if token}


def _few(places: list[int]) -> str:
    told = ["never" if place >= 2**62 else str(place) for place in places]
    return ", ".join(told if len(told) <= 6 else [*told[:3], "…", *told[-1:]])


def _listed(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))
