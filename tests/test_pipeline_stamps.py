"""When a computation began and ended: by the host's clock, and by a GPU's events, with a fake GPU.

The fake computes after the call has returned, as a GPU does: only its events know when.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch

from labs.pipeline import stamps as under_test
from labs.pipeline.stamps import EventStamps, HostStamps, stamps


@dataclass
class Gpu:
    """A clock of the host, and one stream whose work ends later than the calls that gave it."""

    now: float = 100.0  # of the host, seconds
    done: float = 0.0  # when the stream will have done all that it was given
    waits: list[float] = field(default_factory=list)

    def give(self, seconds: float) -> None:
        """A kernel: the call takes the host 1 µs, the stream `seconds`."""
        self.now += 1e-6
        self.done = max(self.done, self.now) + seconds

    def synchronize(self) -> None:
        self.now = max(self.now, self.done)
        self.waits.append(self.now)


@pytest.fixture
def gpu(monkeypatch):
    one = Gpu()

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = max(one.done, one.now)

        def elapsed_time(self, later: Event) -> float:
            assert one.now >= later.at, "read before the device has come there"
            return (later.at - self.at) * 1e3  # milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", one.synchronize)
    monkeypatch.setattr(under_test.time, "monotonic", lambda: one.now)
    return one


def test_events_tell_when_the_device_computed(gpu):
    gpu.give(0.5)  # of an earlier step, still under way
    seen = stamps(torch.device("cuda"), origin=90.0)
    assert isinstance(seen, EventStamps) and gpu.now >= 100.5  # it has waited for that
    begun = gpu.now
    for seconds in (0.25, 0.125):
        seen.begin()
        gpu.give(seconds)
        seen.end()
    assert gpu.now - begun < 1e-3  # the host is far ahead
    starts, ends = seen.read()
    assert starts == pytest.approx([begun - 90, begun - 90 + 0.25], abs=1e-4)
    assert ends == pytest.approx([begun - 90 + 0.25, begun - 90 + 0.375], abs=1e-4)
    assert len(gpu.waits) == 2  # before the first event, and before they are read


def test_the_hosts_clock_would_have_timed_the_calls(gpu):
    """The mutant: host stamps on that device see nothing of the computation."""
    seen = HostStamps(origin=90.0)
    seen.begin()
    gpu.give(0.25)
    seen.end()
    (start,), (end,) = seen.read()
    assert end - start < 1e-3


def test_a_cpu_is_timed_by_the_host(monkeypatch):
    moments = iter([3.0, 4.5])
    monkeypatch.setattr(under_test.time, "monotonic", lambda: next(moments))
    seen = stamps(torch.device("cpu"), origin=1.0)
    assert isinstance(seen, HostStamps)
    seen.begin()
    seen.end()
    assert seen.read() == ([2.0], [3.5])
