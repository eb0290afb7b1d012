"""What a rank holds at rest: weights, gradients, optimizer state, in bytes, beside ZeRO's tables.

Measured are storages that are live after a step (labs/mesh/census.py): each once, with all of its
bytes. P is the rank's own part of the model, 1/(tp·pp) of it but for what is held whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from labs import formulas
from labs.formulas import StateBytes
from labs.mesh import measured
from labs.mesh.census import KINDS
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh_3d import sizes
from labs.mesh_3d.ask import Ask
from labs.ranks.run import Run
from labs.result import Check, Result, at_most, equal

SECTION = "state"
DTYPES = {torch.bfloat16: formulas.MIXED, torch.float32: formulas.FP32}
SLACK = 512
"""Bytes that a rank may hold besides its state and one message: counters, its mesh."""

_TABLE = {
    torch.bfloat16: ("16P", "4P + 12P/n", "2P + 14P/n", "16P/n"),
    torch.float32: ("16P", "8P + 8P/n", "4P + 12P/n", "16P/n"),
}


@dataclass(frozen=True)
class Held:
    """What one rank holds of a configuration, in bytes, beside the table."""

    config: Config
    rank: int
    told: dict  # the census

    @property
    def stage(self) -> int:
        return self.config.layout.coordinate(self.rank)["pp"]

    @property
    def got(self) -> StateBytes:
        return StateBytes(*(self.told[kind] for kind in KINDS))

    @property
    def real(self) -> int:
        """Parameters of the rank by the formula, without padding along dp."""
        return sum(sizes.units(self.config, self.stage))

    @property
    def padded(self) -> int:
        """P, as the ranks along dp share it."""
        return formulas.padded_parameters(
            sizes.units(self.config, self.stage), self.config.layout.dp
        )

    @property
    def want(self) -> StateBytes:
        each = DTYPES[self.config.dtype]
        return formulas.state_on_rank(self.padded, self.config.layout.dp, self.config.zero, each)


def configs(ask: Ask) -> list[Config]:
    """Both tables at the layout asked for, and ZeRO on all ranks alone."""
    layout = replace(ask.layout, cp=1)
    alone = Layout(dp=ask.ranks)
    found = [
        replace(sizes.config(layout, zero, ask.tied), dtype=dtype)
        for layout in dict.fromkeys([layout, alone])
        for dtype in DTYPES
        for zero in formulas.ZERO_STAGES
        if layout != alone or dtype == torch.bfloat16
    ]
    return found


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Take the census of every configuration; values["state"]: `Held` of every rank."""
    if ask.ranks < 2:
        result.notes.append(f"{SECTION} left out: it needs 2 ranks or more")
        return
    todo = configs(ask)
    run = ask.launch(measured.at_rest, todo, parts)
    result.run = result.run or run
    found = held(todo, run)
    result.values[SECTION] = found
    result.checks += checks(found)


def held(todo: Sequence[Config], run: Run) -> list[Held]:
    """What every rank holds of every configuration."""
    return [
        Held(config, rank, value[number])
        for number, config in enumerate(todo)
        for rank, value in enumerate(run.values)
        if value[number] is not None
    ]


def checks(found: Sequence[Held]) -> list[Check]:
    """Bytes of every configuration; parameters and sequences of each layout."""
    made = []
    for config in dict.fromkeys(one.config for one in found):
        made += _bytes(config, [one for one in found if one.config == config])
    for layout in dict.fromkeys(one.config.layout for one in found):
        one = [one for one in found if one.config.layout == layout]
        made += _parameters(layout, [each for each in one if each.config == one[0].config])
        made += _sequences(layout, one)
    return made


def _bytes(config: Config, ranks: Sequence[Held]) -> list[Check]:
    """The three kinds of state, and what else there is, on the rank that is farthest off."""
    formula = _TABLE[config.dtype][config.zero]
    worst = max(ranks, key=lambda one: abs(one.got.total - one.want.total))
    n, padding = config.layout.dp, worst.padded - worst.real
    place = sizes.place(config.layout, worst.rank)
    padded = f"P = {worst.real:,}" + (f" + {padding} of padding" if padding else "")
    made = [
        equal(f"{config.name}: {formula}, n = {n}, {padded}, on every rank ({place} shown)",
              worst.got.total, worst.want.total, "bytes", "Rajbhandari et al., 2020, section 5")
    ]  # fmt: skip
    for kind in KINDS:
        off = [one for one in ranks if getattr(one.got, kind) != getattr(one.want, kind)]
        if off:
            got, want = getattr(off[0].got, kind), getattr(off[0].want, kind)
            place = sizes.place(config.layout, off[0].rank)
            made.append(equal(f"{config.name}: {kind}, {place}", got, want, "bytes", formula))
    model = config.model
    message = config.rows * model.length * model.d * config.dtype.itemsize
    most = max(ranks, key=lambda one: one.told["other"])
    others = "; ".join(f"{shape} {kind}" for shape, kind, _ in most.told["others"][:1])
    made.append(
        at_most(f"{config.name}: anything else at rest (largest: {others or 'none'})",
                most.told["other"], message + SLACK, "bytes", "a message's room, and counters")
    )  # fmt: skip
    return made


def _parameters(layout: Layout, ranks: Sequence[Held]) -> list[Check]:
    """Each rank's parameters: cut by tp and pp, but for those that are named."""
    made = []
    model = sizes.decoder(ranks[0].config.model)
    for stage in range(layout.pp):
        here = [one.told["parameters"] for one in ranks if one.stage == stage]
        name = f"{layout}, stage {stage}"
        want = formulas.stage_parameters(model, layout.pp, stage, layout.tp)
        share = f"{want / model.parameters:.1%} of N, 1/(tp·pp) is {1 / layout.tp / layout.pp:.1%}"
        got = [sum(n for n, _ in told.values()) for told in here]
        made.append(equal(f"{name}: parameters of a rank ({share})", _other_than(want, got), want,
                          "", "the stage's, cut by tp"))  # fmt: skip
        if layout.tp > 1:
            want = formulas.stage_whole(model, layout.pp, stage)
            got = [sum(n for n, whole in told.values() if n == whole) for told in here]
            kinds = [_kind(of) for of, (n, whole) in here[0].items() if n == whole]
            made.append(equal(f"{name}: held whole on each rank of a TP group: "
                              f"{', '.join(dict.fromkeys(kinds))}", _other_than(want, got), want,
                              "", "norms, biases after g, positions"))  # fmt: skip
    return made


def _other_than(want: int, got: Sequence[int]) -> int:
    """The first number that is not the one wanted; that one where all are."""
    return next((n for n in got if n != want), want)


def _kind(name: str) -> str:
    """blocks.2.norm1.weight -> norm1.weight."""
    return name.split(".", 2)[2] if name.startswith("blocks.") else name


def _sequences(layout: Layout, found: Sequence[Held]) -> list[Check]:
    """1/dp of the batch passes every rank, whatever its stage."""
    batch = found[0].config.batch
    want = batch // layout.dp
    got = _other_than(want, [one.told["sequences"] for one in found])
    name = f"{layout}: sequences of {batch} that pass a rank in a step"
    return [equal(name, got, want, "", "batch / dp")]
