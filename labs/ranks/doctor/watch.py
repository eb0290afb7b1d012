"""Watch the journals while a run is on: has it come to a point from which it cannot go on?

Being stuck is final (labs/ranks/doctor/stuck.py), so one look would do if all journals could be
read in one instant. They are read one after the other: only what two looks in a row find the same
is said, half a second apart, so that what is read late of one rank cannot mislead.

A journal is read in full only once some rank has waited from one look to the next without a sign of
life: of a run that goes on, the heads are read, which costs it next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from labs.ranks.doctor.standing import Journals, Stand
from labs.ranks.doctor.stuck import Needs, stuck

SETTLE = 0.5  # seconds
EVERY = 0.1


class Watch:
    """The journals of one run."""

    def __init__(self, folder: Path, ranks: Iterable[int]) -> None:
        self.journals = Journals(folder, ranks)
        self._next, self._since = 0.0, 0.0
        self._seen: tuple | None = None
        self._pulses: dict[int, tuple] = {}

    def look(self, now: float) -> tuple[list[Stand], Needs] | None:
        """Where the ranks stand and which are stuck, once that is final. now: in seconds."""
        if now < self._next:
            return None
        self._next = now + EVERY
        ranks = self.journals.ranks
        pulses = {rank: self.journals.pulse(rank) for rank in ranks}
        before, self._pulses = self._pulses, pulses
        still = (rank for rank in ranks if pulses[rank] == before.get(rank))
        if not any(self.journals.waiting(rank) for rank in still):
            self._seen = None
            return None
        stands = self.journals.stands()
        needs = stuck(stands)
        # A rank that failed ends the run by itself, and its error is the cause.
        if not needs or any(stand.state == "failed" for stand in stands):
            self._seen = None
            return None
        seen = tuple((rank, pulses[rank]) for rank in sorted(needs))
        if seen != self._seen:
            self._seen, self._since = seen, now
            return None
        return (stands, needs) if now - self._since >= SETTLE else None

    def close(self) -> None:
        self.journals.close()
