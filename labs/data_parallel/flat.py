"""Parameters laid end to end in one tensor, so that they can be shared out in equal shares.

| embedding | blocks.0… | blocks.1… | padding |     one tensor
|   rank 0    |   rank 1    |   rank 2    |        its shares, cut without regard to parameters
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn


@dataclass(frozen=True)
class Piece:
    """A run of a share: elements [first, end) of a parameter, and where they begin in the share."""

    parameter: nn.Parameter
    first: int
    end: int
    at: int

    def of(self, share: torch.Tensor) -> torch.Tensor:
        """These elements, a view."""
        return share[self.at : self.at + self.end - self.first]


class Flat:
    """The parameters' places in one tensor, padded to a multiple of `ranks`."""

    def __init__(self, parameters: Sequence[nn.Parameter], ranks: int) -> None:
        self.parameters, self.ranks = list(parameters), ranks
        self.shapes = [p.shape for p in self.parameters]
        self.starts, at = [], 0
        for p in self.parameters:
            self.starts.append(at)
            at += p.numel()
        self.numel = at
        self.padding = -at % ranks
        self.size = at + self.padding
        self.share = self.size // ranks

    def empty(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Zeros, all parameters long, padding included."""
        like = self.parameters[0]
        return torch.zeros(self.size, dtype=dtype or like.dtype, device=like.device)

    def empty_share(self) -> torch.Tensor:
        """Zeros, as long as one rank's share."""
        like = self.parameters[0]
        return torch.zeros(self.share, dtype=like.dtype, device=like.device)

    def views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """A view of each parameter's place, in its shape."""
        return [
            flat[at : at + shape.numel()].view(shape)
            for at, shape in zip(self.starts, self.shapes, strict=True)
        ]

    def gathered(self) -> torch.Tensor:
        """The parameters' values in one new tensor."""
        flat = self.empty()
        for view, parameter in zip(self.views(flat), self.parameters, strict=True):
            view.copy_(parameter.detach())
        return flat

    def place(self, flat: torch.Tensor) -> None:
        """Make each parameter a view of `flat`."""
        for view, parameter in zip(self.views(flat), self.parameters, strict=True):
            parameter.data = view

    def pieces(self, rank: int | None = None) -> list[Piece]:
        """What a rank's share consists of, padding left out; None: of the whole."""
        low, high = (0, self.size) if rank is None else (rank * self.share, (rank + 1) * self.share)
        found = []
        for parameter, start, shape in zip(self.parameters, self.starts, self.shapes, strict=True):
            first, end = max(low, start), min(high, start + shape.numel())
            if first < end:
                found.append(Piece(parameter, first - start, end - start, first - low))
        return found


def all_reduce_together(tensors: Sequence[torch.Tensor], group: dist.ProcessGroup) -> None:
    """Sum each tensor over a group, in place, with one message for all of them."""
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    dist.all_reduce(flat, group=group)
    for tensor, summed in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.copy_(summed.view_as(tensor))
