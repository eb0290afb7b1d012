"""The exercises of notebook 02: what is asked, how it is checked, the hint ladder."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from labs import formulas
from labs.bubble_math import judge_slots
from labs.exercise import Exercise, Verdict
from labs.judging import FORMULA, judge_formula
from labs.ranks.ship import Source

TOPIC = "bubble_math"
_LESSON = ((4, 4), (4, 32), (4, 64), (8, 32), (1, 5), (16, 3), (2, 7), (3, 1))


def _sizes(seed: int) -> list[tuple[int, int]]:
    """(p, m): the lesson's, and drawn ones, of them one with m < p and one with m = 1."""
    draw = random.Random(seed)
    drawn = [(draw.randrange(2, 65), draw.randrange(1, 1025)) for _ in range(4)]
    p = draw.randrange(5, 65)
    return [*_LESSON, *drawn, (p, draw.randrange(2, p)), (draw.randrange(4, 65), 1)]


def _told(p: int, m: int) -> str:
    return f"{p} {'rank' if p == 1 else 'ranks'}, {m} micro-batches"


def _judge_share(function: Callable | Source, seed: int) -> list[Verdict]:
    return judge_formula(
        function, _sizes(seed), formulas.bubble_share, _told, "of the total time",
        hint=_of_share, smallest=1e-3,
    )  # fmt: skip


def _of_share(point: tuple[int, int], value: float) -> str:
    p, m = point
    return _near(value, [
        ((p - 1) / m, "that is idle time over the time without idling; the share of the total time "
         "has the idle time below the line as well"),
        (p / (m + p), "p ranks have p-1 slots to fill and as many to drain"),
        (m / (m + p - 1), "that is the part in which a rank works; the bubble is the rest"),
        (2 * (p - 1) / (m + 2 * (p - 1)), "a rank waits in the fill or in the drain, p-1 slots in "
         "all, not p-1 in each"),
        (100 * (p - 1) / (m + p - 1), "a share is a number from 0 to 1, not per cent"),
    ])  # fmt: skip


def _near(value: float, slips: list[tuple[float, str]]) -> str:
    return next((hint for slip, hint in slips if abs(value - slip) <= 1e-9 * abs(slip)), "")


def _judge_micro_batches(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    asked = [(0.1, 4), (0.05, 8), (3 / 7, 4), (0.5, 2), (0.9, 2), (0.1, 1), (0.2, 3)]
    asked.append((6 / 11, 7))  # 6·(11/6 - 1) is 5, and a little more in floats
    asked += [(round(draw.uniform(0.02, 0.6), 3), draw.randrange(2, 33)) for _ in range(4)]

    def told(share: float, p: int) -> str:
        return f"a bubble of at most {share:.4g} on {p} {'rank' if p == 1 else 'ranks'}"

    return judge_formula(
        function, asked, formulas.micro_batches_for, told, "micro-batches",
        hint=_of_micro_batches, whole=True,
    )  # fmt: skip


def _of_micro_batches(point: tuple[float, int], value: float) -> str:
    share, p = point
    exact = (p - 1) * (1 / share - 1)
    if value == 0:
        return "at least one micro-batch is needed"
    return _near(value, [
        (exact, "micro-batches are whole: the next whole number that is enough"),
        (math.floor(exact), "rounded down, the bubble is larger than asked"),
        (math.floor(exact) + 1, "where the number is whole already it is enough; mind the rounding "
         "of floats there: 4.000000001 is 4"),
        (math.ceil((p - 1) / share - 1e-9), "that is for idle time over ideal time; the total time "
         "has m + p - 1 slots"),
    ])  # fmt: skip


def _judge_time(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    asked = [(8, 32, 1.0, 1.0), (4, 8, 10.0, 20.0), (1, 5, 3.0, 6.0)]
    asked += [
        (p, m, round(draw.uniform(1, 20), 2), round(draw.uniform(1, 40), 2))
        for p, m in _sizes(seed)[-6:]
    ]

    def told(p: int, m: int, f: float, b: float) -> str:
        return f"{_told(p, m)}, forward {f:g} ms, backward {b:g} ms"

    return judge_formula(function, asked, formulas.step_time, told, "ms", hint=_of_time)


def _of_time(point: tuple[int, int, float, float], value: float) -> str:
    p, m, f, b = point
    return _near(value, [
        ((m + p - 1) * f, "backward passes take their time too"),
        (m * (f + b), "that is the time of a rank's work; filling and draining comes on top"),
        ((m + p) * (f + b), "p ranks have p-1 slots to fill, not p"),
        (m * (f + b) + (p - 1) * f, "the backward passes fill and drain, too"),
        (m * (f + b) + (p - 1) * b, "the forward passes fill and drain, too"),
        ((m + p - 1) * f + m * b, "the backward passes fill and drain, too"),
        ((m + 2 * (p - 1)) * (f + b), "a forward and a backward pass together have p-1 slots of "
         "(f + b) to fill and drain"),
    ])  # fmt: skip


_ALL = (
    Exercise(
        "fill_and_drain", TOPIC, "graded",
        "Write down which rank works on which micro-batch in which slot.", 2, 10,
        ("Rank 0 starts micro-batch i in slot i. When can rank 1 start it?",
         "Micro-batch i is on rank s in slot i + s.",
         "Make a row of m + p - 1 times None for each rank, then put the numbers in."),
        judge_slots.PROPERTIES, judge_slots.judge,
    ),
    Exercise(
        "bubble_share", TOPIC, "practice", "Derive the bubble's share of the total time.", 1, 5,
        ("Count in your picture: how many slots are there in a row, how many are empty?",
         "Every row has m full slots and p - 1 empty ones."),
        (FORMULA,), _judge_share,
    ),
    Exercise(
        "micro_batches_for", TOPIC, "practice",
        "Say how many micro-batches keep the bubble small.", 2, 5,
        ("Solve (p-1)/(m+p-1) ≤ share for m.",
         "m ≥ (p-1)(1/share - 1), and m is a whole number, at least 1. A float that should be "
         "whole may be a little more: take 1e-9 off before you round up."),
        (FORMULA,), _judge_micro_batches,
    ),
    Exercise(
        "step_time", TOPIC, "practice", "Say how long a step takes.", 1, 5,
        ("A slot is a forward pass at first, and a backward pass later: how many of each pass one "
         "after the other?",
         "m + p - 1 slots of a forward pass, then as many of a backward pass."),
        (FORMULA,), _judge_time,
    ),
)  # fmt: skip
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
