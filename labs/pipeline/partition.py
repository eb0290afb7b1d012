"""Cutting a model into the stages of a pipeline, and a batch into its micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import nn

from labs.gpt import GPT


def layer_counts(layers: int, stages: int) -> list[int]:
    """Layers on each stage, as even as can be; the first stages hold one more.

    10 layers on 3 stages: [4, 3, 3]. Raises ValueError for more stages than layers.
    """
    for what, count in (("stages", stages), ("layers", layers)):
        if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
            raise ValueError(f"a pipeline needs a whole number of {what}, 1 or more; got {count!r}")
    if stages > layers:
        raise ValueError(
            f"{stages} stages asked for, but the model has {layers} layers, and no stage may be "
            f"empty; at most {layers} stages"
        )
    each, more = divmod(layers, stages)
    return [each + (stage < more) for stage in range(stages)]


class Stage(nn.Module):
    """Some layers of a model in a row; the first stage embeds, the last one has the head."""

    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = part(x)
        return x


def cut(model: GPT, stages: int) -> list[Stage]:
    """The model's stages; they share its parameters. Raises ValueError as `layer_counts` does."""
    found, at = [], 0
    for stage, count in enumerate(layer_counts(len(model.blocks), stages)):
        parts = list(model.blocks[at : at + count])
        at += count
        parts = [model.embedding, *parts] if stage == 0 else parts
        parts = [*parts, model.head] if stage == stages - 1 else parts
        found.append(Stage(parts))
    return found


def micro_batches(batch: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Cut (B, …) into `count` micro-batches of B/count. Raises ValueError, with what would do."""
    if not isinstance(batch, torch.Tensor) or not batch.dim() or not len(batch):
        raise ValueError(f"a batch is a tensor (B, …) with B = 1 or more; got {batch!r}")
    if isinstance(count, bool) or not isinstance(count, Integral):
        raise ValueError(f"a batch is cut into a whole number of micro-batches; got {count!r}")
    size = batch.shape[0]
    if count < 1 or size % count:
        legal = [divisor for divisor in range(1, size + 1) if size % divisor == 0]
        near = [*[d for d in legal if d < count][-1:], *[d for d in legal if d > count][:1]]
        told = " or ".join(map(str, near))
        raise ValueError(
            f"a batch of {size} cannot be cut into {count} equal micro-batches; {told} would do"
        )
    return list(batch.chunk(int(count)))
