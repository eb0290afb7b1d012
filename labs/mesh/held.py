"""Which part of which parameter a rank holds, written on the parameter itself.

A pass that cuts a parameter says what it kept, so that gradients and weights can be put together
again (labs/mesh/assembly.py), counted once, saved and loaded at another layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

Runs = tuple[tuple[int, int], ...]
"""First and end of each run of indices, in order."""


@dataclass(frozen=True)
class Held:
    """A part of parameter `name` of the whole model.

    shape   of the whole parameter
    dim     dimension along which it is cut
    runs    what is kept of it; all: ((0, size),). What reaches past the size is padding
    copies  ranks of the model's mesh, data parallelism apart, that hold these same numbers
    """

    name: str
    shape: tuple[int, ...]
    dim: int = 0
    runs: Runs = ()
    copies: int = 1

    @property
    def whole(self) -> bool:
        """Whether nothing is cut away."""
        return self.runs == ((0, self.shape[self.dim]),)

    @property
    def kept(self) -> list[int]:
        """The indices along `dim` that are kept, without padding."""
        size = self.shape[self.dim]
        return [i for first, end in self.runs for i in range(first, min(end, size))]

    @property
    def padded(self) -> int:
        """Length of the part along `dim`, with padding."""
        return sum(end - first for first, end in self.runs)


def label(model: nn.Module) -> nn.Module:
    """Write on each parameter of a whole model which one it is."""
    for name, parameter in model.named_parameters():
        shape = tuple(parameter.shape)
        parameter.held = Held(name, shape, 0, ((0, shape[0]),))
    return model


def cut(parameter: nn.Parameter, dim: int, runs: Sequence[tuple[int, int]]) -> nn.Parameter:
    """The part of a labelled, whole parameter, its own memory; padding is zeros."""
    held = replace(parameter.held, dim=dim, runs=tuple(tuple(run) for run in runs))
    kept = torch.tensor(held.kept, dtype=torch.long, device="cpu")
    if parameter.is_meta:
        shape = list(parameter.shape)
        shape[dim] = held.padded
        part = parameter.new_empty(shape)
    else:
        part = parameter.detach().index_select(dim, kept.to(parameter.device))
        missing = held.padded - len(kept)
        if missing:
            shape = list(part.shape)
            shape[dim] = missing
            part = torch.cat([part, part.new_zeros(shape)], dim)
    made = nn.Parameter(part.contiguous())
    made.held = held
    return made


def copied(parameter: nn.Parameter, times: int) -> None:
    """Note that `times` ranks hold what this one held alone so far."""
    parameter.held = replace(parameter.held, copies=parameter.held.copies * times)
