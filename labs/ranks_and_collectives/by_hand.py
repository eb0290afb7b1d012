"""The lab on ranks that somebody else started: plain torchrun, on one node or several."""

from __future__ import annotations

import torch.distributed as dist

from labs.ranks import by_hand
from labs.ranks_and_collectives import SECTIONS, SIZES, TOPIC, take
from labs.ranks_and_collectives.on_rank import on_rank
from labs.result import Result


def run_here() -> int:
    """Run the lab in this process, one of torchrun's. Returns the exit code."""
    with by_hand.joined() as joined:
        run = joined.gather(on_rank(SECTIONS, SIZES))
        if run is None:  # not rank 0, which prints
            return 0
        result = Result(TOPIC, dict(ranks=dist.get_world_size(), sizes=list(SIZES)))
        take(result, run, SECTIONS, SIZES)
        print(result)
        return 0 if result.ok else 1
