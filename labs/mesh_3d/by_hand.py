"""The lab on ranks that somebody else started: plain torchrun, on one node or several.

torchrun --nproc-per-node 8 -m labs.mesh_3d            the evenest layout of these ranks
torchrun --nproc-per-node 8 -m labs.mesh_3d --all      the grid as well
… -m labs.mesh_3d --layout 2,2,2 --zero 3              dp, pp and tp of all the ranks; 0 to 3
… -m labs.mesh_3d --micro-batches 4 --batch 16         of a replica; sequences of a step
… -m labs.mesh_3d --tied --steps 3                     one table at both ends; steps
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import torch.distributed as dist

from labs.answers import references
from labs.mesh import legal
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh.on_rank import on_rank
from labs.mesh_3d import PARTS, TOPIC, grid, jobs, one, refuse
from labs.mesh_3d.ask import Ask
from labs.ranks import by_hand
from labs.result import Result


@dataclass(frozen=True)
class Flags:
    """What stands behind the command. configs: of the section that always runs."""

    ask: Ask
    configs: list[Config]
    everything: bool


class _Parser(argparse.ArgumentParser):
    """Says no by ValueError: one rank prints it for all."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; {self.format_usage().strip()}")


def flags(n: int, given: Sequence[str]) -> Flags:
    """The flags of a run on n ranks. Raises ValueError, a sentence, for what cannot be."""
    parser = _Parser("-m labs.mesh_3d", add_help=False, allow_abbrev=False)
    parser.add_argument("--layout", metavar="DP,PP,TP")
    parser.add_argument("--zero", type=int, default=Ask.zero)
    parser.add_argument("--micro-batches", type=int)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--tied", action="store_true")
    parser.add_argument("--steps", type=int, default=Ask.steps)
    parser.add_argument("--all", action="store_true")
    asked = parser.parse_args(list(given))
    legal.zero(asked.zero)
    legal.whole(steps=asked.steps)
    at = jobs.default(n) if asked.layout is None else refuse.fitting(_layout(asked.layout), n)
    ask = Ask(n, at, asked.zero, asked.tied, asked.steps)
    more = dict(micro_batches=asked.micro_batches, batch=asked.batch)
    more = {name: value for name, value in more.items() if value is not None}
    if "micro_batches" in more and "batch" not in more:
        legal.whole(micro_batches=asked.micro_batches)
        more["batch"] = at.dp * asked.micro_batches  # one sequence each
    return Flags(ask, [replace(config, **more) for config in one.configs(ask)], asked.all)


def _layout(text: str) -> Layout:
    sizes = text.split(",")
    if len(sizes) != 3 or not all(size.strip().isdecimal() for size in sizes):
        raise ValueError(f"--layout is dp, pp and tp, as in 2,2,2; got {text!r}")
    dp, pp, tp = map(int, sizes)
    return Layout(dp=dp, pp=pp, tp=tp)


def run_here() -> int:
    """Run the lab in this process, one of torchrun's. Returns the exit code; 2: it cannot be."""
    parts = references(PARTS)
    with by_hand.joined() as joined:
        n = dist.get_world_size()
        try:
            asked = flags(n, sys.argv[1:])
        except ValueError as refused:
            if dist.get_rank() == 0:
                print(f"this cannot be run: {refused}", file=sys.stderr)
            return 2
        ask = asked.ask
        rooms = {one: asked.configs, **({grid: jobs.grid(n)} if asked.everything else {})}
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
