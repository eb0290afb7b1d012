"""The check of place_on_nodes: on how many nodes a group stands, also where it does not fit."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod

from labs import judging_alone as pure
from labs.exercise import Verdict
from labs.judging_alone import Asked, Made, of_sizes
from labs.mesh_3d.judging.coordinates import Sizes
from labs.mesh_3d.judging.groups import groups, of_failure
from labs.ranks.ship import Source

WHOLE, ODD = "whole groups on nodes", "groups that do not fit"
PROPERTIES = (WHOLE, ODD)


def asked_cases(seed: int) -> list[Asked]:
    """(sizes, ranks of a node)."""
    draw = random.Random(seed + 3)
    three = ("dp", "pp", "tp")

    def mesh(*sizes: int) -> Sizes:
        return dict(zip(three, sizes, strict=True))

    drawn = mesh(draw.randrange(2, 5), draw.randrange(2, 4), draw.choice((3, 5, 6, 7)))
    asked = [
        (mesh(4, 2, 8), 8), (mesh(2, 2, 2), 4), (mesh(2, 2, 2), 2), (mesh(2, 2, 2), 8),
        ({"tp": 8, "dp": 4, "pp": 2}, 8), (mesh(1, 4, 4), 8), (mesh(16, 1, 4), 8),
        ({"dp": 2, "pp": 2, "cp": 2, "tp": 4}, 8), (mesh(2, 2, 16), 8),
        (mesh(4, 2, 3), 8), (mesh(2, 3, 5), 4), (mesh(3, 1, 2), 8), (mesh(2, 2, 2), 1),
        ({"stage": 3, "tensor": 4}, 5), (drawn, draw.choice((4, 8))),
    ]  # fmt: skip
    return [(f"{of_sizes(sizes)}, {each} a node", (sizes, each)) for sizes, each in asked]


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """place_on_nodes."""
    return pure.judge(function, asked_cases(seed), pure.by_axis, PROPERTIES, judged, of_failure)


def judged(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the numbers of nodes that came back."""
    passed = {
        WHOLE: "dp=4 pp=2 tp=8, 8 a node: a tp group on one node, a pipeline on two",
        ODD: "the group that is on most nodes counts",
    }
    return pure.first_faults(PROPERTIES, passed, asked, made, _wrong_nodes, output)


def on_nodes(sizes: Mapping[str, int], per_node: int) -> dict[str, list[int]]:
    """Axis: on how many nodes each of its groups is."""
    return {
        axis: [len({rank // per_node for rank in group}) for group in groups(axis, sizes)]
        for axis in sizes
    }


def _wrong_nodes(args: tuple, got: object) -> tuple[str, str, str] | None:
    sizes, per_node = args
    every = on_nodes(sizes, per_node)
    want = {axis: max(counts) for axis, counts in every.items()}
    if got == want and all(type(count) is int for count in got.values()):
        return None
    fits = all(len(set(counts)) == 1 for counts in every.values())
    name = WHOLE if fits and per_node <= prod(sizes.values()) else ODD
    if not isinstance(got, dict):
        told = f"the function returned {got}, not a dict of axis: nodes"
        return name, told, "the function ends without a `return`" if got == "NoneType" else ""
    if set(got) != set(sizes):
        told = f"got axes {', '.join(got) or 'none'}, expected {', '.join(sizes)}"
        return name, told, "one entry for each axis of `sizes`, whatever it is called"
    axis = next(a for a in sizes if got[a] != want[a] or type(got[a]) is not int)
    told = f"{axis}: got {got[axis]}, expected {want[axis]}"
    return name, told, _why_nodes(axis, sizes, per_node, got, every)


def _why_nodes(axis: str, sizes: Sizes, per_node: int, got: dict, every: dict) -> str:
    counts, n = every[axis], prod(sizes.values())
    if type(got[axis]) is not int:
        return "nodes are counted: a whole number; 1 where the group is inside a node"
    names = list(sizes)
    stride = prod(sizes[name] for name in names[names.index(axis) + 1 :])
    slips = [
        (min(counts), "some groups are on more nodes: where tp does not divide a node, some lie "
         "across its border. Look at all groups; the one on most counts, as a step waits for the "
         "slowest"),
        (sizes[axis], "that is how many ranks a group has: some may be on one node. A rank is on "
         "node rank // per_node"),
        (ceil(sizes[axis] / per_node), "neighbours on an axis are neighbouring ranks on the "
         "fastest axis alone; on this one they are further apart"),
        (ceil(sizes[axis] * stride / per_node), "that is how far the group reaches from its first "
         "rank to its last: a node in between with no rank of the group does not count, and a "
         "group may begin in the middle of a node"),
        (sizes[axis] * stride // per_node, "that is how far the group reaches: a node in between "
         "with no rank of the group does not count; and it is on at least one"),
        (ceil(n / per_node), "that is all nodes of the mesh: count those that one group is on"),
        (sum(counts), "that is the sum over all groups of the axis: the one on most nodes counts"),
    ]  # fmt: skip
    return next(
        (hint for slip, hint in slips if got[axis] == slip != max(counts)),
        "rank // per_node is a rank's node: count the different ones in each group of groups_of",
    )
