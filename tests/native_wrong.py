"""torch's composition with one fault each: what the ladder's checks must catch."""

from __future__ import annotations

import torch

from labs.mesh import groups
from labs.mesh.config import Config
from labs.mesh.torch_native import composed
from labs.mesh.torch_native.composed import Native
from labs.mesh.torch_native.on_rank import by_torch


class NotDivided(Native):
    """The micro-batches' gradients are summed."""

    scale_grads = False


class AveragedTwice(Native):
    """The loss is divided by dp, and fully_shard averages over dp as well."""

    def loss(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return super().loss(logits, targets) / self.mesh.layout.dp


class Summed(Native):
    """Gradients are summed over dp: what gloo once made of an average."""

    def _shard(self) -> None:
        super()._shard()
        for part in [*self.stage.parts, self.stage]:
            part.set_gradient_divide_factor(1.0)


class OwnStageOnly(Native):
    """The norm of this rank's stage, taken for the model's."""

    def over_stages(self, squares: torch.Tensor) -> torch.Tensor:
        return squares


class EqualRuns(Native):
    """The fused [Q | K | V] is cut into equal runs, as it stands."""

    def _stage(self) -> tuple:
        right = composed.sort_by_rank
        composed.sort_by_rank = lambda qkv, ranks: None
        try:
            return super()._stage()
        finally:
            composed.sort_by_rank = right


class TiedApart(Native):
    """First and last stage each update the shared weight by what they know of its gradient."""

    def sum_tied(self) -> None:
        self.tied.grad = composed.as_cut(self.tied.grad, self.tied)


class Unclipped(Native):
    """The norm is told, and the gradients stay as they are."""

    def clip(self, norm: torch.Tensor) -> None:
        del norm


def on_rank(todo: list[tuple[type, Config]], steps: int) -> list[dict | None]:
    """On a rank: each composition trained; None where this rank is not on its mesh."""
    meshes = {layout: groups.make(layout) for layout in dict.fromkeys(c.layout for _, c in todo)}
    return [
        by_torch(kind(config, meshes[config.layout], config.reshard), steps)
        if meshes[config.layout]
        else None
        for kind, config in todo
    ]
