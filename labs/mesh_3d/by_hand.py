"""The lab on ranks that somebody else started: plain torchrun, on one node or several.

torchrun --nproc-per-node 8 -m labs.mesh_3d            the evenest layout of these ranks
torchrun --nproc-per-node 8 -m labs.mesh_3d --all      the grid as well
"""

from __future__ import annotations

import sys

import torch.distributed as dist

from labs.answers import reference
from labs.mesh.on_rank import on_rank
from labs.mesh_3d import PARTS, TOPIC, grid, jobs, one
from labs.mesh_3d.ask import Ask
from labs.ranks import by_hand
from labs.result import Result


def run_here() -> int:
    """Run the lab in this process, one of torchrun's. Returns the exit code."""
    parts = {name: reference(f"{topic}.{name}") for name, topic in PARTS.items()}
    with by_hand.joined() as joined:
        n = dist.get_world_size()
        ask = Ask(n, jobs.default(n))
        rooms = {one: one.configs(ask), **({grid: jobs.grid(n)} if "--all" in sys.argv else {})}
        todo = list(dict.fromkeys(config for those in rooms.values() for config in those))
        run = joined.gather(on_rank(todo, parts, ask.steps))
        if run is None:  # not rank 0, which prints
            return 0
        result, values = Result(TOPIC, dict(ranks=n, layout=str(ask.layout))), run.values
        for room, those in rooms.items():
            run.values = [[value[todo.index(config)] for config in those] for value in values]
            room.take(result, those, run, ask.steps)
        print(result)
        return 0 if result.ok else 1
