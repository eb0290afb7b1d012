"""The check of global_grad_norm: its value, in every type and size, and the one number sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from labs import ranks
from labs.equality import EPS
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import broke, not_reached
from labs.mesh_3d.judging import hints_broken, hints_norm, norm, rounds
from labs.mesh_3d.judging.norm import Reference
from labs.mesh_3d.judging.rounds import Seen
from labs.ranks.ship import Source

VALUES, RANGE, TRAFFIC = "each number once", "types and sizes", "traffic"
PROPERTIES = (VALUES, RANGE, TRAFFIC)
_NUMBER = 8
"""Bytes of the one number that is sent: fp64, or less."""


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """global_grad_norm."""
    return judge_on_norms(function, norm.norms(seed))


def judge_on_norms(function: Callable | Source, asked: Sequence[norm.Norm]) -> list[Verdict]:
    """The same for these norms."""
    try:
        (seen,) = rounds.run_all([function], asked, norm.one)
    except ranks.RunFailed as failed:
        at = rounds.broken_at(failed, asked)
        return broke(PROPERTIES, failed, hints_broken.of_norm(failed, at), str(at or ""))
    except ValueError as refused:  # it cannot be sent to a rank
        return not_reached(PROPERTIES, Verdict(VALUES, FAILED, str(refused)))
    return judged(seen)


def judged(all_seen: Sequence[Seen]) -> list[Verdict]:
    """The verdicts on what came back; of each property the first failure."""
    passed = {
        VALUES: "copies once, on every rank the same, of every group its own; NaN where one is NaN",
        RANGE: "fp32 from 1e-30 to 1e20, bf16",
        TRAFFIC: "one all-reduce of one number",
    }
    told = {name: Verdict(name, PASSED, passed[name]) for name in PROPERTIES}
    output = ""
    for seen in all_seen:
        output = seen.output
        every = [Reference(seen.round, group) for group in range(len(seen.round.groups))]
        for wrong in (_value(seen, every), _traffic(seen)):
            if wrong and told[wrong.name].state == PASSED:
                told[wrong.name] = wrong
    return [replace(verdict, output=output) for verdict in told.values()]


def _where(seen: Seen, group: int, member: int) -> str:
    return f"{seen.round}\nrank {seen.round.groups[group][member]}"


def _value(seen: Seen, every: list[Reference]) -> Verdict | None:
    """The norm on every rank; that the gradients are as they were."""
    name = RANGE if seen.round.ranged else VALUES
    for group, reference in enumerate(every):
        for member, told in enumerate(seen.told[group]):
            got, where = told["norm"], _where(seen, group, member)
            if odd := _odd(got):
                words = f"{where}: {odd}, expected a scalar, fp32 or better"
                return Verdict(name, FAILED, words, hints_norm.of_kind(got))
            value, want = got.double().item(), reference.norm
            close = abs(value - want) <= EPS[_exact(seen, got)] * want
            if not close and not (math.isnan(value) and math.isnan(want)):
                words = f"{where}: got {value:.9g}, expected {want:.9g}"
                values = [one["norm"].double().mean().item() for one in seen.told[group]]
                hint = hints_norm.of_value(values, every, group, member)
                return Verdict(name, FAILED, words, hint)
            if changed := norm.changed(seen.round, group, member, told["after"]):
                hint = hints_norm.CHANGED[changed]
                words = f"{where}: right, but {changed} were changed"
                return Verdict(name, FAILED, words, hint)
    return None


def _exact(seen: Seen, got: torch.Tensor) -> torch.dtype:
    """The type whose rounding may be seen: fp64 only where gradients and norm are."""
    exact = seen.round.dtype == got.dtype == torch.float64
    return torch.float64 if exact else torch.float32


def _odd(got: torch.Tensor) -> str:
    if got.shape != ():
        return f"shape {tuple(got.shape)}"
    if not got.is_floating_point() or got.dtype.itemsize < 4:
        return f"type {got.dtype}"
    return ""


def _traffic(seen: Seen) -> Verdict | None:
    if seen.round.ranks == 1:
        return None
    for group, members in enumerate(seen.round.groups):
        for member in range(len(members)):
            calls = seen.calls(group, member)
            one = len(calls) == 1 and calls[0][:2] == ("all_reduce", 1)
            if one and calls[0][2] <= _NUMBER:
                continue
            made = "; ".join(f"{count} × {op}, {size:,} bytes" for op, count, size in calls)
            words = f"{_where(seen, group, member)}: {made or 'nothing was sent'}; expected one "
            words += f"all_reduce of one number, at most {_NUMBER} bytes"
            return Verdict(TRAFFIC, FAILED, words, hints_norm.of_traffic(calls))
    return None
