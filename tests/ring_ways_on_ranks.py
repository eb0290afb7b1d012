"""On ranks: attention by all-to-all and by torch's ring, as they are and with one fault."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.distributed as dist

import solutions.ring_attention as answers
from labs.context_parallel import places
from labs.context_parallel.attention import ring_attention
from labs.context_parallel.jobs import Job
from labs.context_parallel.on_rank import on_rank
from labs.context_parallel.ulysses import ulysses_attention
from tests.mutants.mutant import changed

PARTS = {
    name: getattr(answers, name) for name in ("ring_forward", "ring_backward", "zigzag_positions")
}

Changes = tuple[tuple[str, str], ...]
"""Places of a module's text, old and new."""


def with_fault(
    module: str, faults: Mapping[str, Changes], jobs: Sequence[Job]
) -> dict[str, list[dict | None]]:
    """The reports of all jobs under each fault of labs.ring_attention.`module`."""
    name = f"labs.context_parallel.{module}"
    right = importlib.import_module(name)
    text = Path(right.__file__).read_text(encoding="utf-8")
    found = {}
    for fault, changes in faults.items():
        wrong = types.ModuleType(name)
        wrong.__file__ = right.__file__
        sys.modules[name] = wrong  # where labs.context_parallel.on_rank finds it
        try:
            exec(compile(changed(text, *changes), f"<{fault}>", "exec"), wrong.__dict__)
            renamed = [_renamed(job, fault) for job in jobs]
            found[fault] = on_rank(PARTS, renamed)
        finally:
            sys.modules[name] = right
    return found


def _renamed(job: Job, fault: str) -> Job:
    """The job booked under its fault."""
    return Job(**{**job.__dict__, "name": f"{fault}: {job.name}"})


def unseeing_queries(all_of_them: bool) -> dict[str, float]:
    """Largest differences between all-to-all and ring where queries see no key; and out there.

    The first two queries of each rank, or all, see nothing. The ring is told of this rank's queries
    only, the all-to-all of all ranks'.
    """
    rank, c = dist.get_rank(), dist.get_world_size()
    held = places.plain(c, 8 * c)
    queries = held.clone()
    queries[:, : None if all_of_them else 2] = -1
    draw = torch.Generator().manual_seed(rank)
    given = [torch.randn(1, 2 * c, 8, 4, generator=draw, dtype=torch.float64) for _ in range(4)]
    tensors = []
    for call in (
        lambda *x: ring_attention(*x, queries[rank], held, PARTS, "tiled"),
        lambda *x: ulysses_attention(*x, queries, held, "tiled"),
    ):
        leaves = [x.clone().requires_grad_() for x in given[:3]]
        out = call(*leaves)
        out.backward(given[3])
        tensors.append([out.detach(), *(leaf.grad for leaf in leaves)])
    names = ("out", "q", "k", "v")
    far = {name: (a - b).abs().max().item() for name, a, b in zip(names, *tensors, strict=True)}
    unseeing = queries[rank] < 0
    return far | {"there": tensors[1][0][:, :, unseeing].abs().max().item()}
