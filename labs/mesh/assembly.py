"""Whole tensors from what many ranks hold: each number found, counted, and its copies compared.

A rank holds a part of a parameter (labs/mesh/held.py); under ZeRO, of that part only a run: its
share is cut without regard to parameters. Pure tensors: no process group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

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
    told = [(asdict(run.held), run.first, run.values.numel()) for run in runs]
    values = torch.cat([run.values.detach().flatten() for run in runs]) if runs else torch.empty(0)
    return dict(runs=told, values=values)


def unpack(told: Mapping) -> list[Run]:
    """What `pack` was given."""
    found, at = [], 0
    for held, first, size in told["runs"]:
        found.append(Run(Held(**held), first, told["values"][at : at + size]))
        at += size
    return found


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
    whole, known, shapes = Whole(), {}, {}
    times: dict[str, torch.Tensor] = {}
    says: dict[str, int] = {}
    for run in runs:
        held, name = run.held, run.held.name
        key = (name, held.dim, held.runs)
        if key not in known:
            known[key] = places(held)
        if name not in times:
            shapes[name] = torch.Size(held.shape)
            size = shapes[name].numel()
            whole.tensors[name] = run.values.new_zeros(size)
            times[name] = torch.zeros(size, dtype=torch.long)
            says[name], whole.apart[name] = held.copies * copies, 0.0
        at = known[key][run.first : run.first + run.values.numel()]
        real = at >= 0
        if not real.all():
            whole.padding = max(whole.padding, _size(run.values[~real]))
        at, values, tensor = at[real], run.values[real], whole.tensors[name]
        again = times[name][at] > 0
        apart = _size(tensor[at[again]] - values[again])
        whole.apart[name] = max(whole.apart[name], apart)
        tensor[at[~again]] = values[~again]
        times[name][at] += 1
        if held.copies * copies != says[name]:
            says[name] = -1  # ranks that contradict each other
    whole.missing = [name for name, seen in times.items() if not seen.all()]
    whole.miscounted = [name for name, seen in times.items() if not (seen == says[name]).all()]
    whole.tensors = {name: tensor.view(shapes[name]) for name, tensor in whole.tensors.items()}
    return whole


def _size(values: torch.Tensor) -> float:
    """The largest size of a number; inf where one is no number."""
    if not values.numel():
        return 0.0
    return values.abs().nan_to_num(torch.inf, torch.inf).max().item()
