"""Hidden cases of functions that need no other rank: further points, from other ranges."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from labs import judging_alone
from labs.exercise import Verdict
from labs.grading.hidden import Hidden
from labs.judging import judge_formula
from labs.judging_alone import Asked, Judged
from labs.ranks.ship import Source


def formula(
    label: str, right: Callable[..., float], points: Callable[[random.Random], list[tuple]],
    *, smallest: float = 1.0, whole: bool = False,
) -> Hidden:  # fmt: skip
    """A formula at points that are drawn; smallest, whole: as for `judge_formula`."""

    def judge(function: Callable | Source, seed: int) -> list[Verdict]:
        return judge_formula(
            function, points(random.Random(seed)), right, lambda *point: "", smallest=smallest,
            whole=whole,
        )  # fmt: skip

    return Hidden(label, judge)


def alone(
    label: str, asked: Callable[[random.Random], Sequence[Asked]], plain: Callable,
    properties: Sequence[str], judged: Judged,
) -> Hidden:  # fmt: skip
    """Questions to a function in a process of its own, as labs/judging_alone.py asks them."""

    def judge(function: Callable | Source, seed: int) -> list[Verdict]:
        drawn = asked(random.Random(seed))
        return judging_alone.judge(function, drawn, plain, properties, judged)

    return Hidden(label, judge)
