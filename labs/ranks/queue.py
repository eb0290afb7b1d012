"""Whose turn it is: one queue for all runs on this machine, first come, first served.

    kernel A   ticket ▸ runs ─────────┐ ticket gone
    kernel B   ticket ▸ waits: "1 run ahead of yours" ▸ runs ────┐
    kernel C        ticket ▸ waits: "2 runs ahead of yours" ──────────▸ runs

Thirty people on one hub would otherwise all run at once, and each would wait for all the others at
every message. Here a run waits for cores and memory before it starts, and then has them.

A ticket is an abstract Unix socket: a name, without a file or a port, that tells when its run
arrived, whose it is, how many ranks it has and when it began. All names can be read in
/proc/net/unix by everybody, and the kernel of the system takes a name away when its holder ends,
however it ends. So there is no server, nothing to clean up, and no permission to set.

A container with a network of its own has a queue of its own. Where there is no Linux, or with
LABS_QUEUE=off, there is no queue and runs start at once.
"""

import contextlib
import functools
import os
import re
import socket
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from labs.ranks import devices

_LIST = "/proc/net/unix"
_PREFIX = "model-parallelism-labs"
# The usual limit of a run, in seconds. One that is at work for longer no longer keeps others
# waiting: they start beside it.
LONG = 60.0


@dataclass(frozen=True, order=True)
class Ticket:
    """One run's place. Times in ns of the monotonic clock, which all processes here share."""

    arrived: int
    pid: int
    ranks: int
    began: int = 0  # 0: it waits

    def address(self, queue: str) -> bytes:
        text = f"{_PREFIX}/{queue}/{self.arrived:020}-{self.pid}-{self.ranks}-{self.began:020}"
        return b"\0" + text.encode()

    def overdue(self, now: int) -> bool:
        return self.began > 0 and now - self.began > LONG * 1e9


def name() -> str | None:
    """The queue's name, from LABS_QUEUE; None: runs do not wait. Raises ValueError."""
    asked = os.environ.get("LABS_QUEUE", "1")
    if asked == "off":
        return None
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,32}", asked):
        raise ValueError(
            f"LABS_QUEUE must be a name of at most 32 letters, digits and ._- or 'off', "
            f"got {asked!r}; without it the queue's name is 1"
        )
    return asked if _possible() else None


@functools.cache
def _possible() -> bool:
    """Whether this system shows the names of abstract sockets, tried with one."""
    if not sys.platform.startswith("linux"):
        return False
    mine = Ticket(time.monotonic_ns(), os.getpid(), 0)
    try:
        with _bound(mine, "probe"):
            return mine in tickets("probe")
    except OSError:
        return False


def why_none() -> str | None:
    """Why runs do not wait for each other here, in words; None: they do."""
    if name() is not None:
        return None
    if os.environ.get("LABS_QUEUE") == "off":
        return "LABS_QUEUE=off"
    return "this system does not list abstract sockets; Linux does"


def _bound(ticket: Ticket, queue: str) -> socket.socket:
    """The ticket as others see it, until it is closed. Raises OSError."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)  # never listens: nobody can connect
    try:
        held.bind(ticket.address(queue))
    except BaseException:
        held.close()
        raise
    return held


def tickets(queue: str) -> list[Ticket]:
    """The tickets in the queue, first come first. A run is there once, though it may hold two names
    while it begins."""
    mark = f"@{_PREFIX}/{queue}/".encode()
    with open(_LIST, "rb") as file:
        text = file.read()
    found: dict[tuple[int, int], Ticket] = {}
    for line in text.split(b"\n") if mark in text else ():
        _, is_one, rest = line.partition(mark)
        fields = rest.split(b"-")
        if not is_one or len(fields) != 4 or not all(map(bytes.isdigit, fields)):
            continue  # another program's, or one made up by hand
        one = Ticket(*map(int, fields))
        found[one.arrived, one.pid] = max(one, found.get((one.arrived, one.pid), one))
    return sorted(found.values())


def ahead(mine: Ticket, all_there: list[Ticket], now: int) -> list[Ticket]:
    """The runs that `mine` must let go first, or that are at work already; now: in ns."""
    return [
        other
        for other in all_there
        if (other.arrived, other.pid) != (mine.arrived, mine.pid)
        and (other.began or other < mine)
        and not other.overdue(now)
    ]


def _stopped(pid: int) -> bool:
    """Whether the process is stopped (Ctrl-Z): it cannot take its turn."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):  # gone, or not ours to see
        return False


class _Place:
    """What this process shows of one run in the queue."""

    def __init__(self, queue: str) -> None:
        self.queue, self._names = queue, []

    def show(self, ticket: Ticket) -> None:
        """Show this ticket, and then no other: a run is never without one. Raises OSError."""
        self._names.append(_bound(ticket, self.queue))
        for earlier in self._names[:-1]:
            earlier.close()

    def leave(self) -> None:
        for one in self._names:
            one.close()


_places: weakref.WeakSet[_Place] = weakref.WeakSet()


def _forked() -> None:
    """In a forked child: the place is the parent's, and ends with the parent's run."""
    for place in list(_places):
        place.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextlib.contextmanager
def turn(
    ranks: int, in_memory: bool = True, say: Callable[[str], None] | None = None
) -> Iterator[int]:
    """Wait until `ranks` ranks may run, hold their place while the block runs.

    Yields the number of ranks of other runs at work. in_memory: whether the ranks need the memory
    of the machine, as on the CPU. say: told "2 runs ahead of yours" while it waits; an interrupt
    ends the wait.

    Raises ValueError, with the numbers, when memory is too small and nobody is there to wait for.
    """
    place = _Place(name() or "")
    _places.add(place)
    try:
        mine = _arrive(place, ranks) if place.queue else None
        if mine is None:
            if in_memory and not devices.memory_for(ranks):
                raise devices.no_memory(ranks)
            yield 0
            return
        beside = _wait(mine, place.queue, in_memory, say or (lambda text: None))
        with contextlib.suppress(OSError):  # no descriptor left: it stays in the queue as it is
            place.show(replace(mine, began=time.monotonic_ns()))
        yield beside
    finally:
        place.leave()


def _arrive(place: _Place, ranks: int) -> Ticket | None:
    """Take a ticket. None where no socket can be had: the run then does not wait."""
    for _ in range(100):
        mine = Ticket(time.monotonic_ns(), os.getpid(), ranks)
        with contextlib.suppress(OSError):  # the name of another thread, of the same ns
            place.show(mine)
            return mine
    return None


def _wait(mine: Ticket, queue: str, in_memory: bool, say: Callable[[str], None]) -> int:
    """Returns when it is the turn of `mine`, with the number of ranks at work beside it."""
    cores = devices.cores()
    while True:
        there = tickets(queue)
        first = ahead(mine, there, time.monotonic_ns())
        first = [one for one in first if one.began or not _stopped(one.pid)]
        before = sum(one.ranks for one in first)
        if not first or before + mine.ranks <= cores:
            # What the others have only begun to take counts too, so that they and this one fit.
            if not in_memory or devices.memory_for(before + mine.ranks):
                return sum(one.ranks for one in there if one.began)
            if not first:
                raise devices.no_memory(mine.ranks)
        say(f"{len(first)} {'run' if len(first) == 1 else 'runs'} ahead of yours")
        # Who stands far behind looks seldom: the list is as long as the machine has sockets.
        time.sleep(min(0.5, 0.02 * len(first)))
