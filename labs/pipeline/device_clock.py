"""Simulated devices on real ranks: computation takes the time it is told to, messages are real.

Two cores cannot compute on four ranks at once, and a picture of a pipeline on them would show the
machine. Here each rank has a clock of its own. A computation starts when its device is free and its
data is there, and the rank sleeps until its end: to an absolute time, so that nothing adds up. Each
message carries the time at which its sender had it ready. What this measures is the schedule, the
messages and the waiting; a figure made with it says so.

A rank that the machine woke a little late catches up. One whose data came more than `SLACK` late
does not: its device had to wait. So a device clock shows the order and the waiting, not what a
message costs; for that ranks must really compute.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

SLACK = 0.010
"""Seconds by which a device may start before the data is truly on its rank."""


@dataclass
class DeviceClock:
    """One simulated device. Times in seconds since `origin` (time.monotonic, one for all ranks)."""

    durations: dict[tuple[str, int], float]  # (kind, chunk): seconds
    message: float = 0.0  # seconds from the end of a computation until its neighbour has the data
    origin: float = 0.0
    free: float = 0.0
    late: list[float] = field(default_factory=list)  # seconds after the time that was due

    def start(self, origin: float) -> None:
        """All devices are free at `origin`."""
        self.origin, self.free, self.late = origin, 0.0, []
        _sleep_until(origin)

    def compute(self, kind: str, chunk: int, ready: float, here: float) -> tuple[float, float]:
        """Take the device for one computation on data that its sender had ready at `ready`.

        here: when the data was on this rank. Returns start and end.
        """
        begin = max(self.free, ready, here - SLACK)
        end = begin + self.durations[kind, chunk]
        _sleep_until(self.origin + end)
        self.late.append(time.monotonic() - self.origin - end)
        self.free = end
        return begin, end


def _sleep_until(moment: float) -> None:
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)
