"""The check of groups_of: who is in a group, and in which order.

What must come back is found by sorting all ranks of a mesh by the places that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from labs import judging_alone as pure
from labs.exercise import Verdict
from labs.judging_alone import Asked, Made, of_sizes
from labs.mesh_3d.judging.coordinates import Sizes, named_meshes, other_meshes, places
from labs.ranks.ship import Source

MEMBERS, ORDER = "who is in a group", "order"
GROUPS = (MEMBERS, ORDER)
Groups = list[list[int]]


def groups(axis: str, sizes: Mapping[str, int]) -> Groups:
    """The ranks that share all places but that on `axis`."""
    found: dict[tuple, list[int]] = {}
    for rank, at in enumerate(places(sizes)):
        rest = tuple(place for name, place in at.items() if name != axis)
        found.setdefault(rest, []).append(rank)
    return list(found.values())


def asked_groups(seed: int) -> list[Asked]:
    """(axis, sizes), every axis of each mesh."""
    return [
        (f"{of_sizes(sizes)}, along {axis}", (axis, sizes))
        for sizes in [*named_meshes(seed), *other_meshes(seed)]
        for axis in sizes
    ]


def plain_groups(value: object) -> object:
    """Lists of whole numbers; of anything else what type it has."""
    if not isinstance(value, (list, tuple)):
        return type(value).__name__
    if not all(isinstance(group, (list, tuple, range)) for group in value):
        return f"list of {type(value[0]).__name__}"
    return [[pure.number(rank) for rank in group] for group in value]


def judge_groups(function: Callable | Source, seed: int) -> list[Verdict]:
    """groups_of."""
    return pure.judge(function, asked_groups(seed), plain_groups, GROUPS, judged_groups, of_failure)


def judged_groups(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the groups that came back."""
    passed = {
        MEMBERS: "every rank in one group along each axis",
        ORDER: "by the first ranks, and by the place on the axis",
    }
    return pure.first_faults(GROUPS, passed, asked, made, _wrong_groups, output)


def of_failure(text: str) -> str:
    """A hint for what raised; empty where none is known."""
    if "KeyError" in text:
        return "axes come from `sizes`, under any name: neither names nor their number are fixed"
    if "NoneType" in text:
        return "something that the function calls returned None: is that function written yet?"
    return ""


def _wrong_groups(args: tuple, got: object) -> tuple[str, str, str] | None:
    axis, sizes = args
    want = groups(axis, sizes)
    if got == want and all(type(rank) is int for group in got for rank in group):
        return None
    if not isinstance(got, list):
        told = f"the function returned {got}, not a list of lists of ranks"
        hint = "the function ends without a `return`" if got == "NoneType" else ""
        return MEMBERS, told, hint or "one list of ranks a group, also where there is one group"
    told = f"got {_shown(got)}, expected {_shown(want)}"
    if not all(type(rank) is int for group in got for rank in group):
        return MEMBERS, told, "ranks are whole numbers: // gives them, / does not"
    if sorted(map(sorted, got)) == sorted(want):
        return ORDER, told, _why_order(got)
    return MEMBERS, told, _why_members(axis, sizes, got)


def _shown(found: Groups) -> str:
    told = [str(group) if len(group) < 9 else f"[{', '.join(map(str, group[:8]))}, …]"
            for group in found[:4]]  # fmt: skip
    return ", ".join([*told, "…"] if len(found) > 4 else told) or "no group"


def _why_order(got: Groups) -> str:
    if any(group != sorted(group) for group in got):
        return (
            "in a group ranks stand in the order of their places on the axis: so rank i of the "
            "process group is at place i"
        )
    return (
        "groups stand in the order of their first ranks: all processes must make them in one order"
    )


def _why_members(axis: str, sizes: Sizes, got: Groups) -> str:
    n, size = prod(sizes.values()), sizes[axis]
    every = sorted(rank for group in got for rank in group)
    if got == [list(range(first, first + size)) for first in range(0, n, size)]:
        return (
            "neighbouring ranks: that is right for the fastest axis alone. Along another one a "
            "step is as many ranks as all faster axes have together"
        )
    if sorted(got) == [list(range(first, n, n // size)) for first in range(n // size)]:
        return (
            "ranks as far apart as can be: that is right for the slowest axis alone. A step is as "
            "many ranks as all faster axes have together"
        )
    for other in sizes:
        if other != axis and got == groups(other, sizes):
            return f"those are the groups along {other}; along {axis} nothing differs but {axis}"
    if len(got) < n // size and len(set(every)) < n:
        return (
            f"all groups, not that of one rank: {n} ranks make {n // size} groups of {size} along "
            f"{axis}"
        )
    if every != list(range(n)):
        return f"every rank from 0 to {n - 1} is in one group along {axis}, and in no second one"
    if any(len(group) != size for group in got):
        same = [[r for r, at in enumerate(places(sizes)) if at[axis] == i] for i in range(size)]
        if sorted(map(sorted, got)) == sorted(same):
            return (
                f"these have one place on {axis} in common; a group along {axis} has all else in "
                f"common, and differs on {axis}"
            )
        return f"a group along {axis} has as many ranks as the axis: {size}"
    return (
        f"for each choice of places on the other axes, the ranks at all places on {axis}; "
        "coordinate_to_rank says which those are"
    )
