"""Inputs that can be cut and inputs that cannot, mixed: a rank is not told which are to be refused.

In the public cases they are set apart, so an answer could report refusals that never happened. Here
the judge holds each outcome against what the numbers say.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from labs import ranks
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import broke
from labs.ranks.ship import Source
from labs.tp_linear_pair.properties import REFUSAL
from labs.tp_linear_pair.sharding import fused_columns
from labs.tp_linear_pair.trial import LIMIT

_TRIES, _PARTS = 12, 3


def on_rank(function: Callable, asked: ranks.Handed) -> list[torch.Tensor | str]:
    """On a rank: what became of each input: a tensor, or the error's name."""
    return [_outcome(function, given) for given in asked.get()]


def _outcome(function: Callable, given: dict) -> torch.Tensor | str:
    try:
        out = function(*given.values())
    except Exception as error:
        return type(error).__name__
    return out.detach().clone() if isinstance(out, torch.Tensor) else type(out).__name__


def inputs(draw: torch.Generator) -> list[dict]:
    """Arguments of cut_fused; about half of them cannot be cut."""
    return [_one(draw) for _ in range(_TRIES)]


def _one(draw: torch.Generator) -> dict:
    def number(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=draw))

    of = number(2, 6)
    widths = [of * number(1, 4) for _ in range(_PARTS)]
    if number(0, 2):  # the sum still divides: what is looked at must be the parts
        widths[0], widths[1] = widths[0] + 1, widths[1] + of - 1
    w = torch.randn(2, sum(widths), generator=draw, dtype=torch.float64)
    return dict(w=w, widths=widths, rank=number(0, of), ranks=of)


def right(given: dict, made: torch.Tensor | str) -> bool:
    """Whether an outcome is the one that the numbers ask for."""
    if any(width % given["ranks"] for width in given["widths"]):
        return made == "ValueError" if isinstance(made, str) else False
    columns = fused_columns(given["widths"], given["rank"], given["ranks"])
    return isinstance(made, torch.Tensor) and torch.equal(made, given["w"][:, columns])


def judge_refusals(function: Source, seed: int) -> list[Verdict]:
    """One verdict, of two ranks with inputs of their own."""
    draw = torch.Generator().manual_seed(seed)
    asked = [inputs(draw) for _ in range(2)]
    try:
        run = ranks.launch(
            on_rank, 2, args=(function, ranks.Later(asked, "forward")), limit=LIMIT, status=False
        )
    except ranks.RunFailed as failed:
        return broke((REFUSAL,), failed)
    holds = all(
        len(made) == _TRIES and all(map(right, given, made))
        for given, made in zip(asked, run.values, strict=True)
    )  # fmt: skip
    return [Verdict(REFUSAL, PASSED if holds else FAILED)]
