"""The rank's account of its own communication, taken where every call must pass.

All of torch's communication (dist.*, DTensor, FSDP, DDP, pipelining, forward or backward, from any
thread) ends in one of about twenty `c10d` operators. Before one of them reaches its backend, at the
dispatcher's BackendSelect, a line is written. No other operation is touched, so counting does not
distort what it counts. One line more for the clock: waits, seen at `dist.Work.wait`.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs.ranks import wire


@dataclass(frozen=True)
class _Group:
    """What the account needs to know of a process group."""

    axis: str
    ranks: tuple[int, ...]
    position: int  # this rank's place in the group
    backend: str


def _tensors(value: object) -> list[torch.Tensor]:
    """All tensors in nested lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in _tensors(item)] if isinstance(value, (list, tuple)) else []


def _bytes(value: object) -> int:
    """Bytes of all tensors in nested lists."""
    return sum(tensor.numel() * tensor.element_size() for tensor in _tensors(value))


def _own_share(call: wire.Call, args: tuple, position: int) -> float | None:
    """Of an all-to-all with uneven pieces, the bytes that stay on this rank; None: even pieces."""
    if call.operator == "alltoall_":
        return _bytes(args[1][position])
    if call.operator == "alltoall_base_" and args[4]:
        return _bytes(args[1]) * args[4][position] / max(1, sum(args[4]))
    return None


class Book:
    """Rows of calls, kept summed up; single events only inside `timeline`."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.axes: dict[str, str] = {}
        self.section = ""
        self.phase_name: str | None = None
        self.events: list[dict] = []
        self.recording = False
        self._rows: dict[tuple, list[float]] = {}
        self._groups: dict[str, _Group] = {}
        self._works: dict[int, tuple[object, dict]] = {}
        self._results: dict[int, dict] = {}  # by the address of the tensor that is waited for
        self._last_event: dict | None = None
        self._lock = threading.Lock()

    def group(self, group: dist.ProcessGroup) -> _Group:
        name = group.group_name
        known = self._groups.get(name)
        if known is None:
            ranks = tuple(dist.get_process_group_ranks(group))
            whole = group == dist.group.WORLD
            axis = self.axes.get(name) or (
                "world" if whole else "ranks " + ",".join(map(str, ranks))
            )
            known = _Group(axis, ranks, group.rank(), dist.get_backend(group))
            self._groups[name] = known
        return known

    def name_axis(self, group: dist.ProcessGroup, axis: str) -> None:
        self.axes[group.group_name] = axis
        self._groups.pop(group.group_name, None)

    def phase(self) -> str:
        """forward, backward (any code that runs inside the autograd engine), or as named."""
        if self.phase_name:
            return self.phase_name
        return "forward" if torch._C._current_graph_task_id() == -1 else "backward"

    def post(self, call: wire.Call, args: tuple) -> None:
        """One call to a c10d operator is about to start."""
        group = self.group(dist.ProcessGroup.unbox(args[call.group_at]))
        payload = 0 if call.op == "barrier" else _bytes(args[call.input_at])
        peer = args[call.peer_at] if call.peer_at is not None and len(args) > call.peer_at else None
        size, place = len(group.ranks), group.position
        own = _own_share(call, args, place)
        cost = wire.cost(group.backend, call.op, payload, size, place, peer, own)
        phase = self.phase()
        key = (self.section, call.op, group.axis, phase, cost.algorithm)
        with self._lock:
            row = self._rows.setdefault(key, [0, 0, 0.0, 0.0])
            row[0] += 1
            row[1] += payload
            row[2] += cost.wire
            row[3] += cost.ideal
        if self.recording:
            event = dict(
                rank=self.rank, section=self.section, op=call.op, axis=group.axis, phase=phase,
                payload_bytes=payload, start=time.time(), end=None,
            )  # fmt: skip
            if call.op in ("send", "recv") and peer is not None:
                event["peer"] = group.ranks[peer]
            self.events.append(event)
            self._last_event = event
            for tensor in _tensors(args[0]):
                self._results[tensor.untyped_storage().data_ptr()] = event

    def started(self, work: object) -> None:
        """A call returned its handle: its event ends when the handle is waited for."""
        if self._last_event is not None:
            self._works[id(work)] = (work, self._last_event)
            self._last_event = None

    def awaited(self, tensor: torch.Tensor) -> None:
        """A functional collective has no handle: its event ends when its result is waited for."""
        event = self._results.pop(tensor.untyped_storage().data_ptr(), None)
        if event is not None and event["end"] is None:
            event["end"] = time.time()

    def waited(self, work: object) -> None:
        held = self._works.pop(id(work), None)
        if held is not None:
            held[1]["end"] = time.time()

    def rows(self) -> list[list]:
        """[rank, section, op, axis, phase, algorithm, count, payload, wire, ideal] a row."""
        with self._lock:
            return [[self.rank, *key, *values] for key, values in self._rows.items()]

    @contextlib.contextmanager
    def in_section(self, name: str, timeline: bool) -> Iterator[None]:
        outer = (self.section, self.recording)
        self.section, self.recording = name, timeline
        try:
            yield
        finally:
            self.section, self.recording = outer

    @contextlib.contextmanager
    def in_phase(self, name: str) -> Iterator[None]:
        outer, self.phase_name = self.phase_name, name
        try:
            yield
        finally:
            self.phase_name = outer


def _device_key(value: object) -> torch._C.DispatchKey | None:
    """The backend of the first tensor in nested lists."""
    if isinstance(value, torch.Tensor):
        return _KEYS.get(value.device.type, torch._C.DispatchKey.CPU)
    if isinstance(value, (list, tuple)):
        for item in value:
            if (found := _device_key(item)) is not None:
                return found
    return None


_KEYS = {"cuda": torch._C.DispatchKey.CUDA, "meta": torch._C.DispatchKey.Meta}


def _booked(book: Book, call: wire.Call, operator: torch._ops.OpOverload):  # noqa: ANN202
    # `_op_dk` calls the backend's own kernel with the GIL released. With the GIL held, gloo's
    # worker can be inside its queue's lock, waiting for the GIL to let go of a tensor, while this
    # thread waits for that lock: a deadlock, once in a few hundred backward passes.
    kernel = operator._op_dk

    def booked(*args, **kwargs):  # noqa: ANN002, ANN003, ANN202
        book.post(call, args)
        key = _device_key(args[call.input_at]) or _device_key(args[0])
        return kernel(key or torch._C.DispatchKey.CPU, *args, **kwargs)

    return booked


def _follow_waits(book: Book) -> None:
    """Let the handle of each call, and the wait for it, be known to the book."""

    def following(method):  # noqa: ANN001, ANN202
        def call(self, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
            work = method(self, *args, **kwargs)
            if book.recording:
                book.started(work)
            return work

        return call

    for name in wire.GROUP_METHODS:
        setattr(dist.ProcessGroup, name, following(getattr(dist.ProcessGroup, name)))
    wait = dist.Work.wait

    def waiting(self, *args, **kwargs):  # noqa: ANN001, ANN002, ANN003, ANN202
        try:
            return wait(self, *args, **kwargs)
        finally:
            if book._works:
                book.waited(self)

    dist.Work.wait = waiting


def _follow_results(book: Book) -> torch.library.Library:
    """Let the wait for a functional collective (DTensor's, FSDP's) be known to the book.

    BackendSelect is below autograd: the backward pass of these operators stays as it is.
    """
    library = torch.library.Library("_c10d_functional", "IMPL")
    operator = torch.ops._c10d_functional.wait_tensor.default
    hook = torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect)

    def waiting(tensor: torch.Tensor) -> torch.Tensor:
        with torch._C._ExcludeDispatchKeyGuard(hook):
            result = operator(tensor)
        if book._results:
            book.awaited(tensor)
        return result

    library.impl(operator, waiting, "BackendSelect")
    return library


def open_book(rank: int) -> tuple[Book, object]:
    """Start the account of this process. Keep the second alive: it holds the hooks."""
    book = Book(rank)
    library = torch.library.Library("c10d", "IMPL")
    for call in wire.CALLS:
        operator = getattr(torch.ops.c10d, call.operator).default
        library.impl(operator, _booked(book, call, operator), "BackendSelect")
    _follow_waits(book)
    return book, (library, _follow_results(book))
