"""Weights and gradients of a stage's rank while a step goes on, unit by unit, as ZeRO has them.

    ZeRO-0, 1   gradients are added to what is kept
    ZeRO-2      a unit's wait until all are there, then are reduced, and the share is kept
    ZeRO-3      and its weights are gathered for each pass, and let go

A unit is the embedding, a block, the head; a tied table is one by itself.
Source: labs/data_parallel; gloo, which copies what it reduces and what it gathers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from labs import formulas
from labs.planner.cost.account import WORKING, Account, Tensor
from labs.planner.layout import Layout
from labs.planner.model import Model


def parameters(model: Model, pp: int, stage: int, tp: int) -> list[list[int]]:
    """Elements of each parameter of a rank, unit by unit: embedding, blocks, head; a tied table."""
    d, f = model.d, model.d_ff // tp
    table = formulas.table_on_rank(d, model.vocab, tp)
    own = [] if model.tied else [table]
    layers = formulas.stage_layers(model.decoder, pp, stage)
    block = [d] * 4 + [3 * d * d // tp, 3 * d // tp, d * d // tp, d, d * f, f, f * d, d]
    first, last = stage == 0, stage == pp - 1
    units = [[*own, model.length * d]] * first + [block] * layers + [[d, d, *own]] * last
    return [*units, [table]] if model.tied and (first or last) else units


@dataclass
class Unit:
    """Parameters that are reduced and gathered together. bytes: of its weights, padded for dp."""

    bytes: float
    missing: int  # gradients that have yet to arrive
    count: int
    gradients: list[Tensor] = field(default_factory=list)
    weights: Tensor | None = None


class Units:
    """The units of one stage's rank; `account` has all tensors, e bytes an element."""

    def __init__(self, model: Model, at: Layout, stage: int, e: int) -> None:
        self.at, self.stage, self.e, self.account = at, stage, e, Account()
        self.first, self.last, self.tied = stage == 0, stage == at.pp - 1, model.tied
        self.layers = formulas.stage_layers(model.decoder, at.pp, stage)
        self.sizes = parameters(model, at.pp, stage, at.tp)
        self.units = [
            Unit(formulas.padded_parameters([sum(one)], at.dp) * e, len(one), len(one))
            for one in self.sizes
        ]

    def make(self, size: float, kind: str = WORKING) -> Tensor:
        return self.account.make(size, kind)

    def drop(self, *tensors: Tensor | None) -> None:
        self.account.drop(*tensors)

    def unit(self, part: int) -> list[Unit]:
        """The units whose weights a part uses; a tied table besides, at both ends."""
        ends = (self.first and part == 0) or (self.last and part == self.parts - 1)
        return [self.units[part], *([self.units[-1]] if self.tied and ends else [])]

    @property
    def parts(self) -> int:
        return self.first + self.layers + self.last

    def gather(self, part: int) -> None:
        """ZeRO-3: make a part's weights whole; gloo gathers into a copy."""
        for unit in self.unit(part) if self.at.zero == 3 else ():
            if unit.weights is None or not unit.weights.there:
                unit.weights = self.make(unit.bytes)
                self.drop(self.make(unit.bytes))

    def let_go(self, part: int) -> None:
        for unit in self.unit(part):
            self.drop(unit.weights)

    def gradients(self, *elements: int) -> list[Tensor]:
        """A backward pass has made gradients of these sizes; `arrive` hands them on."""
        return [self.make(self.e * n) for n in elements]

    def arrive(self, unit: Unit, made: Sequence[Tensor]) -> None:
        """ZeRO-0 and 1 add them to what is kept. Else they wait until the unit has them all."""
        if self.at.zero < 2:
            self.drop(*made)
            return
        unit.gradients += made
        unit.missing -= len(made)
        if unit.missing == 0:
            self.reduce(unit)

    def reduce(self, unit: Unit) -> None:
        """End to end in one tensor; gloo reduces a copy; the share is added to what is kept."""
        if self.at.zero == 3:
            self.drop(unit.weights)
        whole = self.make(unit.bytes)
        self.drop(*unit.gradients)
        unit.gradients, unit.missing = [], unit.count
        share = self.make(unit.bytes / self.at.dp)
        copy = self.make(unit.bytes)
        self.drop(copy, whole, share)
