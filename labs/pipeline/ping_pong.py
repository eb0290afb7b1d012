"""How long a message between two ranks takes, measured in the job that it is needed for."""

from __future__ import annotations

import time
from statistics import median

import torch
import torch.distributed as dist

from labs.pipeline.executor import Executor

_ROUNDS = 9


def message_seconds(of: Executor) -> float:
    """Half of a round trip of the executor's messages between ranks 0 and 1, the median of some.

    All ranks call it, the others wait. 0 on one rank, where nothing travels.
    """
    if of.schedule.ranks == 1:
        return 0.0
    group, like, found = of.messages.group, of.messages.like, []
    room = torch.empty_like(like)
    dist.barrier(group)
    for _ in range(_ROUNDS if of.rank < 2 else 0):
        begun = time.perf_counter()
        if of.rank == 0:
            dist.send(like, group_dst=1, group=group)
            dist.recv(room, group_src=1, group=group)
        else:
            dist.recv(room, group_src=0, group=group)
            dist.send(like, group_dst=0, group=group)
        if of.device.type == "cuda":
            torch.cuda.synchronize()
        found.append((time.perf_counter() - begun) / 2)
    dist.barrier(group)
    return median(found) if found else 0.0
