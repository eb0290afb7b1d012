"""Messages over a slow link, on a fast machine: a socket sends no more than so much a second.

Loopback moves a block in about the time in which the CPU copies it, so that it measures how busy
the cores are. Linux can pace a TCP socket by itself (SO_MAX_PACING_RATE, socket(7)): the sender's
cores are then idle for most of a message, as they are when a network card works. The messages are
real, and their time is their size over the rate, on a busy machine too.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

_PACING = getattr(socket, "SO_MAX_PACING_RATE", 47)  # Python has no name for it
_UNLIMITED = 2**32 - 1  # what a socket has at first; any larger rate has to be told in 8 bytes


@contextlib.contextmanager
def slow_link(rate: float | None) -> Iterator[bool]:
    """All TCP connections that this process has now send at most `rate` bytes a second.

    rate: below 4 GB/s; None: as they are. Yields whether it is so: not where the system has no
    pacing. After the block they are unlimited.
    """
    if rate is not None and not 0 < rate < _UNLIMITED:
        raise ValueError(f"a rate of {rate:g} bytes a second: it must be above 0 and below 4e9")
    done = rate is not None and _pace(int(rate))
    try:
        yield done
    finally:
        if done:
            _pace(_UNLIMITED)


def _pace(rate: int) -> bool:
    """Tell every TCP connection of this process. Whether there was one, and all took it."""
    told = []
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            copy = os.dup(int(name))
        except OSError:  # closed meanwhile: the one that listed the folder, say
            continue
        with socket.socket(fileno=copy) as one:
            if one.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            try:
                one.setsockopt(socket.SOL_SOCKET, _PACING, rate.to_bytes(4, "little"))
            except OSError:
                told.append(False)
            else:
                told.append(True)
    return bool(told) and all(told)
