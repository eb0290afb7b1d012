"""The check of regime: the lesson's colours, each for each of its reasons."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from labs import judging_alone as pure
from labs.exercise import Verdict
from labs.judging_alone import Asked, Made, of_sizes
from labs.planner.lesson import COLOURS, Ask, View, view
from labs.ranks.ship import Source

PROPERTIES = COLOURS


def seen(per_node: int, layout: dict, batch: int) -> View:
    """The lesson's view, of a model so small that its state fits, with a layer a stage."""
    dp, pp, tp = layout["dp"], layout["pp"], layout["tp"]
    return view(Ask(dp * pp * tp, per_node, 1.0, pp, dp, pp, tp, batch, layout["mbs"]))


def asked_cases(seed: int) -> list[Asked]:
    """(per_node, layout, batch), of every colour."""
    draw = random.Random(seed)

    def at(dp: int, pp: int, tp: int, mbs: int = 1) -> dict[str, int]:
        return dict(dp=dp, pp=pp, tp=tp, mbs=mbs)

    cases = [
        (8, at(2, 4, 8), 512), (8, at(4, 1, 16), 512), (8, at(4, 1, 8), 4), (4, at(4, 2, 8), 512),
        (72, at(1, 1, 64), 64), (72, at(1, 1, 72), 64), (8, at(1, 8, 3), 512),
        (8, at(2, 4, 6), 512), (8, at(8, 8, 1), 32), (8, at(4, 4, 4), 64), (8, at(4, 4, 4), 48),
        (8, at(4, 4, 4, 2), 64),
        (8, at(1, 2, 8), 4), (8, at(1, 2, 8), 3), (8, at(1, 16, 4), 60), (8, at(1, 16, 4), 59),
        (8, at(2, 8, 8), 8), (8, at(64, 1, 1), 64), (1, at(8, 1, 1), 8), (1, at(4, 1, 2), 8),
        (8, at(2, 8, 16), 8),
    ]  # fmt: skip
    for _ in range(12):
        choices = ((1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8, 16), (1, 2))
        layout = at(*map(draw.choice, choices))
        batch = layout["dp"] * layout["mbs"] * draw.randrange(1, 65)
        cases.append((draw.choice((4, 8, 16)), layout, batch))
    return [(f"{n} a node, {of_sizes(at_)}, batch {b}", (n, at_, b)) for n, at_, b in cases]


def plain(value: object) -> object:
    """The word, or what type came back."""
    return value if isinstance(value, str) else type(value).__name__


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """regime."""
    return pure.judge(function, asked_cases(seed), plain, PROPERTIES, judged)


def judged(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the words that came back."""
    passed = {
        "green": "tp inside a node and a small bubble", "amber": "for each of three reasons",
        "red": "tp over the node's edge, whatever else there is",
    }  # fmt: skip
    return pure.first_faults(PROPERTIES, passed, asked, made, _wrong, output)


def _wrong(args: tuple, got: object) -> tuple[str, str, str] | None:
    want = seen(*args)
    if got == want.regime:
        return None
    if got == "NoneType":
        return want.regime, "got nothing", "the function ends without a `return`, somewhere"
    if got not in COLOURS:
        return want.regime, f"got {got!r}", f"one of {', '.join(map(repr, COLOURS))} is asked for"
    told = f"got {got!r}, expected {want.regime!r}"
    return want.regime, told, "; ".join(_why(want, str(got)))


def _why(want: View, got: str) -> list[str]:
    """What speaks for the right colour, and what was taken for something else."""
    ask, m = want.ask, want.m
    told = [] if want.regime == "green" else [want.reasons[0]]
    if got == "red":
        told.append(f"tp = {ask.tp} fits into a node's {ask.per_node} GPUs, so it is not red")
    elif want.regime == "green":
        told.append(
            f"m = {m} is not fewer than pp = {ask.pp}, and the bubble is {ask.pp - 1} of "
            f"{m + ask.pp - 1} parts of the whole time, {want.bubble_batch:.1%}, no more than a "
            "fifth"
        )
    elif want.regime == "amber":
        told.append(f"m = {ask.batch}/(dp {ask.dp}·mbs {ask.mbs}) = {m}")
    return told
