"""What the ranks computed together, put back in place and held against one device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from labs import equality
from labs.context_parallel.jobs import Job
from labs.equality import Gap
from labs.ranks.run import Run
from labs.result import Check, at_most
from labs.ring_attention.bf16 import bf16_bounds
from labs.ring_attention.one_device import one_device

TENSORS = {"out": "out", "q": "dq", "k": "dk", "v": "dv"}
_SHORT = {torch.float64: "fp64", torch.float32: "fp32", torch.bfloat16: "bf16"}


@dataclass(frozen=True)
class Held:
    """One job's four tensors against one device, and the largest number of the model."""

    job: Job
    gaps: tuple[Gap, ...]  # out, dq, dk, dv
    scale: float

    @property
    def worst(self) -> Gap:
        """The one that uses most of its bound."""
        return max(self.gaps, key=lambda gap: gap.used)

    @property
    def error(self) -> float:
        """The largest difference, as a part of the largest number. Not a number is the largest."""
        found = [gap.difference for gap in self.gaps]
        return next(filter(math.isnan, found), max(found)) / self.scale

    @property
    def told(self) -> str:
        """Each of the four: equal within its bound, or off by how much."""
        return "   ".join(
            f"{gap.name} equal ({gap.difference:.1e})"
            if gap.ok
            else f"{gap.name} OFF by {gap.difference:.1g}"
            for gap in self.gaps
        )

    def __str__(self) -> str:
        return f"{self.job.name}: {self.worst.name}"


def short(dtype: torch.dtype) -> str:
    """fp64, fp32, bf16."""
    return _SHORT.get(dtype, str(dtype))


def assemble(job: Job, by_rank: Sequence[dict | None], held: torch.Tensor) -> dict:
    """The ranks' tensors in the order of the sequence. held: (c, T/c), the places of each member.

    by_rank: reports of the world's ranks. Raises ValueError unless each place is held once.
    """
    order = held.flatten().argsort()
    if not torch.equal(held.flatten()[order], torch.arange(job.length)):
        raise ValueError(f"{job.name}: the ranks together do not hold each token once")
    told = [by_rank[rank] for rank in job.members]
    return {name: torch.cat([one[name] for one in told], dim=2)[:, :, order] for name in TENSORS}


class Wholes:
    """Jobs on one device, each computed once: many jobs differ in how they are cut only."""

    def __init__(self) -> None:
        self._known: dict[tuple, dict[str, torch.Tensor]] = {}

    def of(self, job: Job) -> dict[str, torch.Tensor]:
        key = (job.batch, job.length, job.heads, job.kv_heads, job.head_dim, job.dtype, job.mask,
               job.seed)  # fmt: skip
        if key not in self._known:
            self._known[key] = one_device(job)
        return self._known[key]


def hold(job: Job, number: int, run: Run, parts: Mapping, wholes: Wholes) -> Held:
    """Job of that number in a run against one device, in the sense of labs/equality.py."""
    whole = wholes.of(job)
    got = assemble(job, [value[number] for value in run.values], job.key_places(parts))
    scale = max(tensor.abs().max().item() for tensor in whole.values())
    if job.dtype == torch.bfloat16:
        bounds = bf16_bounds(job, whole)
        found = [
            equality.gap_by_place(told, got[name].double(), whole[name], bounds[name], 1.0)
            for name, told in TENSORS.items()
        ]
    else:
        eps = equality.EPS[job.dtype]
        largest = max(whole[name].abs().max().item() for name in "qkv")
        found = [
            equality.gap(told, got[name].double(), whole[name], largest, eps)
            for name, told in TENSORS.items()
        ]
    return Held(job, tuple(found), scale)


def checks(held: Sequence[Held], what: str, source: str = "SDPA on one device") -> list[Check]:
    """One check for each number of ranks and type: the worst of all that were held."""
    found = []
    for c, dtype in dict.fromkeys((one.job.ranks, one.job.dtype) for one in held):
        alike = [one for one in held if (one.job.ranks, one.job.dtype) == (c, dtype)]
        worst = max(alike, key=lambda one: one.worst.used)
        times = f"{len(alike)} × " if len(alike) > 1 else ""
        found.append(
            at_most(f"{what}, c={c}, {short(dtype)}: {times}out, dq, dk, dv (worst: {worst})",
                    worst.worst.difference, worst.worst.bound, "", source)
        )  # fmt: skip
    return found


def growth(held: Sequence[Held], what: str) -> list[Check]:
    """The error on most ranks is at most twice that on one."""
    errors = {one.job.ranks: one.error for one in sorted(held, key=lambda one: one.job.ranks)}
    if len(errors) < 2 or 1 not in errors:
        return []
    most = max(errors)
    return [at_most(f"{what}: error at c={most}", errors[most], 2 * errors[1],
                    "of the largest number", "2 × the error at c=1")]  # fmt: skip
