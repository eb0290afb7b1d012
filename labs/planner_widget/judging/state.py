"""The check of state_bytes_per_gpu: every ZeRO stage, axes of 1 and odd ones."""

from __future__ import annotations

import random
from collections.abc import Callable

from labs import formulas
from labs.exercise import Verdict
from labs.judging import judge_formula
from labs.ranks.ship import Source


def expected(parameters: float, dp: int, pp: int, tp: int, zero: int) -> float:
    """Bytes a GPU: ZeRO over dp of the N/(pp·tp) parameters that a rank has."""
    return formulas.state_bytes(parameters / (pp * tp), dp, zero)


def points(seed: int) -> list[tuple]:
    """(parameters, dp, pp, tp, zero)."""
    draw = random.Random(seed)
    found = [(70e9, 2, 4, 8, zero) for zero in range(4)]
    found += [(70e9, 8, 1, 8, 3), (7e9, 1, 1, 1, 0), (7e9, 1, 2, 4, 3), (1e9, 64, 1, 1, 1)]
    found += [
        (draw.randrange(10**9, 10**12), draw.randrange(2, 33), draw.randrange(2, 9),
         draw.choice((2, 3, 4, 8)), zero)
        for zero in range(4)
    ]  # fmt: skip
    return found


def inputs(parameters: float, dp: int, pp: int, tp: int, zero: int) -> str:
    """A point in words."""
    return f"{parameters:,.0f} parameters, dp={dp} pp={pp} tp={tp}, ZeRO-{zero}"


def hint(point: tuple, got: float) -> str:
    """What a wrong number of bytes probably forgot."""
    parameters, dp, pp, tp, zero = point
    right = expected(*point)
    own = parameters / (pp * tp)
    slips = [
        (16 * parameters / (dp * pp * tp), "all of it is divided by dp here, as ZeRO-3 does: "
         f"ZeRO-{zero} leaves some of it whole on every replica"),
        (16 * own, "dp shares nothing here: from ZeRO-1 on it shares out the optimizer's part"),
        (formulas.state_bytes(parameters, dp, zero), "pp and tp are missing: a rank has N/(pp·tp) "
         "parameters before ZeRO comes in"),
        (formulas.state_bytes(parameters / tp, dp, zero), "pp is missing: a stage has the layers "
         "of one of pp parts"),
        (formulas.state_bytes(parameters / pp, dp, zero), "tp is missing: a rank has one of tp "
         "parts of each matrix"),
        *_other_stages(own, dp, zero),
        *_not_added_up(own, dp, zero),
        (formulas.state_bytes(own, dp, zero, mixed=False), "that is the table of fp32 alone: here "
         "2 of weights, 2 of gradients, 12 of optimizer"),
        (right * dp * pp * tp, "that is what all GPUs hold together"),
        (right / parameters, "that is bytes a parameter"),
        (right / 1e9, "that is in GB: bytes are asked for"),
        (right / 2**30, "that is in GiB: bytes are asked for"),
        (formulas.state_bytes(parameters / (pp + tp), dp, zero), "pp and tp multiply: a rank has "
         "N/(pp·tp) parameters"),
        (right + 2 * own / (dp if zero >= 2 else 1), "gradients cost 2 bytes here, not 4"),
        (right - 4 * own / (dp if zero >= 1 else 1), "the fp32 master copy is missing: optimizer "
         "is 12 bytes, master, m and v"),
    ]  # fmt: skip
    near = (why for slip, why in slips if slip != right and abs(got - slip) <= 1e-9 * abs(slip))
    return next(near, "")


def _not_added_up(own: float, dp: int, zero: int) -> list[tuple[float, str]]:
    """Each stage shares out what the one before does, and more: here only what it adds."""
    why = f"stage {zero} shares out what the stages before it do, too"
    return [(own * (14 + 2 / dp), why)] if zero >= 2 else []


def _other_stages(own: float, dp: int, zero: int) -> list[tuple[float, str]]:
    return [
        (formulas.state_bytes(own, dp, other), f"that is ZeRO-{other}, not {zero}")
        for other in range(4)
        if other != zero
    ]


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """state_bytes_per_gpu."""
    return judge_formula(function, points(seed), expected, inputs, "bytes", hint=hint)
