"""On a rank: one configuration after the other, and what each sends, holds, and holds at most.

Nothing here knows a formula. What is reported is what ledger, live tensors and allocator say.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn

from labs import ranks
from labs.mesh import groups
from labs.mesh.census import census, live
from labs.mesh.config import Config
from labs.mesh.groups import Mesh
from labs.mesh.trainer import Trainer

Parts = Mapping[str, Callable]
TRIES = 12
"""Steps at most until the account of one closes on every rank."""


def sent(configs: Sequence[Config], parts: Parts, steps: int = 1) -> None:
    """Train each configuration for some steps, in a section of the ledger that has its name."""
    for _, config, mesh in _each(configs):
        trainer = Trainer(config, mesh, parts)
        with ranks.section(config.name):
            for step in range(steps):
                trainer.step(step)


def at_rest(configs: Sequence[Config], parts: Parts, steps: int = 1) -> list[dict | None]:
    """What this rank holds of each configuration after `steps` steps: labs/mesh/census.py.

    Besides, sequences: how many of them passed this rank in the last step. None where the rank is
    not on the mesh.
    """
    found: list[dict | None] = [None] * len(configs)
    for number, config, mesh in _each(configs):
        before = live()
        trainer = Trainer(config, mesh, parts)
        seen = _Seen(trainer.model)
        for step in range(steps):
            seen.sequences = 0
            trainer.step(step)
        found[number] = {**census(trainer, before), "sequences": seen.sequences}
        del trainer, seen, before
    return found


def at_most(configs: Sequence[Config], parts: Parts) -> list[dict | None]:
    """The most that a step of each configuration takes besides what this rank holds at rest.

    returns, in bytes: rest, what it holds of weights, gradients and optimizer state after the step;
    peak, the most above that during a step; largest, the largest single allocation of it; left, by
    how much what was allocated exceeds what was released; other, what is there at rest besides.

    gloo's thread may be the last to let go of a message, and what is released there the account
    does not see: it is then too high from there on. So steps are taken until one is `left` with
    nothing, to a hundredth of its peak, on every rank.
    """
    found: list[dict | None] = [None] * len(configs)
    for number, config, mesh in _each(configs):
        before = live()
        trainer = Trainer(config, mesh, parts)
        trainer.step(0)  # makes the optimizer's state
        best = None
        for step in range(1, TRIES):
            with ranks.allocations(config.name) as seen:
                trainer.step(step)
                gc.collect()
            left = abs(seen.live_bytes)
            if best is None or left < best["left"]:
                best = dict(peak=seen.peak_bytes, largest=seen.largest_bytes, left=left)
            if _all(best["left"] <= best["peak"] / 100, mesh.whole):
                break
        told = census(trainer, before)
        rest = sum(told[kind] for kind in ("weights", "gradients", "optimizer"))
        found[number] = {"rest": rest, **best, "other": told["other"]}
        del trainer, before
    return found


def _each(configs: Sequence[Config]) -> Iterator[tuple[int, Config, Mesh]]:
    """Number, configuration and its mesh, layout by layout; of those whose mesh this rank is on.

    Every rank of the world goes through it to the end: to make and to close a mesh takes all.
    """
    if not configs:
        return
    gc.collect()
    gc.freeze()  # what is there now need not be looked through again and again
    for layout in dict.fromkeys(config.layout for config in configs):
        mesh = groups.make(layout)
        for number, config in enumerate(configs):
            if config.layout == layout and mesh is not None:
                ranks.say(config.name)
                yield number, config, mesh
                gc.collect()  # a trainer's hooks are circles
        groups.close(mesh)


def _all(holds: bool, group: dist.ProcessGroup) -> bool:
    """Whether it holds on every rank of the group."""
    told = torch.tensor(int(holds), device=ranks.device())
    dist.all_reduce(told, dist.ReduceOp.MIN, group=group)
    return bool(told)


class _Seen:
    """Counts the sequences that pass a stage of the model forward."""

    def __init__(self, stage: nn.Module) -> None:
        self.sequences = 0
        stage.register_forward_pre_hook(self._passing)

    def _passing(self, _: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        self.sequences += len(given[0])
