"""What other work on the machine took from a run: a limit counts what is left.

Of the seconds that a rank was ready and waited for a core (Linux: /proc/PID/schedstat), the part
that other programs were at work counts as theirs; the rest its own ranks took from each other, as
four of them on two cores do on the quietest machine. Elsewhere nothing counts, and limits are
seconds of the clock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

MOST = 3
"""A run is ended after that many times its limit, whatever others took."""


def waited(pid: int) -> float:
    """Seconds that the main thread of `pid` was ready and had no core; 0 where nobody tells."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def taken(waits: float, own: float, all_work: float) -> float:
    """Of `waits` seconds without a core, those for which others had it.

    own, all_work: seconds of cores that the run and all programs together have used
    """
    others = max(0.0, all_work - own)
    return waits * others / (others + own) if others + own > 0 else 0.0


class Crowd:
    """The machine's work since a run began."""

    def __init__(self) -> None:
        self._before = _work()

    def took(self, pids: Iterable[int]) -> float:
        """Seconds that others took from that one of the processes which waited longest."""
        pids = list(pids)
        waits = max(map(waited, pids), default=0.0)
        if not waits:
            return 0.0
        return taken(waits, sum(map(_used, pids)), _work() - self._before)


def _work() -> float:
    """Seconds of cores that this machine's programs have used since it started."""
    import psutil

    times = psutil.cpu_times()
    return times.user + times.system + getattr(times, "nice", 0.0)


def _used(pid: int) -> float:
    """Seconds of cores that a process has used."""
    import psutil

    with contextlib.suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    return 0.0
