"""The rank's account of its own communication: what each call costs, summed up by kind.

The calls are seen by labs/ranks/hooks.py. Single events, with their time, are kept only inside
`timeline`.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs.ranks import pieces, wire
from labs.ranks.journal import Journal


@dataclass(frozen=True)
class Group:
    """What the account needs to know of a process group."""

    axis: str
    ranks: tuple[int, ...]
    position: int  # this rank's place in the group
    backend: str
    number: int  # in the journal
    bounded: bool = False  # its calls end after a time of their own, shorter than the run's limit


def tensors_in(value: object) -> list[torch.Tensor]:
    """All tensors in nested lists."""
    if isinstance(value, torch.Tensor):
        return [value]
    return (
        [t for item in value for t in tensors_in(item)] if isinstance(value, (list, tuple)) else []
    )


def bytes_in(value: object) -> int:
    """Bytes of all tensors in nested lists."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(value))


def _own_share(call: wire.Call, args: tuple, group: Group) -> float | None:
    """Of an all-to-all with uneven pieces, the bytes that stay on this rank; None: even pieces."""
    if call.op != "all_to_all" or pieces.are_even(call, args):
        return None
    found = pieces.pieces(call, args, len(group.ranks))
    return found[group.position][0] if found else None


_MOST_COSTS = 4096


def _seconds(group: dist.ProcessGroup) -> float:
    """After how long the group's calls end by themselves; endless where that is not known."""
    try:
        backend = group._get_backend(group._device_types[0])
        return backend.options._timeout.total_seconds()
    except (AttributeError, IndexError, RuntimeError):
        return float("inf")


class Book:
    """Rows of calls, kept summed up; single events only inside `timeline`."""

    def __init__(self, rank: int, journal: Journal, limit: float = 0.0) -> None:
        self.rank, self.journal, self.limit = rank, journal, limit  # limit: of the run, seconds
        self.axes: dict[str, str] = {}
        self.section = ""
        self.phase_name: str | None = None
        self.events: list[dict] = []
        self.recording = False
        self._rows: dict[tuple, list[float]] = {}
        self._groups: dict[str, Group] = {}
        self._costs: dict[tuple, wire.Cost] = {}  # the same call comes again and again
        self._lock = threading.Lock()

    def group(self, group: dist.ProcessGroup) -> Group | None:
        """What is known of a process group; None for one that torch.distributed does not know."""
        name = group.group_name
        known = self._groups.get(name)
        if known is None:
            try:
                ranks = tuple(dist.get_process_group_ranks(group))
            except (KeyError, ValueError):
                return None
            whole = group == dist.group.WORLD
            axis = self.axes.get(name) or (
                "world" if whole else "ranks " + ",".join(map(str, ranks))
            )
            number = self.journal.group(name, ranks, axis)
            known = Group(
                axis,
                ranks,
                group.rank(),
                dist.get_backend(group),
                number,
                _seconds(group) < self.limit,
            )
            self._groups[name] = known
        return known

    def forget_groups(self) -> None:
        """The world was left; another one may use the same names, and the journal their numbers."""
        self._groups.clear()
        self._costs.clear()
        self.axes.clear()

    def name_axis(self, group: dist.ProcessGroup, axis: str) -> None:
        self.axes[group.group_name] = axis
        self._groups.pop(group.group_name, None)

    def phase(self) -> str:
        """forward, backward (any code that runs inside the autograd engine), or as named."""
        if self.phase_name:
            return self.phase_name
        return "forward" if torch._C._current_graph_task_id() == -1 else "backward"

    def post(
        self, call: wire.Call, args: tuple, group: Group, payload: int, peer: int | None
    ) -> dict | None:
        """Book one call to a c10d operator. Returns its event, where events are kept.

        payload: bytes that the caller hands in; peer: as a rank of the group.
        """
        known = (call.operator, payload, group.number, peer)
        cost = self._costs.get(known)
        if cost is None:
            size, place = len(group.ranks), group.position
            own = _own_share(call, args, group)
            cost = wire.cost(group.backend, call.op, payload, size, place, peer, own)
            if call.op != "all_to_all" and len(self._costs) < _MOST_COSTS:
                self._costs[known] = cost
        phase = self.phase()
        key = (self.section, call.op, group.axis, phase, cost.algorithm)
        with self._lock:
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = [0, 0, 0.0, 0.0]
            row[0] += 1
            row[1] += payload
            row[2] += cost.wire
            row[3] += cost.ideal
        if not self.recording:
            return None
        event = dict(
            rank=self.rank, section=self.section, op=call.op, axis=group.axis, phase=phase,
            payload_bytes=payload, start=time.time(), end=None,
        )  # fmt: skip
        if call.op in ("send", "recv") and peer is not None:
            event["peer"] = group.ranks[peer]
        self.events.append(event)
        return event

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
