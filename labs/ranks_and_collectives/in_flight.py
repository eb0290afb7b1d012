"""What is on its way: is memory touched that a send still reads or a receive still writes?

A posted send reads its tensor until it has been waited for. Writing there before is a race: a
small message is gone already, a large one arrives half old and half new. A run shows the damage by
luck only, so here the calls themselves are watched: which memory each names, and when its handle is
waited for.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
import torch.distributed as dist


@dataclass
class Flight:
    """One posted send or receive."""

    kind: str  # "send" or "recv"
    tensor: torch.Tensor
    version: int  # other after a write by one of torch's own operations
    work: object = None
    over: bool = False

    def overlaps(self, tensor: torch.Tensor) -> bool:
        mine, other = _reach(self.tensor), _reach(tensor)
        return mine[0] < other[1] and other[0] < mine[1]


def _reach(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte of the memory, and the one after the last. Contiguous tensors only are sent."""
    start = tensor.data_ptr()
    return start, start + tensor.numel() * tensor.element_size()


def _version(kind: str, tensor: torch.Tensor) -> int:
    """torch's count of writes. In inference mode there is none: what is sent counts by its bytes.

    What arrives then changes it by itself, and is not watched.
    """
    if not tensor.is_inference():
        return tensor._version
    if kind != "send":
        return 0
    return zlib.crc32(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())


@dataclass
class Log:
    """The posted messages of one call, and what was wrong, each kind of fault once."""

    flights: list[Flight] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    received_first: bool = False  # whether a send began only after a receive was over

    def note(self, fault: str) -> None:
        if fault not in self.faults:
            self.faults.append(fault)

    def post(self, kind: str, tensor: torch.Tensor) -> Flight:
        for flight in self.flights:
            if flight.over or not flight.overlaps(tensor):
                continue
            if kind == "recv":
                what = "sent" if flight.kind == "send" else "received into"
                self.note(f"a receive writes into a tensor that is still being {what}")
            elif flight.kind == "recv":
                self.note("a tensor is sent that a message is still arriving in")
        if kind == "send" and any(f.kind == "recv" and f.over for f in self.flights):
            self.received_first = True
        flight = Flight(kind, tensor, _version(kind, tensor))
        self.flights.append(flight)
        return flight

    def finish(self, work: object) -> None:
        for flight in self.flights:
            if flight.work is not work or flight.over:
                continue
            flight.over = True
            if _version(flight.kind, flight.tensor) == flight.version:
                continue
            if flight.kind == "send":
                self.note("a tensor that was still being sent was written to before the wait")
            elif not flight.tensor._is_view():  # writes beside a view count as its own
                self.note(
                    "a tensor was written to while a message was still arriving in it, before the "
                    "wait"
                )

    def close(self) -> None:
        """The call is over. Wait for what nobody waited for: a handle that is let go is cut off."""
        for flight in self.flights:
            if not flight.over:
                self.note(f"nobody waited for a posted {flight.kind}")
                flight.work.wait()


@contextlib.contextmanager
def watched() -> Iterator[Log]:
    """Watch point-to-point messages of this block, from whatever function they are posted."""
    log = Log()
    post = {name: getattr(dist.ProcessGroup, name) for name in ("send", "recv", "recv_anysource")}
    wait = dist.Work.wait

    def posting(name, method):  # noqa: ANN001, ANN202
        def call(self, tensors, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
            flight = log.post(name[:4], tensors[0])
            flight.work = method(self, tensors, *args, **kwargs)
            return flight.work

        return call

    def waiting(self, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
        over = wait(self, *args, **kwargs)
        log.finish(self)
        return over

    for name, method in post.items():
        setattr(dist.ProcessGroup, name, posting(name, method))
    dist.Work.wait = waiting
    try:
        yield log
    finally:
        for name, method in post.items():
            setattr(dist.ProcessGroup, name, method)
        dist.Work.wait = wait
    if dist.get_backend() == "gloo":  # NCCL's coalesced calls have one handle for all
        log.close()
