"""The lab on ranks that somebody else started: plain torchrun, on one node or several."""

from __future__ import annotations

import torch.distributed as dist

from labs.answers import reference
from labs.bubble_math import MICRO_BATCHES, SECTIONS, TOPIC, accounts, take
from labs.bubble_math.jobs import jobs
from labs.pipeline.jobs import plain_loss
from labs.pipeline.on_rank import on_rank
from labs.ranks import by_hand
from labs.result import Result

FORWARD, TRIES = 0.010, 2


def run_here() -> int:
    """Run the lab in this process, one of torchrun's. Returns the exit code."""
    order = reference("one_f_one_b.gpipe_order")
    with by_hand.joined() as joined:
        n = dist.get_world_size()
        todo = jobs(order, n, SECTIONS, MICRO_BATCHES, FORWARD, TRIES)
        run = joined.gather(on_rank([one.job for one in todo], plain_loss))
        if run is None:  # not rank 0, which prints
            return 0
        result = Result(TOPIC, dict(ranks=n, micro_batches=MICRO_BATCHES, forward=FORWARD))
        result.checks += accounts.in_slots(order)
        take(result, todo, run)
        print(result)
        return 0 if result.ok else 1
