"""Dropout that is the same model's on every layout: a mask belongs to a sample, not to a rank.

A mask of (T, d) is drawn from step, layer, place and the sample's number in the batch; a rank takes
the rows of its tokens. So the ranks of a tensor-parallel group draw the same mask where they hold
the same tokens, replicas draw others, and one device draws them all.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from labs.gpt import Block
from labs.sequence_parallel.dropout import AFTER_ATTENTION, AFTER_MLP, seed_of


@dataclass
class Samples:
    """Which samples the micro-batches of this rank are: `first` + i·rows and those after it."""

    first: int = 0
    rows: int = 1
    step: int = 0


class Dropout(nn.Module):
    """Sets a share of the numbers to 0 and divides the others by 1 - share: (B, n, d) -> the same.

    places  of this rank's tokens in the whole sequence, (n,); length  of the sequence, T
    """

    def __init__(
        self, share: float, seed: int, name: str, samples: Samples, length: int,
        places: torch.Tensor,
    ) -> None:  # fmt: skip
        super().__init__()
        self.share, self.seed, self.name, self.samples = share, seed, name, samples
        self.length, self.places = length, places
        self.step, self.calls = -1, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.samples.step != self.step:  # a stage meets a step's micro-batches in their order
            self.step, self.calls = self.samples.step, 0
        first = self.samples.first + self.calls * self.samples.rows
        self.calls += 1
        masks = [self._mask(first + row, x.shape[-1]) for row in range(x.shape[0])]
        return x * torch.stack(masks).to(x.device) / (1 - self.share)

    def _mask(self, sample: int, d: int) -> torch.Tensor:
        seed = seed_of(self.seed, self.name, step=self.step, sample=sample)
        draw = torch.Generator().manual_seed(seed)
        return (torch.rand(self.length, d, generator=draw) >= self.share)[self.places]


def with_dropout(
    model: nn.Module, share: float, seed: int, samples: Samples, length: int, places: torch.Tensor
) -> nn.Module:
    """Put dropout after attention and MLP of every block of a labelled GPT or stage. In place."""
    for block in [part for part in model.modules() if isinstance(part, Block)]:
        layer = block.norm1.weight.held.name.split(".")[1]
        for attribute, name in (("drop1", AFTER_ATTENTION), ("drop2", AFTER_MLP)):
            name = f"block {layer}, {name}"
            setattr(block, attribute, Dropout(share, seed, name, samples, length, places))
    return model
