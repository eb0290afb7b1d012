"""What is measured of one launch, phase by phase: the switch's counters, and memory."""

from __future__ import annotations

from collections.abc import Sequence

from labs.grading.sandbox import outside
from labs.grading.sandbox.network import Count


class Measures:
    """A launch's marks, each the counters at a moment that the judge chose, and ranks' memory."""

    def __init__(self, zygote: int, apart: bool, pids: Sequence[int]) -> None:
        self._pids = pids
        self._counters = outside.Counters(zygote, apart, pids)
        self._marks: list[tuple[str, list[Count]]] = []
        self._before, self._base, self._grown = ([0] * len(pids) for _ in range(3))

    @property
    def phases(self) -> int:
        """How many have been begun."""
        return len(self._marks)

    def counts(self) -> list[Count]:
        """The counters now."""
        return self._counters.read()

    def mark(self, phase: str) -> None:
        """A phase begins now."""
        self._marks.append((phase, self.counts()))

    def before_memory(self) -> None:
        """None of the answer's code has run yet, nor have inputs been made."""
        self._before = [outside.resident(pid)[0] for pid in self._pids]

    def begin_memory(self) -> None:
        """Inputs are made: from now on a rank's memory grows on the answer's account."""
        for rank, pid in enumerate(self._pids):
            outside.forget_most(pid)
            self._base[rank] = outside.resident(pid)[0]

    def memory(self) -> None:
        """Look how far it has grown."""
        for rank, pid in enumerate(self._pids):
            if self._base[rank]:
                most = outside.resident(pid)[1] - self._base[rank]
                self._grown[rank] = max(self._grown[rank], most, 0)

    @property
    def outside(self) -> outside.Outside:
        """The phases that all ranks went through, each with what was sent in it."""
        phases = [
            outside.Phase(name, [b - a for a, b in zip(before, after, strict=True)])
            for (name, before), (_, after) in zip(self._marks, self._marks[1:], strict=False)
        ]
        early = [max(0, b - a) for a, b in zip(self._before, self._base, strict=True)]
        return outside.Outside(phases, list(self._grown), early, len(self._pids))
