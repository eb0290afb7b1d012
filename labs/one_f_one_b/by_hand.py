"""The lab on ranks that somebody else started: plain torchrun, on one node or several."""

from __future__ import annotations

import torch.distributed as dist

from labs.answers import references
from labs.one_f_one_b import MICRO_BATCHES, PARTS, SECTIONS, TOPIC, accounts, take
from labs.one_f_one_b.jobs import Orders, jobs
from labs.pipeline.on_rank import on_rank
from labs.ranks import by_hand
from labs.result import Result

FORWARD, TRIES = 0.010, 2


def run_here() -> int:
    """Run the lab in this process, one of torchrun's. Returns the exit code."""
    parts = references(dict.fromkeys(PARTS, TOPIC))
    with by_hand.joined() as joined:
        n, orders = dist.get_world_size(), Orders(parts)
        planned = jobs(orders, n, SECTIONS, MICRO_BATCHES, FORWARD, TRIES)
        done = on_rank([one.job for one in planned], parts["micro_batch_loss"])
        run = joined.gather(done)
        if run is None:  # not rank 0, which prints
            return 0
        result = Result(TOPIC, dict(ranks=n, micro_batches=MICRO_BATCHES, forward=FORWARD))
        result.checks += accounts.in_slots(orders)
        take(result, planned, run)
        print(result)
        return 0 if result.ok else 1
