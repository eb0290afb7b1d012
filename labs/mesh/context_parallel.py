"""A pass that lets each rank hold a part of the sequence: attention becomes the ring's.

Everything else works on each token by itself and stays as it is, but for the positions: a token's
position is its place in the whole sequence, not in the rank's part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from labs.context_parallel.attention import ring_attention
from labs.gpt import Attention, Embedding


class Placed(nn.Module):
    """Position embeddings of the tokens at `places`: place n of the rank is places[n] of all."""

    def __init__(self, table: nn.Embedding, places: torch.Tensor) -> None:
        super().__init__()
        self.weight = table.weight
        self.register_buffer("places", places, persistent=False)

    def forward(self, at: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(self.places[at], self.weight)


def place_tokens(model: nn.Module, places: torch.Tensor) -> nn.Module:
    """Let the embedding, if the model has one, know where this rank's tokens stand. In place."""
    for part in [*model.modules()]:
        if isinstance(part, Embedding):
            part.positions = Placed(part.positions, places)
    return model


def context_parallel(
    model: nn.Module, held: torch.Tensor, parts: Mapping[str, Callable], group: dist.ProcessGroup
) -> nn.Module:
    """Make a GPT's attention, or a stage's, attend over the tokens of a whole group. In place.

    held   (c, T/c) whole-sequence places of each rank's tokens
    parts  "ring_forward" and "ring_backward" of notebook 04
    """
    mine = held[dist.get_rank(group)]
    for part in model.modules():
        if isinstance(part, Attention):
            part.attend = partial(
                ring_attention, q_places=mine, k_places=held, parts=parts, group=group
            )
    return model
