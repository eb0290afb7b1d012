"""The check of state_bytes: every ZeRO stage, in both kinds, against the course's formula."""

from __future__ import annotations

import random
from collections.abc import Callable

from labs.exercise import Verdict
from labs.formulas.zero import state_bytes
from labs.judging import judge_formula
from labs.ranks.ship import Source


def points(seed: int) -> list[tuple]:
    """(parameters, n, zero, mixed): every stage in both kinds, and drawn ones; n = 1, 3 too.

    The last leaves `mixed` out, which is True by default.
    """
    draw = random.Random(seed)
    found = [(7_500_000_000, 64, zero, True) for zero in (0, 1, 2, 3)]
    found += [(1000, 8, zero, False) for zero in (0, 1, 2, 3)]
    found += [(1000, 1, 3, True), (1000, 3, 1, True), (1001, 3, 2, False)]
    for zero in (1, 2, 3):
        found += [
            (draw.randrange(10**3, 10**7), draw.randrange(2, 33), zero, mixed)
            for mixed in (True, False)
        ]
    return [*found, (1000, 8, 1)]


def inputs(parameters: int, n: int, zero: int, mixed: bool | None = None) -> str:
    """A point in words."""
    kind = {None: "mixed not told", True: "bf16 and fp32", False: "fp32 alone"}[mixed]
    return f"{parameters:,} parameters, n = {n}, ZeRO-{zero}, {kind}"


def hint(point: tuple, got: float) -> str:
    """What a wrong number of bytes probably forgot."""
    if len(point) < 4:
        return "weights and gradients are bf16 by default: mixed=True"
    p, n, zero, mixed = point
    right = state_bytes(*point)
    weights, grads, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    slips = [
        (state_bytes(p, n, zero, not mixed), "mixed was taken for its opposite, or not looked at"),
        (16 * p, "nothing is shared out here: from ZeRO-1 on the optimizer's state is divided by "
         "n, from ZeRO-2 on gradients, under ZeRO-3 weights"),
        (16 * p / n, "everything is divided by n here: ZeRO-1 shares out the optimizer's state "
         "alone, ZeRO-2 gradients as well, ZeRO-3 weights as well"),
        (right * n, "that is what all n ranks hold together"),
        (right / p, "that is bytes a parameter"),
        (p * (_share(n, zero >= 1) * weights + _share(n, zero >= 2) * grads
              + _share(n, zero >= 3) * optimizer),
         "the optimizer's state is shared out first, by ZeRO-1: it is the largest part"),
        (p * (weights + grads + _share(n, zero >= 1) * optimizer), "from ZeRO-2 on gradients are "
         "shared out as well, and under ZeRO-3 weights"),
    ]  # fmt: skip
    master = _shared(p, n, zero >= 1, 4)
    if mixed:
        slips += [
            (right - master, "the fp32 master copy is missing: it is part of the optimizer's "
             "state, 4 bytes beside 8 of m and v"),
            (right + _shared(p, n, zero >= 2, 2), "fp32 gradients beside bf16 weights make 18 "
             "bytes a parameter, which others count; here gradients are bf16, 2 bytes"),
        ]  # fmt: skip
    else:
        slips.append((right + master, "without bf16 weights there is no master copy: m and v"))
    for zeros in {zero - 1, zero + 1} & {0, 1, 2, 3}:
        slips.append((state_bytes(p, n, zeros, mixed), f"that is ZeRO-{zeros}, not ZeRO-{zero}"))
    near = (why for slip, why in slips if slip != right and abs(got - slip) <= 1e-9 * abs(slip))
    return next(near, "")


def _share(n: int, shared: bool) -> float:
    return 1 / n if shared else 1


def _shared(parameters: int, n: int, shared: bool, each: int) -> float:
    return parameters * each * _share(n, shared)


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """state_bytes."""
    return judge_formula(function, points(seed), state_bytes, inputs, "bytes", hint=hint)
