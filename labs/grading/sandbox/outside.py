"""What the judge sees of ranks from outside: bytes that left them, memory, whether they all sleep.

Everything here is the kernel's own word, read in this process. Nothing of it passes a rank.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from labs.grading.sandbox import network
from labs.ranks import processes

_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Phase:
    """What each rank sent between two moments that the judge chose.

    counts: by rank; one entry, of all ranks together, where they share a network.
    """

    name: str
    counts: list[network.Count]

    @property
    def payload(self) -> list[int]:
        """Bytes sent without the packets' heads, by rank."""
        return [count.payload for count in self.counts]


@dataclass(frozen=True)
class Outside:
    """One launch, seen from outside."""

    phases: list[Phase]
    grown: list[int]  # bytes by which a rank's memory grew at most, from the first phase on
    ranks: int

    @property
    def apart(self) -> bool:
        """Whether the counts are by rank."""
        return all(len(phase.counts) == self.ranks for phase in self.phases)


class Counters:
    """The switch's counters; this machine's loopback where ranks have no network of their own."""

    def __init__(self, zygote: int, apart: bool, pids: Sequence[int]) -> None:
        self._file = Path(f"/proc/{zygote}/net/dev")
        self._interfaces = [f"v{rank}" for rank in range(len(pids))] if apart else ["lo"]
        self._own = [Path(f"/proc/{pid}/net/snmp") for pid in (pids if apart else (zygote,))]
        self._again = [0] * len(self._own)

    def read(self) -> list[network.Count]:
        """Bytes and packets so far; empty where the system does not tell."""
        try:
            counts = network.read(self._file.read_text(), self._interfaces)
        except (OSError, KeyError):
            return []
        for rank, file in enumerate(self._own):
            with contextlib.suppress(OSError, ValueError):  # it has ended: as before
                self._again[rank] = network.sent_again(file.read_text())
        return [
            replace(count, again=again) for count, again in zip(counts, self._again, strict=True)
        ]


def resident(pid: int) -> tuple[int, int]:
    """(bytes now, most so far) that a process has in memory; zeros when it has gone."""
    try:
        told = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0, 0
    found = {"VmRSS": 0, "VmHWM": 0}
    for line in told.splitlines():
        name, _, rest = line.partition(":")
        if name in found:
            found[name] = int(rest.split()[0]) * 1024
    return found["VmRSS"], found["VmHWM"]


def forget_most(pid: int) -> None:
    """Have the most so far begin anew, where the system allows it."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError:
        return


def tree(pids: Sequence[int]) -> dict[int, list[int]]:
    """For each rank's first process: it and all below it."""
    return {pid: [pid, *processes.descendants(pid)] for pid in pids}


class Sleep:
    """For how long all processes of a run have slept, with nothing on its way between them."""

    def __init__(self) -> None:
        self._last: tuple | None = None
        self._since = time.monotonic()

    def seconds(self, pids: Sequence[int], counts: Sequence[network.Count]) -> float:
        """Seconds since a thread ran, or waited for a core, or a byte was sent. 0: they work."""
        now, asleep = _ticks(pids)
        seen = (now, tuple(counts))
        if not asleep or seen != self._last:
            self._last, self._since = seen, time.monotonic()
        return time.monotonic() - self._since

    def begin(self) -> None:
        """What happened just now counts as work."""
        self._since = time.monotonic()


def _ticks(pids: Sequence[int]) -> tuple[float, bool]:
    """Seconds of cores that these processes have used, and whether every thread sleeps."""
    used, asleep = 0, True
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{pid}/task/{thread}/stat") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            asleep = asleep and fields[0] in "SDtTZX"
            used += int(fields[11]) + int(fields[12])
    return used * _TICK, asleep
