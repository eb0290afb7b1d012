"""Training that is saved and goes on elsewhere, on a rank: what labs/mesh_3d/resume.py launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist

from labs import ranks
from labs.mesh import checkpoint, groups
from labs.mesh.config import Config
from labs.mesh.trainer import Trainer

Parts = Mapping[str, Callable]


def train_and_save(
    config: Config, parts: Parts, folder: str, before: int, after: int
) -> list[float] | None:
    """Train `before` steps, save, train `after` more as if nothing had been. The loss of each step.

    None on a rank that the mesh does not need.
    """
    torch.set_num_threads(1)  # layers this small gain nothing from more
    groups.share_cores(config.layout)
    mesh = groups.make(config.layout)
    if mesh is None:
        return None
    trainer = Trainer(config, mesh, parts)
    losses = [trainer.step(number).loss for number in range(before)]
    checkpoint.save(trainer, folder, before)
    return losses + [trainer.step(before + number).loss for number in range(after)]


def resume(
    configs: Sequence[Config], parts: Parts, folder: str, steps: int
) -> list[dict[str, object] | None]:
    """Load the newest checkpoint into each configuration, and train `steps` more steps.

    step: that the checkpoint was of; losses: of the steps from there on. None for a configuration
    that does not need this rank.
    """
    torch.set_num_threads(1)
    groups.share_cores(*(config.layout for config in configs))
    found = []
    for done, config in enumerate(configs, 1):
        mesh = groups.make(config.layout)
        if mesh is None:
            found.append(None)
        else:
            trainer = Trainer(config, mesh, parts)
            first = checkpoint.load(trainer, folder)
            losses = [trainer.step(first + number).loss for number in range(steps)]
            found.append(dict(step=first, losses=losses))
        groups.close(mesh)
        ranks.step(done, len(configs))
    return found


def rank_0_saves(config: Config, parts: Parts, folder: str) -> None:
    """The mistake: a save on rank 0 alone, while the others train on."""
    trainer = Trainer(config, groups.make(config.layout), parts)
    trainer.step(0)
    if dist.get_rank() == 0:
        checkpoint.save(trainer, folder, 1)
    trainer.step(1)
