"""The limit of ZeRO-3: at its peak a rank still holds one unit whole. More ranks along dp do not
make that smaller; tensor parallelism does, t times.

The layouts with tp = 1, 2 and 4 use the same ranks, so at rest each holds nearly the same; what
differs is the peak, by the allocator's own events. Few tokens and wide layers, so that weights are
what is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from labs import formulas
from labs.gpt import Shape
from labs.mesh import measured
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh_3d import sizes
from labs.mesh_3d.ask import Ask
from labs.ranks.run import Run
from labs.result import Check, Result, at_most, equal, near

SECTION = "peak"
MODEL = Shape(layers=2, d=192, heads=4, length=4)
"""A block has six times the parameters of embedding or head, and a step four tokens a sequence."""
WITHIN = 0.06
"""Of the formula: what activations of a few tokens and autograd's smallest pieces may add."""


@dataclass(frozen=True)
class Peak:
    """The most that any rank of a configuration held, in bytes."""

    config: Config
    rest: int  # weights, gradients and optimizer state after the step
    peak: int  # besides, during it
    largest: int  # of a single allocation
    left: int  # allocated and not seen to be released
    other: int = 0  # at rest besides: room for a message, counters
    copied: bool = True  # whether the backend reduces a copy

    @property
    def unit(self) -> int:
        """Bytes of the largest unit as a rank holds it whole, padded for dp."""
        n = self.config.layout.dp
        largest = max(sizes.units(self.config, 0))
        return formulas.padded_parameters([largest], n) * self.config.dtype.itemsize

    @property
    def formula(self) -> float:
        return formulas.zero3_peak(self.unit, self.config.layout.dp, self.copied)


def configs(ranks: int) -> list[Config]:
    """ZeRO-3 on all of the ranks, with tp = 1, 2 and 4 of them; and tp = 1 on two ranks."""
    layouts = [Layout(dp=ranks // t, tp=t) for t in (1, 2, 4) if ranks % t == 0 and ranks // t > 1]
    return [
        Config(layout, MODEL, layout.dp, micro_batches=1, zero=3, dtype=torch.float32)
        for layout in dict.fromkeys([Layout(dp=2), *layouts])
    ]


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Trace a step of every configuration; values["peak"]: a `Peak` of each."""
    if ask.ranks < 2:
        result.notes.append(f"{SECTION} left out: it needs 2 ranks or more")
        return
    todo = configs(ask.ranks)
    run = ask.launch(measured.at_most, todo, parts)
    result.run = result.run or run
    found = peaks(todo, run)
    result.values[SECTION] = found
    result.checks += checks(found)


def peaks(todo: Sequence[Config], run: Run) -> list[Peak]:
    """The most of all ranks, for each configuration."""
    found = []
    for number, config in enumerate(todo):
        told = [value[number] for value in run.values if value[number] is not None]
        most = {key: max(one[key] for one in told) for key in told[0]}
        found.append(Peak(config, **most, copied=run.backend == "gloo"))
    return found


def checks(found: Sequence[Peak]) -> list[Check]:
    """At rest, at the peak, and how both fall with dp and with tp."""
    made = []
    for one in found:
        name, layout, each = f"{one.config.layout}, ZeRO-3", one.config.layout, formulas.FP32
        held = formulas.padded_parameters(sizes.units(one.config, 0), layout.dp)
        rest = formulas.state_on_rank(held, layout.dp, 3, each).total
        made += [
            equal(f"{name}: at rest", one.rest, rest, "bytes", "16P/n"),
            equal(f"{name}: largest piece of memory, a whole block", one.largest, one.unit, "bytes",
                  "parameters of a block on the rank · 4"),
            near(f"{name}: peak of a step above that", one.peak, round(one.formula),
                 round(WITHIN * one.formula), "bytes", "a unit twice, and 1/n of it"),
            at_most(f"{name}: left over of what the step took", one.left, one.unit / 50, "bytes",
                    "all is released"),
        ]  # fmt: skip
    return made + (_compared(*found) if len(found) > 1 else [])


def _compared(two: Peak, more: Peak, *with_tp: Peak) -> list[Check]:
    """Two ranks along dp against all of them; all of them along dp against some along tp."""
    n = more.config.layout.dp
    made = [
        near(f"dp=2 to dp={n}: at rest falls by", two.rest / more.rest, n / 2, 0.01, "times",
             "16P/n"),
        equal(f"dp=2 to dp={n}: the largest piece stays", more.largest, two.unit, "bytes",
              "a whole block, whatever n"),
    ]  # fmt: skip
    for one in with_tp:
        t = one.config.layout.tp
        name = f"{more.config.layout} to {one.config.layout}"
        ratio = more.formula / one.formula
        made += [
            near(f"{name}: at rest stays, ratio", one.rest / more.rest, 1, 0.03, "times",
                 "16P/n, but for what TP holds whole"),
            near(f"{name}: the largest piece falls by", more.largest / one.largest, t, 0.02 * t,
                 "times", "1/tp of a block"),
            near(f"{name}: the peak above rest falls by", more.peak / one.peak, ratio,
                 0.05 * ratio, "times", "1/tp of a block, and 1/n of that"),
        ]  # fmt: skip
    return made
