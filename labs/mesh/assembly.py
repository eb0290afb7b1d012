"""Whole tensors from what many ranks hold: each number found, counted, and its copies compared.

A rank holds a part of a parameter (labs/mesh/held.py); under ZeRO, of that part only a run: its
share is cut without regard to parameters. Pure tensors: no process group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch

from labs.mesh.held import Held


@dataclass(frozen=True)
class Run:
    """`values` (n,): numbers [first, first + n) of a part, flattened."""

    held: Held
    first: int
    values: torch.Tensor


def whole_part(held: Held, part: torch.Tensor) -> Run:
    """All of a part, as one run."""
    return Run(held, 0, part.detach().flatten())


def pack(runs: Iterable[Run]) -> dict:
    """Plain data for a rank's report, with one tensor for all values."""
    runs = list(runs)
    told = [(*_told(run.held), run.first, run.values.numel()) for run in runs]
    values = torch.cat([run.values.detach().flatten() for run in runs]) if runs else torch.empty(0)
    return dict(runs=told, values=values)


def unpack(told: Mapping) -> list[Run]:
    """What `pack` was given."""
    found, at = [], 0
    for *held, first, size in told["runs"]:
        found.append(Run(Held(*held), first, told["values"][at : at + size]))
        at += size
    return found


def _told(held: Held) -> tuple:
    return held.name, held.shape, held.dim, held.runs, held.copies


def places(held: Held) -> torch.Tensor:
    """Where each number of a part stands in the whole parameter, both flattened; padding is -1."""
    size = torch.Size(held.shape).numel()
    kept = torch.tensor(held.kept, dtype=torch.long)
    found = torch.arange(size).view(held.shape).index_select(held.dim, kept)
    if held.padded > len(kept):
        shape = list(found.shape)
        shape[held.dim] = held.padded - len(kept)
        found = torch.cat([found, found.new_full(shape, -1)], held.dim)
    return found.flatten()


@dataclass
class Whole:
    """tensors by name; and what is wrong with them.

    missing      parameters of which nobody holds some number
    miscounted   those of which more, or fewer, ranks hold a number than say so
    apart        by name: the largest difference between two copies; inf where one is no number
    padding      the largest number that stands where zeros should
    """

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    miscounted: list[str] = field(default_factory=list)
    apart: dict[str, float] = field(default_factory=dict)
    padding: float = 0.0

    @property
    def worst(self) -> tuple[str, float]:
        """The parameter whose copies are farthest apart, and by how much."""
        return max(self.apart.items(), key=lambda pair: pair[1], default=("", 0.0))


def assemble(runs: Iterable[Run], copies: int = 1) -> Whole:
    """The whole tensors of many ranks' runs.

    copies: ranks with the same numbers besides those of which `held.copies` tells: of a replica's
    weights those along dp; of gradients that are shared out there is one.
    """
    runs = list(runs)
    shapes = {run.held.name: torch.Size(run.held.shape) for run in runs}
    if not shapes:
        return Whole()
    # All parameters end to end in one tensor: where each begins, and whose each number is.
    sizes = [shape.numel() for shape in shapes.values()]
    starts = dict(zip(shapes, [0, *itertools.accumulate(sizes)], strict=False))
    owner = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    at, known = [], {}
    for run in runs:
        held = run.held
        key = (held.name, held.dim, held.runs)
        if key not in known:
            stands = places(held)
            known[key] = torch.where(stands < 0, -1, stands + starts[held.name])
        at.append(known[key][run.first : run.first + run.values.numel()])
    place, values = torch.cat(at), torch.cat([run.values.flatten() for run in runs])
    padding, values, place = values[place < 0], values[place >= 0], place[place >= 0]
    tensor = values.new_zeros(sum(sizes)).index_put_((place,), values)
    times = torch.bincount(place, minlength=len(tensor))
    gap = (tensor[place] - values).abs().double().nan_to_num(torch.inf, torch.inf)
    apart = torch.zeros(len(sizes), dtype=torch.float64)
    apart.scatter_reduce_(0, owner[place], gap, "amax")
    says: dict[str, set[int]] = {}
    for run in runs:
        says.setdefault(run.held.name, set()).add(run.held.copies * copies)
    found = Whole(apart=dict(zip(shapes, apart.tolist(), strict=True)), padding=_size(padding))
    for (name, shape), part, seen in zip(
        shapes.items(), tensor.split(sizes), times.split(sizes), strict=True
    ):
        found.tensors[name] = part.view(shape)
        least, most = (int(n) for n in seen.aminmax())
        found.missing += [name] if not least else []
        found.miscounted += [name] if says[name] != {least} or least != most else []
    return found


def _size(values: torch.Tensor) -> float:
    """The largest size of a number; inf where one is no number."""
    if not values.numel():
        return 0.0
    return values.abs().nan_to_num(torch.inf, torch.inf).max().item()
