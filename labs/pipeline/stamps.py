"""When each computation began and ended: by the host's clock, or by the GPU's own events.

A GPU computes after the call has returned, so the host's clock would time the calls.
"""

from __future__ import annotations

import time

import torch


class HostStamps:
    """Seconds since `origin` by time.monotonic."""

    def __init__(self, origin: float) -> None:
        self.origin = origin
        self.starts: list[float] = []
        self.ends: list[float] = []

    def begin(self) -> None:
        self.starts.append(time.monotonic() - self.origin)

    def end(self) -> None:
        self.ends.append(time.monotonic() - self.origin)

    def read(self) -> tuple[list[float], list[float]]:
        """Starts and ends in seconds since the origin."""
        return self.starts, self.ends


class EventStamps:
    """Seconds since `origin` by CUDA events of the current stream."""

    def __init__(self, origin: float) -> None:
        torch.cuda.synchronize()
        self.offset = time.monotonic() - origin  # of the first event, on a stream that is empty
        self.first = self._event()
        self.starts: list[torch.cuda.Event] = []
        self.ends: list[torch.cuda.Event] = []

    @staticmethod
    def _event() -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def begin(self) -> None:
        self.starts.append(self._event())

    def end(self) -> None:
        self.ends.append(self._event())

    def read(self) -> tuple[list[float], list[float]]:
        """Starts and ends in seconds since the origin, once the device is done."""
        torch.cuda.synchronize()
        at = lambda event: self.offset + self.first.elapsed_time(event) / 1e3  # noqa: E731
        return [at(event) for event in self.starts], [at(event) for event in self.ends]


def stamps(device: torch.device, origin: float) -> HostStamps | EventStamps:
    """Stamps for what is computed on `device`."""
    return EventStamps(origin) if device.type == "cuda" else HostStamps(origin)
