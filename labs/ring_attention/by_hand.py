"""The lab on ranks that somebody else started: plain torchrun, on one node or several."""

from __future__ import annotations

import torch.distributed as dist

from labs.answers import references
from labs.context_parallel.clock import timed, timed_jobs, timed_on_rank
from labs.context_parallel.on_rank import on_rank
from labs.ranks import by_hand
from labs.result import Result
from labs.ring_attention import PARTS, SECTIONS, TOPIC, accounts, memory, model
from labs.sequence_parallel import lab as sequence


def run_here() -> int:
    """Run the lab in this process, one of torchrun's. Returns the exit code.

    All but full attention, which is there to be measured on one rank alone.
    """
    parts = references(dict.fromkeys(PARTS, TOPIC))
    with by_hand.joined() as joined:
        n = dist.get_world_size()
        sections = [name for name in SECTIONS if name != accounts.LONGEST]
        plan, steps = accounts.plan(n, sections, None, memory.fitting(n)), model.steps(n)
        clocked, split = timed_jobs.jobs(n), sequence.plan(n) if n > 1 else None
        ring = joined.gather(on_rank(parts, [job for _, job in plan.jobs]))
        whole = joined.gather(model.on_rank(parts, steps))
        ticked = joined.gather(timed_on_rank.on_rank(parts, clocked)) if clocked else None
        tokens = joined.gather(sequence.on_rank(split, sequence.parts())) if split else None
        if ring is None:  # not rank 0, which prints
            return 0
        result = Result(TOPIC, dict(ranks=n))
        result.checks += sequence.checks(split, tokens) if split else []
        result.checks += model.checks(steps, whole)
        if clocked:
            timed.take(result, clocked, ticked)
        accounts.take(result, plan, parts, ring)
        print(result)
        return 0 if result.ok else 1
