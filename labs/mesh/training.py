"""Many steps on a mesh, on a rank: the loss of each, when it ended, what the rank held at most."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import torch

from labs import ranks
from labs.mesh import groups
from labs.mesh.config import Config
from labs.mesh.trainer import Trainer

_TOLD = 100  # times that progress is shown, at most


def on_rank(config: Config, parts: Mapping[str, Callable], steps: int) -> dict | None:
    """Train `steps` steps. The ledger's section "training" holds them all but the first.

    losses, norms   of each step
    seconds         of each step, from the end of the last one
    parameters      this rank holds
    peak_bytes      the most that one more step adds to what lies in memory before it
    """
    torch.set_num_threads(1)  # layers this small gain nothing from more
    groups.share_cores(config.layout)
    mesh = groups.make(config.layout)
    if mesh is None:
        return None
    trainer = Trainer(config, mesh, parts)
    losses, norms, seconds, begun = [], [], [], time.monotonic()
    for step in range(steps):
        with ranks.section("training" if step else "first step"):
            done = trainer.step(step)
        losses.append(done.loss)
        norms.append(done.norm)
        seconds.append(time.monotonic() - begun)
        begun = time.monotonic()
        if mesh.rank == 0 and (step + 1) * _TOLD // steps > step * _TOLD // steps:
            ranks.step(step + 1, steps)
            ranks.keep("losses", losses)
    with ranks.section("one more"), ranks.allocations("a step") as seen:
        trainer.step(steps)
    return dict(
        losses=losses, norms=norms, seconds=seconds, peak_bytes=seen.peak_bytes,
        parameters=sum(p.numel() for p in trainer.model.parameters()),
    )  # fmt: skip
