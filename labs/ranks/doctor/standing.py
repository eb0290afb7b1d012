"""Where each rank stands, read from its journal (labs/ranks/journal.py, which says what is in it).

Reading asks nothing of the rank. What is read while the rank writes may be a moment old, never
mixed up: a call is written before it is counted.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from labs.ranks import journal
from labs.ranks.journal import COLLECTIVE, KINDS, PIECE_IN, PIECE_OUT, RECV, SEND

ROOTED = ("broadcast", "reduce", "gather", "scatter")


@dataclass(frozen=True)
class Group:
    """A process group as one rank knows it."""

    name: str
    ranks: tuple[int, ...]
    axis: str


@dataclass(frozen=True)
class Call:
    """One call that a rank has made. `place` counts from 1 among calls that are matched by order:
    all collectives of a group, or all sends (receives) of one peer, tag and group."""

    op: str
    group: Group
    place: int
    peer: int | None = None  # of a send or receive; the root of a rooted collective
    tag: int = 0
    payload: int = 0  # bytes
    dtype: str = "?"
    shape: tuple[int, ...] | None = ()  # None: of more dimensions than are kept
    reduction: str = ""
    file: str = ""
    function: str = ""
    line: int = 0

    @property
    def kind(self) -> int:
        """What it is matched with: journal.COLLECTIVE, or one of the other KINDS there."""
        return KINDS.get(self.op, COLLECTIVE)

    @property
    def key(self) -> Key:
        peer = self.peer if self.kind in (SEND, RECV, PIECE_OUT, PIECE_IN) else None
        return (self.kind, self.group.name, peer, self.tag)


Key = tuple[int, str, int | None, int]


@dataclass(frozen=True)
class Wait:
    """A thread of the rank waits for this call to end, in this line."""

    call: Call
    file: str = ""
    function: str = ""
    line: int = 0


@dataclass
class Stand:
    """One rank: how far it is, what it has called and what it waits on."""

    rank: int
    state: str = ""  # "" (not there yet), one of journal.STATES, or "gone"
    waits: tuple[Wait, ...] = ()
    threads: int = 1  # alive when the last wait began
    broken: tuple[Wait, ...] = ()  # waits that ended in an error
    older: bool = False  # it waits for a call that is not kept any more
    calls: dict[tuple[Key, int], Call] = field(default_factory=dict)  # the last, by key and place
    counts: dict[Key, int] = field(default_factory=dict)
    sums: dict[Key, int] = field(default_factory=dict)  # checksums of what was called
    made: int = 0
    complete: bool = True  # False: something was not kept, and nothing may be concluded

    @property
    def ended(self) -> bool:
        return self.state in ("returned", "failed", "gone")

    @property
    def stands_still(self) -> bool:
        """Every thread of it waits for other ranks: it can do nothing by itself."""
        return not self.ended and 0 < len(self.waits) == self.threads

    def call(self, key: Key, place: int) -> Call | None:
        """That call, where it is still known."""
        return self.calls.get((key, place))


class Journals:
    """The journals of all ranks of a run, opened as they appear."""

    def __init__(self, folder: Path, ranks: Iterable[int]) -> None:
        self.folder, self.ranks = folder, list(ranks)
        self._maps: dict[int, mmap.mmap] = {}

    def _map(self, rank: int) -> mmap.mmap | None:
        if rank not in self._maps:
            try:
                with open(self.folder / f"journal.{rank}", "rb") as file:
                    self._maps[rank] = mmap.mmap(file.fileno(), journal.SIZE, prot=mmap.PROT_READ)
            except (OSError, ValueError):  # not there, or not of its size yet
                return None
        return self._maps[rank]

    def pulse(self, rank: int) -> tuple:
        """Changes whenever the rank calls, waits, goes on or ends; cheap to read."""
        data = self._map(rank)
        return (data[: journal.KEYS_AT],) if data else ()

    def waiting(self, rank: int) -> bool:
        """Whether a thread of the rank waits, as far as a look at its journal's head tells."""
        data = self._map(rank)
        return data is not None and any(threads for _, _, threads, _ in _waits(data))

    def close(self) -> None:
        for data in self._maps.values():
            data.close()
        self._maps.clear()

    def stands(self) -> list[Stand]:
        """Where each rank stands now."""
        return [self._stand(rank) for rank in self.ranks]

    def _stand(self, rank: int) -> Stand:
        data = self._map(rank)
        if data is None:
            return Stand(rank)
        _, state, lost, keys, made = journal.HEADER.unpack_from(data, 0)
        groups, files = _names(self.folder / f"names.{rank}")
        found = Stand(rank, journal.STATES[state], made=made, complete=not lost)
        for i in range(keys):
            at = journal.KEYS_AT + i * journal.KEY.size
            kind, _, group, peer, tag, calls, told = journal.KEY.unpack_from(data, at)
            who = None if peer == journal.NOT_RANKED else peer
            key = (kind, groups.get(group, _UNKNOWN).name, who, tag)
            if calls:  # else its only call was refused
                found.counts[key], found.sums[key] = calls, told
        for number in range(max(0, made - journal.CALLS), made):
            call = _call(data, number, groups, files)
            if call is not None:
                found.calls[call.key, call.place] = call
        waits = []
        for number, file, threads, line in _waits(data):
            call = _call(data, number, groups, files)
            if call is None:  # older than what is kept: nothing can be said
                found.complete, found.older = False, True
                continue
            wait = Wait(call, *files.get(file, ("", "")), line)
            if threads:
                waits.append(wait)
                found.threads = max(threads, found.threads)
            else:
                found.broken += (wait,)
        found.waits = tuple(waits)
        return found


_UNKNOWN = Group("?", (), "?")


def _waits(data: mmap.mmap) -> list[tuple[int, int, int, int]]:
    """(call, file, threads alive, line) of each thread that waits."""
    found = []
    for i in range(journal.THREADS):
        _, number, file, threads, line = journal.WAIT.unpack_from(
            data, journal.WAITS_AT + i * journal.WAIT.size
        )
        if number:
            found.append((number - 1, file, threads, line))
    return found


def _call(data: mmap.mmap, number: int, groups: dict, files: dict) -> Call | None:
    at = journal.CALLS_AT + number % journal.CALLS * journal.CALL.size
    (
        held, op, dtype, reduction, dims, group, file, line, peer, tag, place, payload, *shape,
    ) = journal.CALL.unpack_from(data, at)  # fmt: skip
    if held != number:  # written over
        return None
    return Call(
        journal.OPS[op], groups.get(group, _UNKNOWN), place,
        None if peer == journal.NOT_RANKED else peer, tag, payload, journal.DTYPES[dtype],
        None if dims == journal.MANY else tuple(shape[:dims]), journal.REDUCTIONS[reduction],
        *files.get(file, ("", "")), line,
    )  # fmt: skip


def _names(path: Path) -> tuple[dict[int, Group], dict[int, tuple[str, str]]]:
    """Groups, and files with functions, by their numbers."""
    groups, files = {}, {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return groups, files
    for text in lines:
        try:
            fact = json.loads(text)
        except ValueError:  # half written
            continue
        if "group" in fact:
            groups[fact["group"]] = Group(fact["name"], tuple(fact["ranks"]), fact["axis"])
        else:
            files[fact["file"]] = (fact["name"], fact["function"])
    return groups, files
