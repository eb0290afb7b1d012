"""Hidden cases of notebook 05: meshes with more axes, five ranks, odd sizes, a gradient that moves.

The larger step shows on the wire: whoever sends the whole gradient or all weights once more sends
hundreds of kilobytes that no account can leave out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from labs import judging_alone as pure
from labs.exercise import FAILED, PASSED, Verdict
from labs.formulas.zero import state_bytes
from labs.gpt import Shape
from labs.grading.hidden import Hidden
from labs.grading.hidden.points import alone, formula
from labs.grading.hidden.step_outside import judge_large
from labs.judging_alone import Asked, of_sizes
from labs.mesh_3d.judging import coordinates, groups, judge_norm, judge_step, nodes, shards
from labs.mesh_3d.judging.norm import Norm
from labs.mesh_3d.judging.rounds import Seen
from labs.mesh_3d.judging.step import Step
from labs.ranks.ship import Source

FIVE, THREE_OF_FIVE, TWO_OF_FIVE = ((0, 1, 2, 3, 4),), ((0, 2, 4),), ((1, 3), (0, 4))

MOST_GROWN = 33 * 2**20
"""Bytes by which a rank may grow over weights of 10 MiB: gloo takes as much itself.

The course's answer grows by 27 MiB, what puts all new weights in a tensor of its own by 37.
"""
_INPUTS = 27 * 2**20
"""What weights and gradients take at most."""


def _meshes(draw: random.Random) -> list[coordinates.Sizes]:
    """Six axes, large primes, names that nobody has heard of, sizes of 1 at both ends."""
    axes = ["dp", "pp", "tp", "cp", "ep", "zz"]
    draw.shuffle(axes)
    return [
        {axis: draw.choice((1, 2, 3)) for axis in axes},
        {"tp": 7, "größe": draw.choice((5, 11)), "dp": 2},
        {"dp": 1, "pp": draw.randrange(6, 12), "tp": 1},
        {"dp": draw.randrange(6, 10), "pp": draw.randrange(2, 5), "tp": draw.randrange(3, 6)},
    ]


def _places(draw: random.Random) -> list[Asked]:
    found = []
    for sizes in _meshes(draw):
        every = coordinates.places(sizes)
        for rank in {0, len(every) - 1, *(draw.randrange(len(every)) for _ in range(10))}:
            found.append((f"{of_sizes(sizes)}, rank {rank}", (rank, sizes)))
    return found


def _ranks(draw: random.Random) -> list[Asked]:
    found = []
    for _, (rank, sizes) in _places(draw):
        at = list(coordinates.places(sizes)[rank].items())
        draw.shuffle(at)
        found.append((f"{of_sizes(sizes)}, at {of_sizes(dict(at))}", (dict(at), sizes)))
    return found


def _groups(draw: random.Random) -> list[Asked]:
    return [(of_sizes(sizes), (axis, sizes)) for sizes in _meshes(draw) for axis in sizes]


def _nodes(draw: random.Random) -> list[Asked]:
    return [
        (f"{of_sizes(sizes)}, {each} a node", (sizes, each))
        for sizes in _meshes(draw)
        for each in (draw.choice((3, 5, 6, 7, 9, 12)), draw.choice((1, 2, 16, 1000)))
    ]


def _shards(draw: random.Random) -> list[Asked]:
    pp, tp = draw.randrange(5, 7), draw.choice((5, 6))
    one = Shape(layers=pp + draw.randrange(1, pp), d=tp * 2, heads=tp, length=6,
                vocab=draw.randrange(40, 60), d_ff=tp * draw.randrange(2, 9))  # fmt: skip
    two = Shape(layers=3, d=14, heads=7, length=4, vocab=draw.randrange(3, 7), d_ff=7)
    chosen = [(one, dict(tp=tp, ep=2, pp=pp)), (two, dict(pp=2, dp=3, tp=7))]
    return shards.asked_shards(draw.randrange(2**31), chosen)


def _state(draw: random.Random) -> list[tuple]:
    return [
        (draw.randrange(10**8, 10**13), draw.choice((1, 48, 96, 512, 1000)), zero, mixed)
        for zero in range(4)
        for mixed in (True, False)
    ]


def _steps(function: Callable | Source, seed: int) -> list[Verdict]:
    first = seed * 16
    moved = random.Random(seed).randrange(1, 5)
    asked = [
        Step("five ranks", FIVE, share=7),
        Step("three of five", THREE_OF_FIVE, share=2, dtype=torch.float32),
        Step("two and two of five", TWO_OF_FIVE, share=11),
        Step("wire", FIVE, share=8192, traced=True),
    ]
    asked = [replace(one, seed=first + number) for number, one in enumerate(asked)]
    asked.append(replace(asked[0], moved=moved))
    verdicts, seen = judge_step.judge_on_steps(function, asked)
    if seen:
        held = unmoved(seen[0], seen[-1], moved)
        verdicts.append(Verdict(judge_step.VALUES, PASSED if held else FAILED))
    return verdicts


def unmoved(before: Seen, after: Seen, moved: int) -> bool:
    """Whether one share's gradients changed that share of the weights on all ranks, and no other.

    The others are held to the same bits.
    """
    size = before.round.share
    for one, other in zip(before.told[0], after.told[0], strict=True):
        same = (one["weights"] == other["weights"]).view(-1, size).all(1)
        if same.tolist() != [share != moved for share in range(before.round.ranks)]:
            return False
    return True


def _norms(function: Callable | Source, seed: int) -> list[Verdict]:
    first = seed * 16
    draw = random.Random(seed)
    holders = [(0,), (4,), (1, 3), (0, 1, 2, 3, 4), (2, 3, 4), (0, 1, 2, 4)]
    parts = tuple(
        (tuple(draw.randrange(1, 6) for _ in range(draw.randrange(4))), one) for one in holders
    )
    pair = (((3,), (0, 1)), ((2, 1, 2), (1,)))
    fp32 = dict(dtype=torch.float32, ranged=True, parts=parts)
    asked = [
        Norm("five ranks", FIVE, parts=parts),
        Norm("three of five", THREE_OF_FIVE, parts=(((9,), (0, 1, 2)), ((4, 4), (2,)))),
        Norm("two and two of five", TWO_OF_FIVE, parts=pair),
        Norm("near 1e25", FIVE, size=1e25, **fp32),
        Norm("near 1e-35", FIVE, size=1e-35, **fp32),
        Norm("a NaN", FIVE, parts=parts, spoilt=draw.randrange(len(parts))),
    ]
    asked = [replace(one, seed=first + number) for number, one in enumerate(asked)]
    return judge_norm.judge_on_norms(function, asked)


def _alone(label: str, asked: Callable, plain: Callable, kind: Sequence[str], judged: Callable):  # noqa: ANN202
    return [alone(label, asked, plain, kind, judged)]


CASES: dict[str, list[Hidden]] = {
    "rank_to_coordinate": _alone(
        "other meshes", _places, pure.by_axis, coordinates.PROPERTIES, coordinates.judged_places
    ),
    "coordinate_to_rank": _alone(
        "other meshes", _ranks, pure.number, coordinates.PROPERTIES, coordinates.judged_ranks
    ),
    "groups_of": _alone(
        "other meshes", _groups, groups.plain_groups, groups.GROUPS, groups.judged_groups
    ),
    "place_on_nodes": _alone(
        "other nodes", _nodes, pure.by_axis, nodes.PROPERTIES, nodes.judged
    ),
    "shard_of": _alone("other models", _shards, shards.plain, shards.PROPERTIES, shards.judged),
    "state_bytes": [formula("larger", state_bytes, _state)],
    "zero1_step": [
        Hidden("5 ranks", _steps),
        Hidden("large", judge_large, most_grown=MOST_GROWN, early=_INPUTS),
    ],
    "global_grad_norm": [Hidden("5 ranks", _norms)],
}  # fmt: skip
