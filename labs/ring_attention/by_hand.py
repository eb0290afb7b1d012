"""The lab on ranks that somebody else started: plain torchrun, on one node or several."""

from __future__ import annotations

import torch.distributed as dist

from labs.answers import reference
from labs.ranks import by_hand
from labs.result import Result
from labs.ring_attention import PARTS, SECTIONS, TOPIC, accounts, memory
from labs.ring_attention.on_rank import on_rank


def run_here() -> int:
    """Run the ring's sections in this process, one of torchrun's. Returns the exit code."""
    parts = {name: reference(f"{TOPIC}.{name}") for name in PARTS}
    with by_hand.joined() as joined:
        n = dist.get_world_size()
        plan = accounts.plan(n, SECTIONS, None, memory.fitting(n))
        run = joined.gather(on_rank(parts, [job for _, job in plan.jobs]))
        if run is None:  # not rank 0, which prints
            return 0
        result = Result(TOPIC, dict(ranks=n))
        accounts.take(result, plan, parts, run)
        print(result)
        return 0 if result.ok else 1
