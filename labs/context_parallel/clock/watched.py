"""What a rank posts and waits for, and when each block has truly arrived.

Every send and receive that Python code starts passes `send` or `recv` of its process group. Inside
`Watch` those two are noted, and so is each wait. gloo does not say when a message that nobody waits
for yet is there; but it writes the receiver's buffer from front to back, so the last number tells:
a thread looks at it every millisecond.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

SEND, RECEIVE = "send", "recv"
TICK = 0.001
"""Seconds between two looks; a wait that is shorter was for something that had come already."""


@dataclass
class Posted:
    """One end of a message; times by time.monotonic, None: not yet."""

    op: str  # SEND or RECEIVE
    tensor: torch.Tensor
    posted: float
    arrived: float | None = None  # seen in the receiver's buffer
    waited: float | None = None  # from when on the rank waited
    done: float | None = None  # when it went on
    marked: bool = False  # whether its last number says that it has not come

    @property
    def last(self) -> torch.Tensor:
        """The number that is written last."""
        return self.tensor[(-1,) * self.tensor.dim()]


class Watch:
    """Notes the messages that this process posts inside the `with` block.

    at_once: each message is waited for as soon as both a send and a receive are posted, before the
    code that posted them goes on. Neighbours in a ring do the same, so nobody waits for ever.
    """

    def __init__(self, at_once: bool = False) -> None:
        self.at_once = at_once
        self.messages: list[Posted] = []
        self.held_until = 0.0  # the end of the last wait that held the rank up
        self._open: list[_Handle] = []  # posted, not waited for
        self._undo: list[tuple[str, Callable]] = []
        self._coming, self._over = threading.Event(), False
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        for name in (SEND, RECEIVE):
            inner = getattr(dist.ProcessGroup, name)
            self._undo.append((name, inner))
            setattr(dist.ProcessGroup, name, self._noted(name, inner))
        self._looking.start()
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._undo:
            setattr(dist.ProcessGroup, *self._undo.pop())
        self._over = True
        self._coming.set()
        self._looking.join()

    def in_flight(self) -> tuple[int, int]:
        """Sends and receives that were posted and are not waited for yet."""
        ops = [handle.posted.op for handle in self._open]
        return ops.count(SEND), ops.count(RECEIVE)

    def _look(self) -> None:
        """Until the block is over: note what has come."""
        while self._coming.wait() and not self._over:
            open_ = [handle.posted for handle in list(self._open)]
            coming = [one for one in open_ if one.marked and one.arrived is None]
            if not coming:
                self._coming.clear()
            for one in coming:
                if not math.isnan(one.last.item()):
                    one.arrived = time.monotonic()
            time.sleep(TICK)

    def waited(self, handle: _Handle) -> None:
        """A handle's wait is over."""
        self._open.remove(handle)
        if handle.posted.done - handle.posted.waited > TICK:
            self.held_until = handle.posted.done

    def _noted(self, op: str, inner: Callable) -> Callable:
        def noted(group: dist.ProcessGroup, tensors: list, *rest: Any) -> _Handle:
            tensor = tensors[0]
            entry = Posted(op, tensor, time.monotonic())
            if op == RECEIVE and tensor.is_floating_point():
                entry.last.fill_(math.nan)
                entry.marked = True
            self.messages.append(entry)
            handle = _Handle(inner(group, tensors, *rest), entry, self)
            self._open.append(handle)
            if op == RECEIVE and not self.at_once:
                self._coming.set()
            if self.at_once and all(self.in_flight()):
                for one in list(self._open):
                    one.wait()
            return handle

        return noted


class _Handle:
    """The handle of a message. A second wait for it returns at once."""

    def __init__(self, work: dist.Work, posted: Posted, watch: Watch) -> None:
        self.work, self.posted, self._watch = work, posted, watch

    def wait(self, *limit: Any, **more: Any) -> bool:
        entry = self.posted
        if entry.done is None:
            entry.waited = time.monotonic()
            self.work.wait(*limit, **more)
            entry.done = time.monotonic()
            self._watch.waited(self)
            if entry.op == RECEIVE and entry.arrived is None:
                entry.arrived = entry.done
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.work, name)
