"""Ask the processes of ranks where they are: their Python stacks, and what the system says of them.

faulthandler answers SIGUSR1 with the stack of every thread, in C, so that also a rank that holds
the interpreter's lock answers. A stopped process does not; the system says that it is stopped.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_SAMPLE = 0.2  # seconds over which the use of a core is looked at


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Look:
    """One rank's process, from outside."""

    alive: bool = False
    stopped: bool = False
    cores: float = 0.0  # how many it used while it was looked at
    frames: tuple[Frame, ...] = ()  # the main thread's, innermost first

    @property
    def busy(self) -> bool:
        return self.cores > 0.25


def look(folder: Path, pids: Mapping[int, int], ready: Mapping[int, bool]) -> dict[int, Look]:
    """Look at the ranks' processes for a fifth of a second.

    pids: process id by rank; ready: whether the rank answers signals yet.
    """
    before = {rank: _told(folder, rank) for rank in pids}
    begun = {rank: _used(pid) for rank, pid in pids.items()}
    at = time.monotonic()
    for rank, pid in pids.items():
        if ready[rank]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGUSR1)
    time.sleep(_SAMPLE)
    found = {}
    for rank, pid in pids.items():
        try:
            status = psutil.Process(pid).status()
        except psutil.Error:
            found[rank] = Look()
            continue
        cores = (_used(pid) - begun[rank]) / (time.monotonic() - at)
        said = _told(folder, rank)[len(before[rank]) :]
        found[rank] = Look(
            alive=status not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD),
            stopped=status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP),
            cores=max(0.0, cores),
            frames=main_thread(said),
        )
    return found


def last_words(folder: Path, rank: int) -> tuple[Frame, ...]:
    """Where a rank was when native code killed it (faulthandler's "Fatal Python error")."""
    said = _told(folder, rank)
    return main_thread(said[said.rindex("Fatal Python error") :]) if "Fatal Python" in said else ()


def main_thread(said: str) -> tuple[Frame, ...]:
    """The frames of the thread that runs a rank, innermost first; of the last thread else."""
    threads = [
        tuple(Frame(file, int(line), function) for file, line, function in _FRAME.findall(part))
        for part in re.split(r"^(?:Current thread|Thread) ", said, flags=re.MULTILINE)
    ]
    threads = [frames for frames in threads if frames]
    for frames in threads:
        if any(frame.file.endswith(os.path.join("labs", "ranks", "rank.py")) for frame in frames):
            return frames
    return threads[-1] if threads else ()


def _told(folder: Path, rank: int) -> str:
    try:
        return (folder / f"stack.{rank}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _used(pid: int) -> float:
    """Seconds of a core that the process has used."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system
