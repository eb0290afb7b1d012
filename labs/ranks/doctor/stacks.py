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

from labs.ranks.processes import LINUX

_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_LOOK, _PATIENCE, _EVERY = 0.2, 1.0, 0.02  # seconds: at least, at most, between two looks


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
    busy: bool = False  # its main thread ran, or waited for a core, most times it was looked at
    frames: tuple[Frame, ...] = ()  # the main thread's, innermost first


def look(folder: Path, pids: Mapping[int, int], ready: Mapping[int, bool]) -> dict[int, Look]:
    """Look at the ranks' processes for a fifth of a second; longer, up to 1 s, where they are slow.

    pids: process id by rank; ready: whether the rank answers signals yet.
    """
    before = {rank: len(_told(folder, rank)) for rank in pids}
    for rank, pid in pids.items():
        if ready[rank]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGUSR1)
    begun = time.monotonic()
    states: dict[int, list[str]] = {rank: [] for rank in pids}
    sizes: dict[int, int] = {}
    while True:
        time.sleep(_EVERY)
        for rank, pid in pids.items():
            states[rank].append(_state(pid))
        now = {rank: len(_told(folder, rank)) for rank in pids}
        passed = time.monotonic() - begun
        # A stack that is there and grows no more is whole. A stopped rank writes none.
        whole = all(
            now[rank] > before[rank] and now[rank] == sizes.get(rank)
            for rank in pids if ready[rank] and states[rank][-1] not in "TtZX"
        )  # fmt: skip
        if passed > _PATIENCE or (passed > _LOOK and whole):
            break
        sizes = now
    return {
        rank: Look(
            alive=seen[-1] not in "ZX",
            stopped=seen[-1] in "Tt",
            busy=2 * seen.count("R") > len(seen),
            frames=main_thread(_told(folder, rank)[before[rank] :]),
        )
        for rank, seen in states.items()
    }


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


def _state(pid: int) -> str:
    """What the main thread does: R runs or waits for a core, S and D sleep, T is stopped, Z, X."""
    try:
        if LINUX:
            with open(f"/proc/{pid}/task/{pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0]
        status = psutil.Process(pid).status()
    except (OSError, IndexError, psutil.Error):
        return "X"
    known = {psutil.STATUS_RUNNING: "R", psutil.STATUS_STOPPED: "T", psutil.STATUS_ZOMBIE: "Z"}
    return known.get(status, "S")
