"""The ranks' own account held against the switch's counters.

An answer runs in the process that keeps its ledger, and can write what it likes there. So each
phase's bytes are counted outside as well, and the two must agree: what a ledger leaves out was sent
all the same, and what it makes up never left.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.grading.sandbox.launcher import Launched

# What gloo adds, counted in benchmarks/grading.py: 576 bytes a rank and step of an all-reduce.
_A_CALL = 640  # bytes, for each call and each other rank
_A_PHASE = 2048  # bytes: a group that is made, a barrier
_SHARE = 0.02
_IN_PARTS = ("reduce_scatter",)
"""What gloo does with a list of tensors in as many rounds as there are ranks, all with heads."""


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


TOGETHER = "run"
"""A phase of this name is of no section: all phases of the launch are then one account."""


def accounts(launched: Launched) -> list[Account]:
    """An account for each rank and phase; for all ranks together where they share a network.

    A phase is held against the ledger's rows of that phase (forward, backward), or of the section
    that has its name.
    """
    outside = launched.outside
    by_name: dict[str, list[tuple[int, int]]] = {}
    together = any(phase.name == TOGETHER for phase in outside.phases)
    for phase in outside.phases:
        name = "" if together else phase.name
        before = by_name.get(name, [(0, 0)] * len(phase.counts))
        counted = zip(before, phase.payload, phase.again, strict=True)
        by_name[name] = [(a + payload, b + again) for (a, b), payload, again in counted]
    return [
        _account(launched, phase, place, *counted)
        for phase, by_rank in by_name.items()
        for place, counted in enumerate(by_rank)
    ]


def _account(launched: Launched, phase: str, place: int, counted: int, again: int) -> Account:
    outside = launched.outside
    mine = [
        row for row in launched.run.ledger.rows
        if phase in ("", row.phase, row.section) and (row.rank == place or not outside.apart)
    ]  # fmt: skip
    told = sum(row.wire_bytes for row in mine)
    calls = sum(row.count * (outside.ranks if row.op in _IN_PARTS else 1) for row in mine)
    ranks = 1 if outside.apart else outside.ranks
    most = told * (1 + _SHARE) + calls * _A_CALL * (outside.ranks - 1) + _A_PHASE * ranks + again
    who = f"rank {place}" if outside.apart else "all ranks"
    return Account(f"{who} {phase}".strip(), told, most, counted)


def contradiction(launched: Launched) -> str:
    """The first account that does not hold, in words; or ""."""
    return next((str(one) for one in accounts(launched) if not one.holds), "")
