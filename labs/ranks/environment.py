"""The environment a run gets: the caller's, less whatever another launcher left in it.

A notebook may itself live inside a SLURM job, a torchrun or an MPI session whose RANK,
MASTER_ADDR and the like describe somebody else's world. None of that may decide here.
"""

import functools
import multiprocessing
import os
import socket
import sys
from collections.abc import Mapping, Sequence

_FOREIGN_PREFIXES = (
    "MASTER_", "SLURM_", "TORCHELASTIC_", "GROUP_", "ROLE_", "PET_", "PMI_", "PMIX_", "OMPI_",
    "LOCAL_RANK", "LOCAL_WORLD_SIZE",
)  # fmt: skip
_FOREIGN_NAMES = {"RANK", "WORLD_SIZE", "NODE_RANK", "TORCH_NCCL_ASYNC_ERROR_HANDLING"}


def loopback() -> str:
    """The loopback interface's name: `lo` on Linux, `lo0` on macOS."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in ("lo", "lo0") if name in names), "lo")


def for_ranks(
    threads: int, path: Sequence[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Environment of one launch on this machine alone. os.environ is read and never changed.

    threads: CPU threads a rank; path: folders that PYTHONPATH names before the caller's own; extra:
    set last, as given. What PYTHONPATH names comes before the standard library: a `random.py` there
    breaks the start of any interpreter. An empty entry would be the current folder.
    """
    own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in _FOREIGN_NAMES and not name.startswith(_FOREIGN_PREFIXES)
    }
    env.update(
        OMP_NUM_THREADS=str(threads),
        MKL_NUM_THREADS=str(threads),
        GLOO_SOCKET_IFNAME=loopback(),
        NCCL_SOCKET_IFNAME=loopback(),
        # The store asks the resolver for the name of each rank that connects; without a name
        # server that takes 5 s. Loopback needs no resolver.
        RES_OPTIONS="attempts:0",
        PYTHONPATH=os.pathsep.join(filter(None, [*path, *own])),
        PYTHONUNBUFFERED="1",
        PYTHONUTF8="1",
        LABS_QUEUE="off",  # a run that a rank starts belongs to the turn of the rank's own run
        KINETO_LOG_LEVEL="99",
        TORCH_CPP_LOG_LEVEL="ERROR",
        # Nobody begins before all are connected. gloo gives up now and then while it connects some
        # two ranks; then the run can start anew, and nothing of it was done yet.
        TORCH_DIST_INIT_BARRIER="1",
    )
    env.update(extra or {})
    return env


def idle_seconds() -> float:
    """How long a supervisor waits for work before it ends itself: LABS_IDLE, or 15 minutes.

    Raises ValueError when LABS_IDLE is no number of seconds above 0.
    """
    asked = os.environ.get("LABS_IDLE", "900")
    try:
        seconds = float(asked)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise ValueError(
            f"LABS_IDLE must be a number of seconds above 0 and below 1e9, got {asked!r}; "
            "without it a warm process ends after 900 s without work"
        )
    return seconds


@functools.cache
def can_make_semaphores() -> bool:
    """Whether this system makes semaphores: torchrun needs one for each rank that it forks.

    On Linux they live in /dev/shm, which some containers lack or mount read-only.
    """
    try:
        multiprocessing.get_context("fork").Lock()
    except (OSError, ImportError, ValueError):  # ValueError: no fork on this system
        return False
    return True


def default_mode() -> tuple[str, str]:
    """warm or cold, and why. LABS_MODE=cold (or warm) decides."""
    asked = os.environ.get("LABS_MODE")
    if asked in ("warm", "cold"):
        return asked, f"LABS_MODE={asked}"
    if sys.platform.startswith("linux") and not can_make_semaphores():
        return "cold", "no semaphore can be made (/dev/shm is missing, full or read-only)"
    if sys.platform.startswith("linux"):
        return "warm", "fork is safe on Linux"
    return "cold", f"fork is not safe on {sys.platform}"
