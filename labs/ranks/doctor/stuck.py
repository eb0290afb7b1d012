"""Which ranks can never go on: a pure function of where each rank stands.

A rank that waits needs the ranks that have not made the matching call: of a collective, the same
operation in the same place of the group's order; of the n-th send to a rank, its n-th receive.
Such ranks are stuck when what they need is itself stuck, or has ended: the largest set for which
that holds (Chandy, Misra and Haas 1983 call it the AND model for all-of, the OR model for any-of).
No time is looked at. A message whose two ends are both there is in flight, however long it takes,
and a rank that computes may still make any call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from labs.ranks.doctor.standing import ROOTED, Call, Stand, Wait
from labs.ranks.journal import COLLECTIVE, NEW_GROUP, RECV, RECV_ANY, SEND


@dataclass(frozen=True)
class Need:
    """A wait of a rank, and the ranks that would have to act for it to end."""

    wait: Wait
    ranks: tuple[int, ...]
    one_is_enough: bool = False


Needs = dict[int, list[Need]]


def differences(mine: Call, theirs: Call) -> list[str]:
    """In what two calls, in the same place of one group's order, do not fit each other.

    Any of "operation", "group", "shape", "type", "root", "reduction"; the operation alone where
    that differs, for then nothing else can be compared.
    """
    if mine.op != theirs.op:
        return ["operation"]
    found = []
    if mine.group.ranks != theirs.group.ranks:
        found.append("group")
    if mine.op in ROOTED and mine.peer != theirs.peer:
        found.append("root")
    if "?" not in (mine.dtype, theirs.dtype) and mine.dtype != theirs.dtype:
        found.append("type")
    if mine.payload != theirs.payload and mine.op != "all_to_all":  # whose pieces may differ
        found.append("shape")
    if mine.reduction and theirs.reduction and mine.reduction != theirs.reduction:
        found.append("reduction")
    return found


def need(rank: int, wait: Wait, stands: Sequence[Stand]) -> Need:
    """The ranks without which this wait of `rank` does not end; none when all have acted."""
    call = wait.call
    if call.kind in (COLLECTIVE, NEW_GROUP):
        others = [r for r in call.group.ranks if r != rank]
        return Need(wait, tuple(r for r in others if not _joined(call, stands[r])))
    if call.kind == RECV_ANY:
        others = [r for r in call.group.ranks if r != rank]
        sent = sum(_count(stands[r], SEND, call, rank) for r in others)
        mine = stands[rank].counts
        asked = sum(
            n for (kind, group, _, tag), n in mine.items()
            if kind in (RECV, RECV_ANY) and (group, tag) == (call.group.name, call.tag)
        )  # fmt: skip
        return Need(wait, () if sent >= asked else tuple(others), one_is_enough=True)
    there = stands[call.peer] if call.peer is not None and call.peer < len(stands) else None
    if there is None or not there.complete:
        return Need(wait, ())
    mirrored = RECV if call.kind == SEND else SEND
    answered = _count(there, mirrored, call, rank)
    if call.kind == SEND:  # a receive from anyone may take it
        answered += _count(there, RECV_ANY, call, None)
    return Need(wait, () if answered >= call.place else (call.peer,))


def _joined(call: Call, there: Stand) -> bool:
    """Whether a rank has made the call that matches `call` (or too much is unknown to say no)."""
    if not there.complete:
        return True
    if there.counts.get(call.key, 0) < call.place:
        return False
    theirs = there.call(call.key, call.place)
    return theirs is None or not differences(call, theirs)


def _count(there: Stand, kind: int, call: Call, peer: int | None) -> int:
    return there.counts.get((kind, call.group.name, peer, call.tag), 0)


def stuck(stands: Sequence[Stand]) -> Needs:
    """The ranks that can never go on, each with what it waits for; empty when there is hope."""
    needs = {
        s.rank: [need(s.rank, wait, stands) for wait in s.waits]
        for s in stands
        if s.stands_still and s.complete
    }
    needs = {rank: waits for rank, waits in needs.items() if all(n.ranks for n in waits)}
    ended = {s.rank for s in stands if s.ended}
    while True:
        hopeless = ended | set(needs)
        freed = [r for r, waits in needs.items() if not all(_hopeless(n, hopeless) for n in waits)]
        if not freed:
            return needs
        for rank in freed:
            del needs[rank]


def _hopeless(need: Need, hopeless: set[int]) -> bool:
    all_or_any = all if need.one_is_enough else any
    return all_or_any(rank in hopeless for rank in need.ranks)


def waits_for(needs: Needs) -> dict[int, list[int]]:
    """The wait-for graph: each stuck rank with the ranks that it needs."""
    return {
        rank: list(dict.fromkeys(r for one in found for r in one.ranks))
        for rank, found in sorted(needs.items())
    }


def cycle(graph: dict[int, list[int]]) -> list[int]:
    """The shortest cycle of a wait-for graph, from its lowest rank on; empty when there is none."""
    found: list[list[int]] = []
    for start in graph:
        paths, seen = [[start]], {start}
        while paths:
            longer = []
            for path in paths:
                for after in graph.get(path[-1], ()):
                    if after == start:
                        found.append(path)
                    elif after not in seen:
                        seen.add(after)
                        longer.append([*path, after])
            paths = longer
    return min(found, key=lambda path: (len(path), path), default=[])
