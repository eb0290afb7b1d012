"""Which backend a run gets, how many ranks fit, and one line that says why."""

import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
# A warm rank of a small lab takes about 60 MB of its own, a cold one about 250.
RANK_BYTES = 250 * 2**20
# Beyond this the ranks only take turns, and rendezvous alone takes seconds.
RANKS_PER_CORE = 16


@dataclass(frozen=True)
class Placement:
    """Where the ranks of one run live."""

    ranks: int
    backend: str  # "nccl" or "gloo"
    device: str  # "cuda" or "cpu"
    reason: str
    threads: int  # CPU threads a rank, if the run is alone on the machine

    def __str__(self) -> str:
        plural = "rank" if self.ranks == 1 else "ranks"
        where = "GPU" if self.device == "cuda" else "CPU"
        return f"{self.ranks} {plural} on {self.backend}/{where}: {self.reason}"


def cores() -> int:
    """Cores' worth of time this process may use: an affinity mask or a container's share counts."""
    try:
        mine = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        mine = os.cpu_count() or 1
    share = cpu_share()
    return mine if share is None else max(1, min(mine, math.ceil(share)))


def _groups() -> Iterator[Path]:
    """The control groups (version 2) whose limits hold for this process, its own first.

    A container sees its own as the root; a hub may give each person one further down.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        lines = []
    own = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    names = own.split("/") if own else []
    for depth in range(len(names), -1, -1):
        yield _CGROUP.joinpath(*names[:depth])


def cpu_share() -> float | None:
    """Cores' worth of time that the container grants; None: no limit, or none that is known."""
    found = []
    for group in _groups():
        try:
            quota, period = (group / "cpu.max").read_text().split()
            found.append(int(quota) / int(period))
        except (OSError, ValueError):  # no such file, or "max": no limit
            continue
    return min(found, default=None)


def _memory_limits() -> Iterator[tuple[int, int]]:
    """Of each container around this process that has a limit: the limit, and what is left of it.

    Files that the system keeps in memory only for as long as nobody needs the room are not counted.
    """
    for group in _groups():
        try:
            limit, used = (int((group / f"memory.{n}").read_text()) for n in ("max", "current"))
            lines = (group / "memory.stat").read_text().splitlines()
            given_back = ("active_file ", "inactive_file ")
            used -= sum(int(line.split()[1]) for line in lines if line.startswith(given_back))
            yield limit, limit - used
        except (OSError, ValueError):
            continue


def available_bytes() -> int:
    """Memory a new run may take now: the machine's, or what the container's limit leaves of it."""
    import psutil  # late: every rank imports this file, and none asks this

    left = [left for _, left in _memory_limits()]
    return max(0, min([psutil.virtual_memory().available, *left]))


def whole_bytes() -> int:
    """Memory this process could have if nothing else ran: the machine's, or its container's."""
    import psutil

    limits = [limit for limit, _ in _memory_limits()]
    return min([psutil.virtual_memory().total, *limits])


def kills_for_memory() -> int:
    """How many processes the system has killed for memory since it started; 0: not known."""
    try:
        told = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(told.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0


def visible_gpus() -> int:
    """GPUs that CUDA would show to a rank. Counts without starting CUDA in this process."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def most_ranks() -> tuple[int, str]:
    """The largest number of ranks accepted here, and the resource that sets it.

    Memory that is taken at the moment does not count: a run waits for what other runs hold.
    """
    by_cores = RANKS_PER_CORE * cores()
    by_memory = whole_bytes() // RANK_BYTES
    if by_memory < by_cores:
        return max(1, by_memory), _of_memory(whole_bytes(), "there")
    if cores() == 1:
        return by_cores, f"1 core, at most {RANKS_PER_CORE} ranks on it"
    return by_cores, f"{cores()} cores, at most {RANKS_PER_CORE} ranks on each"


def _of_memory(size: int, how: str) -> str:
    return (
        f"{size / 2**30:.1f} GiB of memory are {how} and a rank takes about "
        f"{RANK_BYTES // 2**20} MiB"
    )


def memory_for(ranks: int) -> bool:
    """Whether `ranks` ranks fit into the memory that is free now. One rank may always try."""
    return ranks <= max(1, available_bytes() // RANK_BYTES)


def no_memory(ranks: int) -> ValueError:
    """The refusal of a run for which the free memory is too small, and nobody to wait for."""
    free = available_bytes()
    fits, why = max(1, free // RANK_BYTES), _of_memory(free, "free")
    return ValueError(f"{ranks} ranks asked for, but {fits} fit on this machine now ({why})")


def threads_for(ranks: int, beside: int = 0) -> int:
    """CPU threads of each of `ranks` ranks while `beside` ranks of other runs are on the machine.

    A run that is alone has all cores. With others it gets its part, so that the threads of all
    runs together stay near the number of cores; a fixed small number would slow whoever is alone.
    """
    return max(1, cores() // (ranks + beside))


def refuse_windows() -> None:
    """Raises ValueError on Windows, before anything starts there."""
    if sys.platform == "win32":
        raise ValueError(
            "ranks do not run on Windows itself, whose torch lacks what torchrun needs; open the "
            "course in WSL2, as README.md says"
        )


def place(ranks: int, largest: int = 0) -> Placement:
    """Backend and device for `ranks` ranks on this machine.

    largest: of several worlds that are held against each other, the largest: the device that fits
    it is taken for all of them.

    Raises ValueError, with the numbers, when `ranks` is no positive whole number or more than would
    fit if nothing else ran; on Windows always. Whether they fit now is asked when the run has its
    turn (queue.py).
    """
    refuse_windows()
    if isinstance(ranks, bool) or not isinstance(ranks, int):
        raise ValueError(f"ranks must be a whole number, got {ranks!r}")
    if ranks < 1:
        raise ValueError(f"{ranks} ranks asked for; a run needs at least 1")
    gpus = visible_gpus()
    if gpus >= max(ranks, largest):
        plural = "GPU is" if gpus == 1 else "GPUs are"
        return Placement(ranks, "nccl", "cuda", f"{gpus} {plural} visible", threads_for(ranks))
    fits, why = most_ranks()
    if ranks > fits:
        raise ValueError(f"{ranks} ranks asked for, but {fits} fit on this machine ({why})")
    if gpus == 0:
        reason = "no GPU is visible"
    else:
        plural = "GPU is" if gpus == 1 else "GPUs are"
        reason = f"{gpus} {plural} visible and NCCL wants one for each rank"
    return Placement(ranks, "gloo", "cpu", reason, threads_for(ranks))
