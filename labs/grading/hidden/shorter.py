"""Regions whose tokens can be shared and regions whose tokens cannot, mixed, as in refusals.py.

In the public cases what is to be refused is set apart, so an answer could report refusals that
never happened.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from labs import ranks
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import as_asked, broke
from labs.ranks.ship import Source
from labs.sequence_parallel.exercise_case import region
from labs.staying import must_return
from labs.tp_linear_pair.properties import REFUSAL
from labs.tp_linear_pair.trial import LIMIT

_RANKS, _TRIES, _PER_RANK, _D = 3, 8, 2, 4


def on_rank(function: Callable, asked: ranks.Handed) -> list[torch.Tensor | str]:
    """On a rank: what became of each region: a tensor, or the error's name."""
    return [_outcome(function, **given) for given in asked.get()]


def _outcome(
    function: Callable, x_shard: torch.Tensor, w_in: torch.Tensor, w_out: torch.Tensor, less: int
) -> torch.Tensor | str:
    device = ranks.device()

    def shorter(whole: torch.Tensor) -> torch.Tensor:
        return region(whole, w_in.to(device), w_out.to(device))[:, : whole.shape[1] - less]

    with must_return():
        try:
            out = function(x_shard.to(device), shorter, None)
        except Exception as error:
            return type(error).__name__
    return out.detach().cpu().clone() if isinstance(out, torch.Tensor) else type(out).__name__


def inputs(draw: torch.Generator) -> list[list[dict]]:
    """By rank, then by question: half of the regions leave tokens out, in a drawn order."""
    found: list[list[dict]] = [[] for _ in range(_RANKS)]
    for number in torch.randperm(_TRIES, generator=draw).tolist():
        less = 1 + number // 2 % (_RANKS - 1) if number % 2 else 0
        for mine in found:
            x, w_in, w_out = (torch.randn(*shape, generator=draw, dtype=torch.float64)
                              for shape in ((1, _PER_RANK, _D), (_D, 3), (3, _D)))  # fmt: skip
            mine.append(dict(x_shard=x, w_in=w_in, w_out=w_out, less=less))
    return found


def right(given: list[dict], made: list[torch.Tensor | str]) -> bool:
    """Whether the outcomes of one question, by rank, are those that the numbers ask for."""
    if given[0]["less"]:
        return all(isinstance(one, str) and one == "ValueError" for one in made)
    whole = torch.cat([one["x_shard"] for one in given], 1)
    summed = sum(region(whole, one["w_in"], one["w_out"]) for one in given)
    return all(
        isinstance(one, torch.Tensor) and one.shape == want.shape and one.dtype == want.dtype
        and torch.allclose(one, want)
        for one, want in zip(made, summed.split(_PER_RANK, 1), strict=True)
    )  # fmt: skip


def judge_shorter(function: Source, seed: int) -> list[Verdict]:
    """One verdict, of three ranks."""
    asked = inputs(torch.Generator().manual_seed(seed))
    try:
        run = ranks.launch(
            on_rank, _RANKS, args=(function, ranks.Later(asked, "forward")), limit=LIMIT,
            status=False,
        )  # fmt: skip
    except ranks.RunFailed as failed:
        return broke((REFUSAL,), failed)
    told = [as_asked(value, mine) for value, mine in zip(run.values, asked, strict=True)]
    holds = all(map(right, zip(*asked, strict=True), zip(*told, strict=True)))
    return [Verdict(REFUSAL, PASSED if holds else FAILED)]
