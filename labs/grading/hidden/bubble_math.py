"""Hidden cases of notebook 02: more ranks, more micro-batches, other times."""

from __future__ import annotations

import random
from collections.abc import Callable

from labs import formulas
from labs.bubble_math.judge_slots import judge_on_sizes
from labs.exercise import Verdict
from labs.grading.hidden import Hidden
from labs.grading.hidden.points import formula
from labs.ranks.ship import Source


def _sizes(draw: random.Random) -> list[tuple[int, int]]:
    drawn = [(draw.randrange(65, 1025), draw.randrange(1, 20_000)) for _ in range(6)]
    return [*drawn, (1, draw.randrange(100, 999)), (draw.randrange(100, 999), 1), (2, 2)]


def _shares(draw: random.Random) -> list[tuple[float, int]]:
    drawn = [(draw.uniform(1e-4, 0.99), draw.randrange(33, 1025)) for _ in range(6)]
    exact = [((p - 1) / (m + p - 1), p) for p, m in ((9, 24), (33, 7), (17, 1))]
    return [*drawn, *exact, (draw.uniform(0.01, 0.5), 1)]


def _times(draw: random.Random) -> list[tuple]:
    return [(*one, draw.uniform(1e-3, 1e4), draw.uniform(1e-3, 1e4)) for one in _sizes(draw)]


def _slots(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    on_ranks = draw.randrange(4, 7), draw.randrange(2, 6)
    more = [(draw.randrange(12, 25), draw.randrange(1, 40)) for _ in range(4)]
    return judge_on_sizes(function, [on_ranks, (1, 1), *more], on_ranks)


CASES: dict[str, list[Hidden]] = {
    "fill_and_drain": [Hidden("other sizes", _slots)],
    "bubble_share": [formula("larger", formulas.bubble_share, _sizes, smallest=1e-3)],
    "micro_batches_for": [
        formula("larger", formulas.micro_batches_for, _shares, whole=True),
    ],
    "step_time": [formula("other times", formulas.step_time, _times)],
}
