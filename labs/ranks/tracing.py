"""What was allocated, from the allocator's own events: live bytes, their peak, the largest piece.

RSS cannot tell: it counts pages, keeps what was freed, and moves nothing at small sizes. torch's
profiler reports each allocation and release of a tensor's memory, those inside kernels included.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Allocations:
    """Filled when its block ends. All in bytes, relative to what was live when it began."""

    peak_bytes: int = 0
    largest_bytes: int = 0
    live_bytes: int = 0  # still held at the end of the block
    sizes: list[int] = field(default_factory=list)  # every allocation, in order

    def book(self, events: list[int]) -> None:
        """Take the signed sizes (negative: released) in order of time."""
        for size in events:
            self.live_bytes += size
            self.peak_bytes = max(self.peak_bytes, self.live_bytes)
            if size > 0:
                self.sizes.append(size)
        self.largest_bytes = max(self.sizes, default=0)


@contextlib.contextmanager
def trace_allocations(device: str = "cpu") -> Iterator[Allocations]:
    """Trace this block: `with trace_allocations() as seen: ...; seen.peak_bytes`."""
    from torch.autograd import DeviceType
    from torch.autograd.profiler import profile

    seen = Allocations()
    wanted = DeviceType.CUDA if device == "cuda" else DeviceType.CPU
    with profile(profile_memory=True, use_device="cuda" if device == "cuda" else None) as trace:
        yield seen
    events = [
        (event.start_ns(), event.nbytes())
        for event in trace.kineto_results.events()
        if event.name() == "[memory]" and event.device_type() == wanted
    ]
    seen.book([size for _, size in sorted(events, key=lambda event: event[0])])
