"""From a wrong norm to what probably lies behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch

from labs.mesh_3d.judging.norm import Reference

_OVERFLOW = (
    "1e20 squared is 1e40, more than fp32 can hold: take the squares, and their sum, in fp64, "
    "grad.double()"
)
_VANISHED = (
    "1e-30 squared is 1e-60, and 0 in fp32: take the squares, and their sum, in fp64, grad.double()"
)
_COPIES = (
    "replicated parameters are counted on each rank that holds them{}: divide their squares by "
    "`holders` before the sum over the ranks"
)
_ALONE = (
    "that is the norm of this rank's gradients alone: each stage, each shard would be clipped by "
    "another factor. Sum up the squares of all ranks"
)
_HIDDEN = (
    "a NaN in one gradient makes the norm NaN, on every rank: it says that the step is spoilt, and "
    "clipping by a norm that leaves it out would hide that. Sum up all numbers, NaN too"
)
CHANGED = {
    "grads": "the optimizer still needs the gradients: no square_(), no mul_()",
    "holders": "work on copies: the list still belongs to the caller",
}
"""By what an answer changed."""
_GROUP = "group was not handed on: the model's ranks are not the whole world, pass group=group"


def of_kind(got: torch.Tensor) -> str:
    """A tensor of another shape or type."""
    if got.shape != ():
        return "a scalar tensor has shape (): torch.zeros(()), x.sum(), without a list around it"
    return "keep the norm in fp64 or fp32: bf16 has three digits"


def of_value(values: Sequence[float], every: list[Reference], group: int, member: int) -> str:
    """What the norm is instead on one rank of a group, and why. values: of each rank of it."""
    value = values[member]
    reference = every[group]
    size, dtype = reference.asked.size, reference.asked.dtype
    if math.isnan(reference.norm):
        return _HIDDEN
    if not math.isfinite(value):
        return _OVERFLOW if size > 1 else "the norm of a sum of 0 is 0: divide by nothing"
    if value == 0 and 0 < size < 1:
        return _VANISHED
    nearly = math.isclose(value, reference.norm, rel_tol=1e-5)
    alike = all(math.isclose(value, other, rel_tol=1e-9) for other in values)
    for slip, hint in _slips(every, group, member):
        if hint == _ALONE and alike and reference.n > 1:
            continue  # one of them has, by chance, what all of them tell
        if not nearly and math.isclose(value, slip, rel_tol=1e-6, abs_tol=1e-12 * size):
            return hint
    if dtype == torch.bfloat16 and math.isclose(value, reference.norm, rel_tol=0.1):
        return (
            "bf16 has three digits, and so has a sum in it: make the gradients fp32 or fp64 "
            "first, grad.double()"
        )
    if nearly:
        return "right to fp32's seven digits: fp64 gradients are summed up in fp64"
    return "square, sum up, divide what has copies by its holders, all-reduce, then take the root"


def _slips(every: list[Reference], group: int, member: int) -> Iterator[tuple[float, str]]:
    reference = every[group]
    n, mine = reference.n, reference.by_member[member]
    once = [sum(square / times for square, times in held) for held in reference.by_member]
    plain = [sum(square for square, _ in held) for held in reference.by_member]
    copies = {times for _, times in reference.whole}
    if n > 1:
        yield math.sqrt(plain[member]), _ALONE
        yield math.sqrt(once[member]), _ALONE
    much = ""
    if len(copies) == 1 and copies != {1}:
        times = copies.pop()
        much = f", so all is too large by the root of {times}"
    yield math.sqrt(sum(plain)), _COPIES.format(much)
    yield (
        math.sqrt(sum(square * times for held in reference.by_member for square, times in held)),
        "copies are divided by `holders`, not multiplied: each of them adds its part",
    )
    yield (
        math.sqrt(sum(square / times**2 for held in reference.by_member for square, times in held)),
        "a copy's squares are divided by `holders`, not its norm or the gradient: otherwise it "
        "counts 1/holders times in all",
    )
    if n > 1:
        for one in (sum(plain), reference.squares):
            yield (
                math.sqrt(one / n),
                f"too small by the root of {n}, the ranks of the group: the squares of all ranks "
                "are summed up, no mean. Only what has copies is divided, by its own `holders`",
            )
    yield reference.squares, "the sum of the squares: the norm is its square root"
    roots = [math.sqrt(one) for one in once]
    yield sum(roots), "norms of ranks do not add up: add up the squares, take the root at the end"
    yield max(roots), "the largest of the ranks' norms: the squares of all of them are added up"
    yield (
        sum(math.sqrt(square) for square, _ in reference.whole),
        "norms of gradients do not add up: add up the squares, take the root at the end",
    )
    yield (
        sum(math.sqrt(square / times) for held in reference.by_member for square, times in held),
        "norms of gradients do not add up: add up the squares, take the root at the end",
    )
    if len(every) > 1:
        yield math.sqrt(sum(one.squares for one in every)), _GROUP
        doubled = sum(square for one in every for held in one.by_member for square, _ in held)
        yield math.sqrt(doubled), f"{_GROUP}; and {_COPIES.format('')}"
    yield math.sqrt(sum(square for square, times in mine if times == 1)), _ALONE
    unshared = sum(square for square, times in reference.whole if times == 1)
    yield (
        math.sqrt(unshared),
        "what has copies is left out: it counts once, as everything does",
    )


def of_traffic(calls: Sequence[tuple[str, int, int]]) -> str:
    """Which call sends more than it must."""
    if not calls:
        return "nobody knows the others' squares: all_reduce adds them up"
    others = [op for op, _, _ in calls if op != "all_reduce"]
    if others:
        return f"{' and '.join(others)}: one all_reduce adds up what each rank knows, everywhere"
    if calls[0][1] > 1:
        return (
            "several all-reduces, one for each gradient perhaps: sum up the squares on this rank "
            "first, and send one number"
        )
    return "whole gradients, or a number for each, travel: sum them up first, and send one number"
