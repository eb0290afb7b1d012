"""Ranks that outnumber the cores: neighbours share a core, and none is displaced while it computes.

Left to itself, the kernel moves 8 busy ranks between 2 cores at each of their messages. Where all
ranks have as much to do, it is better that each stays: what a rank has in its caches is there when
its turn comes, and neighbours, which on a mesh send each other most, wake on the same core.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from labs.ranks import devices, on_rank


def share_cores() -> int | None:
    """Keep this rank, all its threads, on one core until it ends. Returns which.

    Nothing happens, and None is returned, outside a rank, on a GPU, where there is a core for each
    rank, where the cores have not the same number of ranks each, and where the system cannot.
    Not for ranks with unequal work: then a core would be idle while the other has two busy ranks.
    """
    here = on_rank.here
    if here is None or here.device != "cpu" or not hasattr(os, "sched_setaffinity"):
        return None
    core = core_of(
        int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        sorted(os.sched_getaffinity(0)), devices.cores(),
    )  # fmt: skip
    if core is None:
        return None
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it ended, or we may not
            os.sched_setaffinity(int(thread.name), {core})
            # Who wakes, as every message does, waits until the one that computes is done.
            os.sched_setscheduler(int(thread.name), os.SCHED_BATCH, os.sched_param(0))
    return core


def core_of(rank: int, ranks: int, cores: list[int], allowed: int) -> int | None:
    """The core of a rank, in runs of neighbours; None where ranks should stay free.

    cores: that this process may use; allowed: as many as it may keep busy at once, which a
    container's limit can make fewer.
    """
    if len(cores) != allowed or ranks <= len(cores) or ranks % len(cores):
        return None
    return cores[rank * len(cores) // ranks]
