"""Hidden cases of notebook 00: five and six ranks, partners that are drawn, odd shapes."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from labs import formulas
from labs.exercise import Verdict
from labs.grading.hidden import Hidden
from labs.grading.hidden.points import formula
from labs.ranks.ship import Source
from labs.ranks_and_collectives.exercises import judge_on_cases
from labs.ranks_and_collectives.trial import Case, Try

_SMALL = (Try((7,), torch.float64), Try((3, 1, 5), torch.int64), Try((1,), torch.float32))
_WIRE = Try((128, 257), torch.float64)
"""263 kB: what a gather of all tensors sends besides is far more than any head of a message."""


def _pairs(ranks: int, draw: random.Random) -> tuple[int, ...]:
    """A partner for each rank."""
    order = draw.sample(range(ranks), ranks)
    found = [0] * ranks
    for a, b in zip(order[::2], order[1::2], strict=True):
        found[a], found[b] = b, a
    return tuple(found)


def _exchange(function: Callable | Source, seed: int) -> list[Verdict]:
    partners = _pairs(6, random.Random(seed))
    return judge_on_cases(function, [Case(6, (*_SMALL, _WIRE), seed, partners, partners)])


def _ring(function: Callable | Source, seed: int) -> list[Verdict]:
    from_left = tuple((rank - 1) % 5 for rank in range(5))
    return judge_on_cases(function, [Case(5, (*_SMALL, _WIRE), seed, from_left)])


def _worlds(draw: random.Random) -> list[tuple]:
    worlds = [draw.randrange(65, 2049) for _ in range(4)] + [128, 1024, 5, 7]
    return [(t, draw.uniform(1e-7, 1e-3), draw.uniform(1e-12, 1e-8)) for t in worlds]


CASES: dict[str, list[Hidden]] = {
    "ring_pays_from": [formula("larger worlds", formulas.ring_pays_from, _worlds)],
    "exchange": [Hidden("6 ranks", _exchange)],
    "ring_shift": [Hidden("5 ranks", _ring)],
}
