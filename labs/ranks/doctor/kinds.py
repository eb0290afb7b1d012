"""Which kind of deadlock it is, and the sentence that says why."""

from __future__ import annotations

from collections.abc import Sequence

from labs.ranks.doctor import words
from labs.ranks.doctor.standing import Call, Stand
from labs.ranks.doctor.stuck import Need, Needs, differences
from labs.ranks.doctor.words import some
from labs.ranks.journal import COLLECTIVE, NEW_GROUP, RECV, RECV_ANY, SEND

PAIRED = (SEND, RECV)


def kind_of(stands: Sequence[Stand], needs: Needs, circle: list[int]) -> tuple[str, str]:
    """The kind of a deadlock, and the sentence that says why."""
    edges = [(r, one, q) for r, found in needs.items() for one in found for q in one.ranks]
    for rank, one, other in edges:
        call = one.wait.call
        theirs = stands[other].call(call.key, call.place) if call.kind == COLLECTIVE else None
        if theirs is not None and (what := differences(call, theirs)):
            return f"other {what[0]}", unlike(rank, call, other, theirs, what[0])
    for rank, one, other in edges:
        found = _nearly_paired(rank, one.wait.call, needs.get(other, []))
        if found:
            return found
    if circle:
        return _all_astray(stands, needs, circle) or _kind_of_circle(needs, circle)
    for rank, one, other in edges:
        found = _wrong_peer(rank, one.wait.call, other, stands)
        if found:
            return found
    for rank, one, other in edges:
        if stands[other].ended:
            return "left early", _left(one.wait.call, rank, stands[other])
    return "cycle", ""


def _nearly_paired(rank: int, call: Call, theirs: Sequence[Need]) -> tuple[str, str] | None:
    """A send and a receive between the same two ranks that differ in tag or group."""
    for other in (n.wait.call for n in theirs):
        if {call.kind, other.kind} != {SEND, RECV} or other.peer != rank:
            continue
        pair = f"rank {rank} and rank {call.peer} mean the same message"
        if call.tag != other.tag:
            return "wrong tag", f"{pair}, one with tag {call.tag}, the other with tag {other.tag}"
        if call.group.name != other.group.name:
            mine, its = words.group(call), words.group(other)
            return "other group", f"{pair}, one on {mine}, the other on {its}"
    return None


def _kind_of_circle(needs: Needs, circle: list[int]) -> tuple[str, str]:
    calls = [
        next(n.wait.call for n in needs[rank] if circle[(i + 1) % len(circle)] in n.ranks)
        for i, rank in enumerate(circle)
    ]
    kinds = {call.kind for call in calls}
    if kinds == {SEND}:
        return (
            "all send first",
            "each waits for its send to end, and a send ends when its receiver takes it",
        )
    if kinds <= {RECV, RECV_ANY}:
        return "all receive first", "each waits to receive, and nobody is left to send"
    if kinds <= {SEND, RECV, RECV_ANY}:
        return "cycle", "each waits for a message that the next would handle only after its own"
    ops = sorted({call.op for call in calls})
    if kinds == {COLLECTIVE} and len({call.group.name for call in calls}) > 1:
        axes = sorted({words.group(call) for call in calls})
        which = " and ".join(axes) if len(axes) > 1 else f"two groups of the same {axes[0]}"
        return "other group", f"they are in collectives on different groups: {which}"
    return "other operation", f"they are in different calls: {' and '.join(ops)}"


def _all_astray(stands: Sequence[Stand], needs: Needs, circle: list[int]) -> tuple[str, str] | None:
    """A circle in which everyone's message is there, under another name: each names a wrong rank.

    In other circles the messages are missing, and it is the order that is wrong.
    """
    found = []
    for rank in circle:
        call = needs[rank][0].wait.call
        if call.kind not in PAIRED or not needs[rank][0].ranks:
            return None
        found.append(_wrong_peer(rank, call, call.peer, stands))
    return found[0] if all(found) else None


def _wrong_peer(
    rank: int, call: Call, other: int, stands: Sequence[Stand]
) -> tuple[str, str] | None:
    """A message that nobody on its other end asks for, while a third rank has made its match."""
    if call.kind not in PAIRED or _ever(stands[other], RECV if call.kind == SEND else SEND, rank):
        return None
    for third in stands:
        if third.rank in (rank, other):
            continue
        if call.kind == SEND and _left_over(third, RECV, stands[rank], SEND):
            return "wrong peer", (
                f"rank {rank} sends to rank {other}, which never receives from it, while rank "
                f"{third.rank} receives from rank {rank}"
            )
        if call.kind == RECV and _left_over(third, SEND, stands[rank], RECV):
            return "wrong peer", (
                f"rank {rank} receives from rank {other}, which never sends to it, while rank "
                f"{third.rank} sends to rank {rank}"
            )
    return None


def _left_over(one: Stand, kind: int, other: Stand, match: int) -> bool:
    """Whether `one` has made a call of `kind` with `other` that `other` has not matched."""
    return any(
        count > other.counts.get((match, group, one.rank, tag), 0)
        for (k, group, peer, tag), count in one.counts.items()
        if k == kind and peer == other.rank
    )


def _ever(there: Stand, kind: int, peer: int) -> bool:
    """Whether that rank has made any such call with `peer`, or with anyone."""
    return any(
        k == kind and p == peer or (kind == RECV and k == RECV_ANY) for k, _, p, _ in there.counts
    )


def _left(call: Call, rank: int, there: Stand) -> str:
    if call.kind == NEW_GROUP:
        return f"rank {there.rank} returned without this call of new_group, which every rank makes"
    if call.kind == COLLECTIVE:
        made, on = there.counts.get(call.key, 0), words.on(call)
        if not made:
            return (
                f"rank {there.rank} returned without any collective{on}, and {call.op} needs "
                "every rank"
            )
        return (
            f"rank {there.rank} returned after {words.number(made, 'collective')}{on}, and rank "
            f"{rank} is in its {words.nth(call.place)}"
        )
    mirrored = RECV if call.kind == SEND else SEND
    made = there.counts.get((mirrored, call.group.name, rank, call.tag), 0)
    messages = words.number(made, "message")
    did = f"receiving {messages} of" if call.kind == SEND else f"sending {messages} to"
    nth = words.nth(call.place)
    return f"rank {there.rank} returned after {did} rank {rank}, and this is the {nth}"


def unlike(one: int, mine: Call, other: int, theirs: Call, what: str) -> str:
    """Why two collectives in the same place of one group's order do not fit."""
    which = f"the {words.nth(mine.place)} collective{words.on(mine)}"
    shown = {
        "operation": lambda call: call.op,
        "shape": words.tensor,
        "type": words.tensor,
        "root": lambda call: f"root {call.peer}",
        "group": lambda call: f"the group of {some(call.group.ranks)}",
        "reduction": lambda call: call.reduction,
    }[what]
    named = which if what == "operation" else f"{which}, {mine.op},"
    return f"{named} has {shown(mine)} on rank {one} and {shown(theirs)} on rank {other}".replace(
        "has the group", "is of the group"
    )
