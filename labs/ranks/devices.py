"""Which backend a run gets, how many ranks fit, and one line that says why."""

import os
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
    threads: int  # CPU threads a rank

    def __str__(self) -> str:
        plural = "rank" if self.ranks == 1 else "ranks"
        where = "GPU" if self.device == "cuda" else "CPU"
        return f"{self.ranks} {plural} on {self.backend}/{where}: {self.reason}"


def cores() -> int:
    """Cores this process may use (an affinity mask or a container counts, not the machine)."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def available_bytes() -> int:
    """Memory a new run may take: the machine's, or what the container's limit leaves of it."""
    import psutil  # late: every rank imports this file, and none asks this

    free = psutil.virtual_memory().available
    try:
        limit, now = (int((_CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        free = min(free, limit - now)
    except (OSError, ValueError):  # no such file, or "max": no limit
        pass
    return max(free, 0)


def visible_gpus() -> int:
    """GPUs that CUDA would show to a rank. Counts without starting CUDA in this process."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def most_ranks() -> tuple[int, str]:
    """The largest number of ranks accepted here, and the resource that sets it."""
    by_memory = int(available_bytes() // RANK_BYTES)
    by_cores = RANKS_PER_CORE * cores()
    if by_memory < by_cores:
        return max(1, by_memory), (
            f"{available_bytes() / 2**30:.1f} GiB of memory are free and a rank takes about "
            f"{RANK_BYTES // 2**20} MiB"
        )
    return by_cores, f"{cores()} cores, at most {RANKS_PER_CORE} ranks on each"


def place(ranks: int, largest: int = 0) -> Placement:
    """Backend and device for `ranks` ranks on this machine.

    largest: of several worlds that are held against each other, the largest: the device that fits
    it is taken for all of them.

    Raises ValueError, with the numbers, when `ranks` is no positive whole number or more than fit.
    """
    if isinstance(ranks, bool) or not isinstance(ranks, int):
        raise ValueError(f"ranks must be a whole number, got {ranks!r}")
    if ranks < 1:
        raise ValueError(f"{ranks} ranks asked for; a run needs at least 1")
    gpus = visible_gpus()
    if gpus >= max(ranks, largest):
        plural = "GPU is" if gpus == 1 else "GPUs are"
        threads = max(1, cores() // ranks)
        return Placement(ranks, "nccl", "cuda", f"{gpus} {plural} visible", threads)
    fits, why = most_ranks()
    if ranks > fits:
        raise ValueError(f"{ranks} ranks asked for, but {fits} fit on this machine ({why})")
    if gpus == 0:
        reason = "no GPU is visible"
    else:
        plural = "GPU is" if gpus == 1 else "GPUs are"
        reason = f"{gpus} {plural} visible and NCCL wants one for each rank"
    return Placement(ranks, "gloo", "cpu", reason, max(1, cores() // ranks))
