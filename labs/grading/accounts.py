"""The ranks' own account held against the switch's counters.

An answer runs in the process that keeps its ledger, and can write what it likes there. So each
phase's bytes are counted outside as well, and the two must agree: what a ledger leaves out was sent
all the same, and what it makes up never left. Of a ledger's line only the operation, its payload
and its calls are taken, which the judge compares with what the exercise asks for; how many bytes
that is on the wire is worked out here.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.grading.sandbox.launcher import Launched
from labs.grading.sandbox.network import HEADER_BYTES, SEGMENT_BYTES, Count
from labs.grading.sandbox.outside import Outside
from labs.ranks import wire
from labs.ranks.ledger import Row

# What gloo adds, counted in benchmarks/grading.py: 576 bytes a rank and step of an all-reduce.
_A_CALL = 640  # bytes, for each call and each other rank
_A_PHASE = 2048  # bytes: a group that is made, a barrier
_SHARE = 0.02
_AGAIN, _MOST_AGAIN = 0.1, 4
"""Of what was told this part, and some segments, may have been sent twice: no more can be due to a
busy machine, and a rank can have its kernel send within itself again as often as it likes."""
TOGETHER = "run"
"""A phase of this name is of no section: all phases of the launch are then one account."""
_JUDGED = frozenset(("forward", "backward"))
_MOST_CALLS = {"forward": 32, "backward": 32, "": 128}
"""Of a rank in a phase whose calls an exercise counts, or a whole launch: some bytes for each."""
_MOST_CALLS_OF_A_SECTION = 64
_MOST_BARRIERS = 4  # the judge's own
# Heads are taken off the counted bytes, and those of a small datagram are smaller than what is
# taken off for it. So not more heads are taken off than honest ranks send: a packet for each full
# segment and its acknowledgement, and some for each call.
_SEGMENT = 512  # bytes
_PACKETS_A_CALL, _PACKETS_A_PHASE = 24, 64
_IN_PARTS = ("reduce_scatter",)
"""What gloo makes of a list of tensors in a round for each rank, each with its heads."""


@dataclass(frozen=True)
class Account:
    """One rank and phase: bytes by its ledger (with gloo's own at most), and by the counters."""

    where: str
    told: float
    most: float
    counted: int

    @property
    def holds(self) -> bool:
        return (1 - _SHARE) * self.told <= self.counted <= self.most

    def __str__(self) -> str:
        return (
            f"{self.where}: its own account has {self.told:,.0f} bytes, the network's counters "
            f"{self.counted:,}"
        )


def accounts(launched: Launched) -> list[Account]:
    """An account for each rank and phase; for all ranks together where they share a network.

    A phase is held against the ledger's rows of that phase (forward, backward), or of the section
    that has its name.
    """
    outside = launched.outside
    together = any(phase.name == TOGETHER for phase in outside.phases)
    by_name: dict[str, list[Count]] = {}
    for phase in outside.phases:
        name = "" if together else phase.name
        before = by_name.get(name, [Count(0, 0)] * len(phase.counts))
        by_name[name] = [a + b for a, b in zip(before, phase.counts, strict=True)]
    return [
        _account(launched, phase, place, count)
        for phase, counts in by_name.items()
        for place, count in enumerate(counts)
    ]


def _account(launched: Launched, phase: str, place: int, count: Count) -> Account:
    outside = launched.outside
    mine = [
        row for row in launched.run.ledger.rows
        if _is_of(row, phase, outside) and (row.rank == place or not outside.apart)
    ]  # fmt: skip
    told = sum(on_wire(row, outside.ranks) for row in mine)
    ranks, others = 1 if outside.apart else outside.ranks, outside.ranks - 1
    calls = sum(_calls(row, phase, outside.ranks) for row in mine)  # it can make up any number
    calls = min(calls, ranks * _MOST_CALLS.get(phase, _MOST_CALLS_OF_A_SECTION))
    again = min(count.again * SEGMENT_BYTES, _AGAIN * told + _MOST_AGAIN * SEGMENT_BYTES)
    most = told * (1 + _SHARE) + calls * _A_CALL * others + _A_PHASE * ranks + again
    heads = 2 * told / _SEGMENT + calls * _PACKETS_A_CALL * others + _PACKETS_A_PHASE * ranks
    counted = count.bytes - HEADER_BYTES * min(count.packets, int(heads))
    who = f"rank {place}" if outside.apart else "all ranks"
    return Account(f"{who} {phase}".strip(), told, most, max(0, counted))


def _is_of(row: Row, phase: str, outside: Outside) -> bool:
    """Whether a line is of this phase: by its section, where there is a phase of that name."""
    if any(one.name == row.section for one in outside.phases):
        return phase in ("", row.section)
    return phase == "" or phase in _JUDGED and phase == row.phase


def _calls(row: Row, phase: str, ranks: int) -> int:
    """Calls for each of which some bytes are allowed."""
    if row.op == "barrier":
        return 0 if phase else min(row.count, _MOST_BARRIERS)
    if row.payload_bytes <= 0:
        return 0
    return row.count * (ranks if row.op in _IN_PARTS else 1)


def on_wire(row: Row, ranks: int) -> float:
    """Bytes that the calls of a line put on the wire: what it says, or the most that can be.

    The most is that of the largest group, on the place in it that sends most.
    """
    if row.payload_bytes <= 0:
        return 0.0
    most = max(
        wire.cost("gloo", row.op, row.payload_bytes, ranks, place, 0).wire
        for place in range(ranks)
    )  # fmt: skip
    if row.op == "all_to_all":  # uneven pieces: none may stay
        most = float(row.payload_bytes)
    return min(max(row.wire_bytes, 0.0), most)


def contradiction(launched: Launched) -> str:
    """The first account that does not hold, in words; or ""."""
    return next((str(one) for one in accounts(launched) if not one.holds), "")
