"""From stuck ranks, a reached limit, or calls that do not fit, to a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from labs.ranks.doctor import words
from labs.ranks.doctor.diagnosis import ADVICE, Diagnosis
from labs.ranks.doctor.kinds import PAIRED, kind_of, unlike
from labs.ranks.doctor.misfits import Misfit
from labs.ranks.doctor.native import last_call
from labs.ranks.doctor.stacks import Look
from labs.ranks.doctor.standing import Call, Stand
from labs.ranks.doctor.stuck import Needs, cycle, need, stuck, waits_for
from labs.ranks.doctor.telling import NOTHING, Telling, at
from labs.ranks.doctor.words import Places, some, verb
from labs.ranks.journal import COLLECTIVE, PIECE_IN, PIECE_OUT, RECV, RECV_ANY, SEND


def of_stuck(
    stands: Sequence[Stand], needs: Needs, looks: Mapping[int, Look], places: Places
) -> Diagnosis:
    """Explain ranks that can never go on. needs: what `stuck.stuck` gave, not empty."""
    graph = waits_for(needs)
    circle = cycle(graph)
    kind, why = kind_of(stands, needs, circle)
    crossed = kind == "other group" and len(_members(needs, circle)) > 1
    advice = ADVICE["groups crossed" if crossed else kind]
    told = Telling(stands, needs, looks, places)
    return Diagnosis(
        kind, f"deadlock: {_headline(stands, graph, circle)}", told.lines(), why, advice,
        len(stands), graph, circle, told.calls(), told.ended(),
    )  # fmt: skip


def _members(needs: Needs, circle: Sequence[int]) -> set[tuple[int, ...]]:
    """The ranks of each group that the ranks of a circle are in a collective of."""
    calls = [one.wait.call for rank in circle for one in needs[rank]]
    return {call.group.ranks for call in calls if call.kind == COLLECTIVE}


def at_limit(
    limit: float, stands: Sequence[Stand], looks: Mapping[int, Look], places: Places,
    states: Mapping[int, str] | None = None,
) -> Diagnosis:  # fmt: skip
    """Explain a run that was ended at its limit of `limit` seconds, though it may have gone on."""
    reached = f"the limit of {limit:g} s was reached"
    needs = {}
    for stand in stands:
        found = [need(stand.rank, wait, stands) for wait in stand.waits]
        if not stand.ended and any(one.ranks for one in found):
            needs[stand.rank] = found
    told = Telling(stands, needs, looks, places, states or {})
    at_work = [s.rank for s in stands if not s.ended]
    stopped = [r for r in at_work if looks.get(r, NOTHING).stopped]
    begun = [s.rank for s in stands if s.state not in ("", "starting")]
    graph = waits_for(needs)
    missing = sorted({r for ranks in graph.values() for r in ranks if r in at_work} - set(graph))
    if stopped:
        kind = "stopped"
        head = f"{reached}; {some(stopped)} {verb(stopped, 'is', 'are')} stopped"
    elif missing:
        kind = "never came"
        who = f"{some(list(graph))} {verb(graph, 'waits', 'wait')} for {some(missing)}"
        head = f"{reached}; {who}, which {verb(missing, 'has', 'have')} not come"
    elif not begun:
        kind = "limit"
        head = f"{reached}; {some(at_work)} {verb(at_work, 'has', 'have')} not started yet"
    elif at_work:
        kind, head = "busy", f"{reached}; {some(at_work)} still ran"
    else:
        kind, head = "limit", f"{reached} as the ranks ended"
    return Diagnosis(
        kind, head, told.lines(), "", ADVICE[kind], len(stands), graph, [], told.calls(),
        told.ended(),
    )  # fmt: skip


def of_starved(found: Diagnosis, took: float, ran: float) -> Diagnosis:
    """The diagnosis at a limit of a run that never had its time: others' work had the cores."""
    why = f"other programs had the cores of this machine for {took:.0f} of its {ran:.0f} s"
    return replace(found, starved=True, why=why)


def of_misfits(found: Sequence[Misfit], ranks: int, places: Places) -> Diagnosis:
    """Explain calls that were matched and do not fit each other. found: not empty."""
    first = found[0]
    one, other = first.ranks
    if first.calls is None:
        why = f"the calls of ranks {one} and {other} differ in size, long before the end"
        return Diagnosis("sizes differ", _MISFIT, (), why, ADVICE["sizes differ"], ranks)
    mine, theirs = first.calls
    kind, why = _misfit(one, mine, other, theirs, first.what)
    lines = tuple(
        f"rank {rank} {_did(call)}{at(places.tell(call.file, call.line))}"
        for rank, call in ((one, mine), (other, theirs))
    )
    advice = ADVICE["pieces differ" if mine.kind == PIECE_OUT else kind]
    return Diagnosis(kind, _MISFIT, lines, why, advice, ranks)


_MISFIT = "two calls that belong together do not match"


def _did(call: Call) -> str:
    if call.kind == SEND:
        return f"sent {words.tensor(call)} to rank {call.peer}"
    if call.kind in (RECV, RECV_ANY):
        who = "any rank" if call.peer is None else f"rank {call.peer}"
        return f"received into {words.tensor(call)} from {who}"
    if call.kind == PIECE_OUT:
        return f"sent {call.payload:,} bytes to rank {call.peer} in an all_to_all"
    if call.kind == PIECE_IN:
        return f"made room for {call.payload:,} bytes from rank {call.peer} in an all_to_all"
    return f"called {words.collective(call, always=True)}"


def _misfit(one: int, mine: Call, other: int, theirs: Call, what: Sequence[str]) -> tuple[str, str]:
    if mine.kind == PIECE_OUT:
        return "sizes differ", (
            f"in the {words.nth(mine.place)} collective{words.on(mine)}, all_to_all, the piece "
            f"from rank {one} to rank {other} has {mine.payload:,} bytes and the room for it "
            f"{theirs.payload:,}"
        )
    if theirs.kind == RECV_ANY:
        return "sizes differ", (
            f"rank {one} sent {mine.payload:,} bytes to rank {other}, which had no buffer of that "
            f"size left for it: one that takes a message from any rank has {theirs.payload:,}"
        )
    if mine.kind in PAIRED:
        return "sizes differ", (
            f"the {words.nth(mine.place)} message from rank {one} to rank {other} has "
            f"{mine.payload:,} bytes of {mine.dtype} and the buffer for it "
            f"{theirs.payload:,} of {theirs.dtype}"
        )
    return f"other {what[0]}", unlike(one, mine, other, theirs, what[0])


def _headline(stands: Sequence[Stand], graph: dict[int, list[int]], circle: list[int]) -> str:
    if len(circle) == 2:
        return f"{some(circle)} wait for each other; neither can go on"
    if len(circle) > 2:
        return f"{some(circle)} wait in a circle; none can go on"
    gone = sorted({r for ranks in graph.values() for r in ranks if stands[r].ended})
    waiting = list(graph)
    if not gone:
        return f"{some(waiting)} {verb(waiting, 'waits', 'wait')} and cannot go on"
    left = verb(gone, "has returned", "have returned")
    return f"{some(waiting)} {verb(waiting, 'waits', 'wait')} for {some(gone)}, which {left}"


def of_victims(stands: Sequence[Stand], places: Places) -> Diagnosis | None:
    """Explain ranks of which all that failed say that another one was gone.

    They still have their waits in their journals, and so have those that torchrun ended after
    them. None where these do not tell.
    """
    waiting = []
    for stand in stands:
        last = last_call(stand)  # DDP waits in C++
        stood = stand.waits or stand.broken or (last and (last,))
        if stand.state in ("failed", "gone") and stood:
            stand = replace(stand, state="running", waits=stood, threads=len(stood))
        waiting.append(stand)
    if needs := stuck(waiting):
        return of_stuck(waiting, needs, {}, places)
    for stand in waiting:
        for wait in stand.waits:
            peer = wait.call.peer if wait.call.kind in PAIRED else None
            if peer is not None and stands[peer].state == "returned":
                return _lost(waiting, stand.rank, peer, wait.call, places)
    return None


def _lost(
    stands: Sequence[Stand], rank: int, peer: int, call: Call, places: Places
) -> Diagnosis:  # fmt: skip
    head = f"rank {peer} returned while a message between it and rank {rank} was on its way"
    told = Telling(stands, {}, {}, places)
    why = f"the {words.nth(call.place)} {call.op} between the two was begun on both and not ended"
    return Diagnosis("message lost", head, told.lines(), why, ADVICE["message lost"], len(stands))
