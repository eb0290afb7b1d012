"""A pass that splits the residual stream along T between the ranks of a tensor-parallel group.

f becomes an all-gather and g a reduce-scatter (sequence_scatter_gather of notebook 04), so norms,
dropout and the stream itself hold T/t tokens. What is whole on every rank and works on the stream
(norms, the biases after g, positions) sees a part of the tokens: its gradients are summands.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

from labs.gpt import Block, Embedding, Head
from labs.mesh.tensor_parallel import ParallelEmbedding, ParallelLogits, Parts, Place, Region


class SequenceRegion(nn.Module):
    """Tokens gathered, attention or MLP, summands scattered, + bias: (B, T/t, d) -> the same."""

    def __init__(self, region: Region, parts: Parts) -> None:
        super().__init__()
        self.inner, self.bias, self.group = region.inner, region.bias, region.group
        self.between = parts["sequence_scatter_gather"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.between(x, self.inner, self.group) + self.bias


class SequenceEmbedding(nn.Module):
    """(B, T/t) -> (B, T/t, d): the group's tokens gathered, the found rows' summands scattered."""

    def __init__(self, whole: ParallelEmbedding, parts: Parts, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.weight, self.rows, self.group = whole.weight, whole.rows, group
        self.between = parts["sequence_scatter_gather"]

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.between(
            tokens.unsqueeze(-1), lambda x: self.rows(x.squeeze(-1), self.weight), self.group
        )


class Gathered(nn.Module):
    """f for the head, which has no g after it: (B, T/t, d) -> (B, T, d), summed back."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group

    def forward(self, x: torch.Tensor, _: dist.ProcessGroup | None = None) -> torch.Tensor:
        return functional.all_gather_single_autograd(x, gather_dim=1, group=self.group)


def sequence_parallel(model: nn.Module, place: Place, parts: Parts) -> list[nn.Parameter]:
    """Split the stream of a tensor-parallel GPT, or of a stage, along T. In place.

    Returns the parameters whose gradients have to be summed over the group.
    """
    if place.ranks == 1:
        return []
    for part in [*model.modules()]:
        if isinstance(part, Embedding) and isinstance(part.tokens, ParallelEmbedding):
            part.tokens = SequenceEmbedding(part.tokens, parts, place.group)
        elif isinstance(part, Head) and isinstance(part.logits, ParallelLogits):
            part.logits.enter = Gathered(place.group)
        elif isinstance(part, Block):
            part.attention = SequenceRegion(part.attention, parts)
            part.mlp = SequenceRegion(part.mlp, parts)
    return [parameter for parameter in model.parameters() if parameter.held.whole]
