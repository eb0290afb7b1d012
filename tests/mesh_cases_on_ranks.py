"""What the cases of tests/test_cases_mesh.py run on ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist

from labs.mesh import on_rank
from labs.mesh.config import Config
from labs.mesh.torch_native.on_rank import TORCH, ladder

Parts = Mapping[str, Callable]


def runs(todo: Mapping[str, tuple[Sequence[Config], Mapping]], parts: Parts, steps: int) -> dict:
    """By name: configurations, and the parts that take the place of the course's."""
    return {
        name: on_rank.on_rank(configs, {**parts, **mine}, steps)
        for name, (configs, mine) in todo.items()
    }


def sums_and_means(worlds: Sequence[int]) -> dict:
    """By ranks, call and operation: how many times the mean of all ranks' numbers each rank gets.

    Rank r hands in r + 1 everywhere.
    """
    found = {}
    for n in worlds:
        group = dist.new_group(range(n))
        rank = dist.get_rank()
        if rank >= n:
            continue
        mean = (n + 1) / 2
        for op in ("SUM", "AVG"):
            how = getattr(dist.ReduceOp, op)
            x = torch.full((4 * n,), rank + 1.0, dtype=torch.float64)
            share = torch.empty(4, dtype=torch.float64)
            dist.reduce_scatter_single(share, x, op=how, group=group)
            dist.all_reduce(x, op=how, group=group)
            found[n, "reduce_scatter", op] = (share / mean).tolist()
            found[n, "all_reduce", op] = (x / mean).tolist()
    return found


def four(
    todo: Mapping, by_torch: Sequence[Config], worlds: Sequence[int], parts: Parts, steps: int
) -> dict:
    """All of it in one launch; `by_torch`: what torch's own fully_shard trains."""
    return dict(
        runs=runs(todo, parts, steps),
        torch=ladder([(TORCH, config) for config in by_torch], parts, steps),
        gloo=sums_and_means(worlds),
    )
