"""What a rank's memory grows by in a sharded optimizer step, seen from outside.

Weights of 10 MiB, of which each of five ranks updates 2: whoever makes all of them anew, or
collects everybody's gradients, grows by that much more. Memory counts from when inputs are there:
each rank draws its own, from seeds of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from labs import ranks
from labs.exercise import FAILED, PASSED, Verdict
from labs.mesh_3d.judging import judge_step, rounds
from labs.ranks.ship import Source
from labs.ranks_and_collectives.trial import own_seed
from labs.seeds import mixed
from labs.staying import must_return

_RANKS = 5
_SHARE = 2**18
SECTION = "outside"


def drawn(seed: int) -> torch.Tensor:
    """All weights, or a rank's gradients."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(_RANKS * _SHARE, generator=draw, dtype=torch.float64)


def on_rank(
    function: Callable, factor: float, seeds: tuple[int, int], counted: ranks.Handed
) -> torch.Tensor:
    """On a rank: one step with an update in place. Returns the new weights."""
    weights, grads = map(drawn, seeds)

    def update(share: torch.Tensor, grad: torch.Tensor) -> None:
        with torch.no_grad():
            share.add_(grad, alpha=factor)

    counted.get()
    with ranks.section(SECTION), must_return():
        function(weights, grads, update)
    return weights


def judge_large(function: Callable | Source, seed: int) -> list[Verdict]:
    """One verdict: whether weights are right. The memory is held to the case's bound besides."""
    seeds = [(own_seed(seed, _RANKS), own_seed(seed, rank)) for rank in range(_RANKS)]
    draws = [random.Random(mixed(seed, rank, 1)) for rank in range(_RANKS)]
    factors = [-draw.uniform(0.1, 0.9) for draw in draws]
    args = (function, ranks.PerRank(factors), ranks.PerRank(seeds),
            ranks.Later([None] * _RANKS, "run"))  # fmt: skip
    try:
        run = ranks.launch(on_rank, _RANKS, args=args, limit=rounds.LIMIT, status=False)
    except ranks.RunFailed:
        return [Verdict(judge_step.MEMORY, FAILED)]
    total = sum(drawn(own) for _, own in seeds)
    pairs = zip(drawn(seeds[0][0]).chunk(_RANKS), total.chunk(_RANKS), factors, strict=True)
    want = torch.cat([share + factor * grad for share, grad, factor in pairs])
    right = all(
        got.shape == want.shape and torch.allclose(got, want, rtol=0, atol=1e-11)
        for got in run.values
    )
    return [Verdict(judge_step.MEMORY, PASSED if right else FAILED)]
