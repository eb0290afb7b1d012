"""A pass that makes a GPT tensor-parallel, in place: linear layers shrink, f and g stand around.

    x ── f ── attention or MLP over this rank's heads or columns ── g ── + bias

The modules stay those of labs/gpt.py, only narrower; what is new is `Region`, which says how the
residual stream enters and leaves them. Embedding and head are cut along the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from labs.gpt import Block, Embedding, Head
from labs.mesh.held import copied, cut

Parts = Mapping[str, Callable]
Which = Callable[[str, tuple[int, ...]], tuple[int, Sequence[tuple[int, int]]]]


@dataclass(frozen=True)
class Place:
    """A rank of a tensor-parallel group: which, of how many, in which group."""

    rank: int
    ranks: int
    group: dist.ProcessGroup | None = None


class Region(nn.Module):
    """x -> f -> inner, a summand on each rank -> g -> + bias: (B, T, d) -> (B, T, d)."""

    def __init__(
        self, inner: nn.Module, bias: nn.Parameter, parts: Parts, group: dist.ProcessGroup | None
    ) -> None:
        super().__init__()
        self.inner, self.bias = inner, bias
        self.enter, self.leave, self.group = (
            parts["copy_to_ranks"],
            parts["reduce_from_ranks"],
            group,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        summand = self.inner(self.enter(x, self.group))
        return self.leave(summand, self.group) + self.bias


class ParallelEmbedding(nn.Module):
    """A table whose rows are shared out: (B, T) -> (B, T, d), the same on every rank."""

    def __init__(self, rows: nn.Parameter, parts: Parts, place: Place) -> None:
        super().__init__()
        self.weight, self.leave, self.place = rows, parts["reduce_from_ranks"], place

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.leave(self.rows(tokens, self.weight), self.place.group)

    def rows(self, tokens: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """This rank's summand: the rows of the tokens that it holds, zeros for the others."""
        count = weight.shape[0]
        row = tokens - self.place.rank * count
        here = (row >= 0) & (row < count)
        found = F.embedding(row.clamp(0, count - 1), weight)
        return found.masked_fill(~here.unsqueeze(-1), 0.0)


class ParallelLogits(nn.Module):
    """A head whose rows, one a token of the vocabulary, are shared out: (B, T, d) -> (B, T, V/t).

    Rows past the vocabulary are padding: their logits are -inf, so they get no probability and no
    gradient.
    """

    def __init__(self, rows: nn.Parameter, vocab: int, parts: Parts, place: Place) -> None:
        super().__init__()
        self.weight, self.enter, self.place = rows, parts["copy_to_ranks"], place
        self.real = max(0, min(rows.shape[0], vocab - place.rank * rows.shape[0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.enter(x, self.place.group) @ self.weight.T
        if self.real < logits.shape[-1]:
            logits[..., self.real :] = -torch.inf
        return logits


def tensor_parallel(model: nn.Module, place: Place, parts: Parts, which: Which) -> nn.Module:
    """Cut a labelled GPT, or a stage of one, for one rank of a tensor-parallel group, in place.

    parts   "copy_to_ranks" (f) and "reduce_from_ranks" (g) of notebook 01
    which   (name, shape) of a parameter -> the dimension and the runs that this rank holds of it

    A group of one rank leaves the model as it was.
    """
    if place.ranks == 1:
        return model
    new: dict[int, nn.Parameter] = {}

    def of(parameter: nn.Parameter) -> nn.Parameter:
        key = id(parameter)
        if key not in new:  # once, also where embedding and head share it
            held = parameter.held
            new[key] = cut(parameter, *which(held.name, held.shape))
        return new[key]

    for part in [*model.modules()]:
        if isinstance(part, Embedding):
            part.tokens = ParallelEmbedding(of(part.tokens.weight), parts, place)
        elif isinstance(part, Head):
            vocab = part.logits.weight.held.shape[0]
            part.logits = ParallelLogits(of(part.logits.weight), vocab, parts, place)
        elif isinstance(part, Block):
            part.attention = _region(part.attention, "qkv", "out", of, parts, place)
            part.mlp = _region(part.mlp, "up", "down", of, parts, place)
    for parameter in model.parameters():
        if parameter.held.whole:
            copied(parameter, place.ranks)
    return model


def _region(
    inner: nn.Module, first: str, last: str, of: Callable, parts: Parts, place: Place
) -> Region:
    enters, leaves = getattr(inner, first), getattr(inner, last)
    setattr(inner, first, _linear(of(enters.weight), of(enters.bias)))
    setattr(inner, last, _linear(of(leaves.weight), None))
    return Region(inner, leaves.bias, parts, place.group)


def _linear(weight: nn.Parameter, bias: nn.Parameter | None) -> nn.Linear:
    outputs, inputs = weight.shape
    made = nn.Linear(inputs, outputs, bias is not None, device="meta")
    made.weight, made.bias = weight, bias
    return made
