"""Which configurations the lab trains: the one that was asked for, and the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from labs.gpt import Shape
from labs.mesh.config import Config
from labs.mesh.layout import Layout, factorizations

MODEL = Shape(layers=4, d=16, heads=4, length=8)
BATCH, MICRO_BATCHES, STEPS = 8, 2, 3
CLIP = 0.05
"""Far below the norm of the first gradients, so that every step clips."""
LAYOUTS = (
    Layout(), Layout(dp=2), Layout(pp=2), Layout(tp=2), Layout(dp=2, pp=2),
    Layout(dp=2, pp=2, tp=2),
)  # fmt: skip
"""Held against one device under every way to share out, where the ranks suffice."""
WAYS = ((0, True), (1, True), (2, True), (3, True), (3, False))
"""ZeRO's stage, and whether weights are let go after the forward pass."""


def batch(layout: Layout) -> int:
    """Sequences of a step: 8, or the next that the replicas' micro-batches can share."""
    shares = layout.dp * MICRO_BATCHES
    return -(-BATCH // shares) * shares


def fits(layout: Layout) -> bool:
    """Whether the lab's model can be cut that way."""
    return layout.pp <= MODEL.layers and MODEL.heads % layout.tp == 0


def default(ranks: int) -> Layout:
    """The evenest layout of that many ranks that the lab's model can be cut into."""
    return next(layout for layout in factorizations(ranks) if fits(layout))


def config(layout: Layout, zero: int = 1, tied: bool = False, reshard: bool = True) -> Config:
    """The lab's model on `layout`, clipped, in fp64."""
    return Config(
        layout, replace(MODEL, tied=tied), batch(layout), MICRO_BATCHES, zero, reshard, CLIP
    )


def ways(layout: Layout) -> tuple[tuple[int, bool], ...]:
    """WAYS; of a single replica, which has nobody to share with, ZeRO 1, 2 and 3 as they are."""
    return WAYS if layout.dp > 1 else ((1, True), (2, True), (3, True))


def grid(ranks: int) -> list[Config]:
    """All that is held against one device on `ranks` ranks.

    Every way to share out, tied and untied, at each of LAYOUTS that fits; the hardest one at other
    layouts of all ranks; sequence and context parallelism, dropout and overlap on top; and the
    evenest layout in fp32.
    """
    every = [layout for layout in LAYOUTS if layout.ranks <= ranks]
    found = [
        config(layout, zero, tied, reshard)
        for layout in every
        for zero, reshard in ways(layout)
        for tied in (False, True)
    ]
    found += [config(at, 3 if at.dp > 1 else 1, tied=True) for at in others(ranks, every)]
    found += further(ranks)
    even = replace(config(default(ranks)), dtype=torch.float32)
    return [*found, even, replace(even, zero=3, micro_batches=4, batch=2 * even.batch)]


def others(ranks: int, known: Sequence[Layout]) -> list[Layout]:
    """Besides those known, for each axis an even layout of all ranks in which it is the longest."""
    found = [layout for layout in factorizations(ranks) if fits(layout) and layout not in known]
    longest = min((max(layout.sizes.values()) for layout in found), default=0)
    by_axis = [[at for at in found if at.sizes[axis] == longest] for axis in ("dp", "pp", "tp")]
    return list(dict.fromkeys(those[-1] for those in by_axis if those))


def further(ranks: int) -> list[Config]:
    """What comes on top of the three axes: the stream split along T, a ring in attention, masks."""
    wide = replace(MODEL, length=16)
    found = [
        (Layout(dp=2, pp=2, tp=2), dict(zero=2, sequence_parallel=True, dropout=0.1)),
        (Layout(dp=2, tp=2), dict(zero=0, sequence_parallel=True)),
        (Layout(dp=2, cp=2), dict(zero=2, dropout=0.1)),
        (Layout(pp=2, cp=2, tp=2), dict(zero=1, sequence_parallel=True)),
        (Layout(dp=2, pp=2), dict(zero=3, overlap=True)),
    ]
    return [
        replace(config(layout), model=wide, **more)
        for layout, more in found
        if layout.ranks <= ranks
    ]
