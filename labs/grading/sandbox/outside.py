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
    early: list[int]  # bytes by which it had grown before that: inputs, what definitions hold
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


_IDLE = 0.02
"""Share of a core that a waiting process uses at most. gloo's threads wake a hundred times a
second; on a full machine each of these times may find them waiting for a core."""


class Sleep:
    """For how long the processes of a run have done next to nothing, and sent nothing."""

    def __init__(self) -> None:
        self._counts: tuple[network.Count, ...] = ()
        self.begin()

    def seconds(self, pids: Sequence[int], counts: Sequence[network.Count]) -> float:
        """Seconds since they worked, or a byte was sent. 0: they work, or one gets no core for it.

        Of a core's time each may use the share _IDLE. A thread that was ready each time that it was
        looked at works, however little of a core it gets.
        """
        used, ready = _threads(pids)
        now = time.monotonic()
        most = _IDLE * len(pids) * (now - self._since + 1)
        worked = self._used is None or not 0 <= used - self._used <= most  # below 0: one has ended
        if worked or tuple(counts) != self._counts:
            self._used, self._since, self._counts = used, now, tuple(counts)
            self._ready = ready
        self._ready &= ready
        return 0.0 if self._ready else now - self._since

    def begin(self) -> None:
        """What happened just now counts as work."""
        self._since, self._used, self._ready = time.monotonic(), None, set()


def _threads(pids: Sequence[int]) -> tuple[float, set[str]]:
    """Seconds of cores that these processes have used, and the threads that have or want one."""
    used, ready = 0, set()
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
            if fields[0] == "R":
                ready.add(thread)
            used += int(fields[11]) + int(fields[12])
    return used * _TICK, ready
