"""The tiny run on ranks that somebody else started: plain torchrun, on one node or several."""

from __future__ import annotations

import torch.distributed as dist

from labs.answers import references
from labs.mesh import accounted
from labs.mesh.trainer import PARTS
from labs.planner.exports.shrink import MOST, shrink
from labs.planner_widget import TOPIC, by_tiny, tiny
from labs.planner_widget.asked import Asked
from labs.ranks import by_hand
from labs.result import Result


def run_here() -> int:
    """Run it in this process, one of torchrun's. Returns the exit code."""
    parts = references(PARTS)
    with by_hand.joined() as joined:
        asked, n = Asked(), dist.get_world_size()
        shrunk = shrink(asked.layout(), asked.model(), min(n, MOST))
        config = tiny.config_of(shrunk.layout, shrunk.model)
        clocked = [tiny.timed(config)] if config.layout.pp > 1 else []
        run = joined.gather(accounted.on_rank([config], parts, clocked))
        if run is None:  # not rank 0, which prints
            return 0
        result = Result(TOPIC, dict(ranks=n, layout=str(shrunk.layout)))
        measured = tiny.taken(config, run)
        by_tiny.take(result, tiny.Tiny(shrunk, tiny.compare(shrunk, measured), measured, run))
        print(result)
        return 0 if result.ok else 1
