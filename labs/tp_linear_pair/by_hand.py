"""The lab on ranks that somebody else started: plain torchrun, on one node or several.

Each rank makes the same jobs from the same seed, executes them, and rank 0 gathers all reports,
holds them against one device and prints the checks.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from labs import text
from labs.answers import references
from labs.ranks import Run, by_hand
from labs.result import Result
from labs.tp_linear_pair import TOPIC
from labs.tp_linear_pair.accounts import accounts
from labs.tp_linear_pair.experiments import Shape, on_rank
from labs.tp_linear_pair.jobs import SECTIONS, make_jobs
from labs.tp_linear_pair.legality import check_shape
from labs.tp_linear_pair.parallel_block import PARTS
from labs.tp_linear_pair.parity import parity


def run_here() -> int:
    """Run the lab in this process, one of torchrun's. Returns the exit code."""
    with by_hand.joined() as joined:
        shape, n = Shape(vocab=text.VOCAB), dist.get_world_size()
        try:
            check_shape(shape.d, shape.heads, shape.kv_heads, shape.d_ff, shape.vocab, n)
        except ValueError as refused:
            if dist.get_rank() == 0:
                print(refused)
            return 2
        parts = references(dict.fromkeys(PARTS, TOPIC))
        jobs, wholes = make_jobs(n, True, shape, SECTIONS, 0, torch.float64)
        run: Run | None = joined.gather(on_rank(parts, jobs))
        if run is None:  # not rank 0
            return 0
        result = Result(TOPIC, dict(ranks=n, **shape.to_dict()), run=run)
        result.checks = parity(jobs, wholes, run, each=True) + accounts(jobs, run)
        print(result)
        return 0 if result.ok else 1
