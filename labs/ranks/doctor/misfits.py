"""Calls that were matched and do not fit each other, though the run came to its end.

gloo fills a receive buffer that is too large in part, reduces with each rank's own operation, and
cuts the buffers of an all-to-all as each rank says, all without a word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from labs.ranks.doctor.standing import Call, Key, Stand
from labs.ranks.doctor.stuck import differences
from labs.ranks.journal import CALLS, COLLECTIVE, NEW_GROUP, RECV, RECV_ANY, SEND

_ADDS_UP = ("all_reduce", "reduce", "reduce_scatter")


@dataclass(frozen=True)
class Misfit:
    """Two calls that were matched and do not fit: what was received is not what was sent."""

    ranks: tuple[int, int]
    calls: tuple[Call, Call] | None  # None: it was longer ago than what is kept
    what: tuple[str, ...]

    @property
    def harmless(self) -> bool:
        """Whether the bytes arrived as they were sent, under another type: it may be meant."""
        return self.what == ("type",) and self.calls[0].op not in _ADDS_UP

    @property
    def too_long(self) -> bool:
        """Whether the message is longer than its buffer, for which gloo ends the process."""
        return self.calls is not None and self.calls[0].payload > self.calls[1].payload


def misfits(stands: Sequence[Stand]) -> list[Misfit]:
    """Matched calls whose sizes, types, roots or operations differ: the first of each pair.

    Collectives are held against those of the group's first rank here.
    """
    found, first = [*_of_pieces(stands), *_from_anyone(stands)], {}
    for one in stands:
        for key in one.counts:
            kind, group, peer, tag = key
            if kind in (COLLECTIVE, NEW_GROUP):
                other, theirs = first.setdefault(key, one), key
                if other is one:
                    continue
                found.append(_misfit(other, theirs, one, key))
            elif kind == SEND and peer < len(stands):
                if (RECV_ANY, group, None, tag) in stands[peer].counts:
                    continue  # which message a receive from anyone took is not known
                found.append(_misfit(one, key, stands[peer], (RECV, group, one.rank, tag)))
    return [misfit for misfit in found if misfit is not None]


def _misfit(one: Stand, key: Key, other: Stand, theirs: Key) -> Misfit | None:
    mine, its = one.counts[key], other.counts.get(theirs, 0)
    if not (one.complete and other.complete):
        return None
    as_much = mine == its and one.sums[key] == other.sums[theirs]
    if as_much and key[0] == SEND:
        return None
    for place in range(max(1, min(mine, its) - CALLS + 1), min(mine, its) + 1):
        a, b = one.call(key, place), other.call(theirs, place)
        if a is not None and b is not None and (what := _unlike(a, b)):
            return Misfit((one.rank, other.rank), (a, b), what)
    if mine == its and not as_much:
        return Misfit((one.rank, other.rank), None, ("shape",))
    return None


def _unlike(mine: Call, theirs: Call) -> tuple[str, ...]:
    if mine.kind != SEND:
        return tuple(differences(mine, theirs))
    what = ["shape"] if mine.payload != theirs.payload else []
    if "?" not in (mine.dtype, theirs.dtype) and mine.dtype != theirs.dtype:
        what.append("type")
    return tuple(what)


def _of_pieces(stands: Sequence[Stand]) -> Iterator[Misfit]:
    """Pieces of an all-to-all of which the sender and the receiver name different sizes.

    Only of the calls that are kept: the sizes are in no checksum.
    """
    seen = set()
    for one in stands:
        for (key, place), call in one.calls.items():
            if call.op != "all_to_all" or not one.complete:
                continue
            for rank in call.group.ranks:
                other = stands[rank] if rank < len(stands) and rank != one.rank else None
                theirs = other.call(key, place) if other and other.complete else None
                if (one.rank, rank) in seen or theirs is None or theirs.op != call.op:
                    continue
                if theirs.group.ranks != call.group.ranks:
                    continue
                out = _piece(one, call, "piece_out", rank)
                into = _piece(other, theirs, "piece_in", one.rank)
                if out is not None and into is not None and out.payload != into.payload:
                    seen.add((one.rank, rank))
                    yield Misfit((one.rank, rank), (out, into), ("shape",))


def _piece(stand: Stand, call: Call, op: str, peer: int) -> Call | None:
    """The piece of an all-to-all to or from `peer`; None where that is not kept."""
    piece = replace(call, op=op, peer=peer, payload=call.payload // max(1, len(call.group.ranks)))
    return piece if call.payload else stand.call(piece.key, call.place)


def _from_anyone(stands: Sequence[Stand]) -> Iterator[Misfit]:
    """Which message a receive from anyone took is not known; but if all were taken, then all the
    messages to a rank, and all its buffers for them, have the same sizes."""
    for there in stands:
        for kind, group, _, tag in there.counts:
            if kind != RECV_ANY or not all(stand.complete for stand in stands):
                continue
            taken = _all_of(there, (RECV, RECV_ANY), group, tag)
            sent = [(s, _all_of(s, (SEND,), group, tag, there.rank)) for s in stands]
            if taken is None or any(calls is None for _, calls in sent):
                continue
            messages = [(stand.rank, call) for stand, calls in sent for call in calls]
            if len(messages) != len(taken):
                continue
            room = Counter(call.payload for call in taken)
            room.subtract(call.payload for _, call in messages)
            for rank, call in messages:
                if room[call.payload] < 0:
                    buffer = next(b for b in taken if room[b.payload] > 0)
                    yield Misfit((rank, there.rank), (call, buffer), ("shape",))
                    break


def _all_of(
    stand: Stand, kinds: tuple[int, ...], group: str, tag: int, peer: int | None = None
) -> list[Call] | None:
    """A rank's calls of these kinds on a group with a tag; None where not all are kept."""

    def wanted(key: Key) -> bool:
        kind, its_group, its_peer, its_tag = key
        of_peer = peer is None or its_peer == peer
        return kind in kinds and (its_group, its_tag) == (group, tag) and of_peer

    found = [call for (key, _), call in stand.calls.items() if wanted(key)]
    made = sum(count for key, count in stand.counts.items() if wanted(key))
    return found if len(found) == made else None


def unmatched_sends(stands: Iterable[Stand]) -> list[tuple[int, int, int]]:
    """(from, to, how many) of messages that nobody received, of a run whose ranks all ended."""
    stands = list(stands)
    found = []
    for one in stands:
        for (kind, group, peer, tag), sent in one.counts.items():
            if kind != SEND or peer is None or peer >= len(stands):
                continue
            there = stands[peer].counts
            if (RECV_ANY, group, None, tag) in there:
                continue
            taken = there.get((RECV, group, one.rank, tag), 0)
            if sent > taken and one.complete and stands[peer].complete:
                found.append((one.rank, peer, sent - taken))
    return found
