"""The section "64 ranks": the step's own code as each of 64 ranks, its bytes counted, not computed.

First the fake ranks are held against real ones, where those are to be had: the same configurations
on the ranks of this machine, every kind of call, count and byte of each rank. Then a GPT of 6.9e9
parameters on dp=4 pp=2 tp=8, beside the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import torch

from labs import formulas
from labs.formulas import Decoder, Sent
from labs.gpt import Shape
from labs.mesh import fake
from labs.mesh.config import Config
from labs.mesh.on_rank import on_rank
from labs.mesh_3d import jobs
from labs.mesh_3d.ask import Ask
from labs.mesh_3d.nodes import WORKED
from labs.ranks.ledger import Ledger, Row
from labs.result import Check, Result, equal

SECTION = "64 ranks"
MODEL = Shape(layers=32, d=4096, heads=32, length=2048, vocab=50257)
MICRO_BATCHES = 4

Key = tuple[str, str, str]  # axis, op, phase


def worked(zero: int = 1, tied: bool = False, model: Shape = MODEL) -> Config:
    """The GPT on 64 ranks, in bf16, one sequence a micro-batch."""
    batch = WORKED.dp * MICRO_BATCHES
    return Config(WORKED, replace(model, tied=tied), batch, MICRO_BATCHES, zero, clip=1.0,
                  dtype=torch.bfloat16)  # fmt: skip


def compared(ask: Ask) -> list[Config]:
    """What real ranks run too: each way to share out along dp, with and without a tied table."""
    ways = ((0, True, False), (1, True, True), (2, True, False), (3, True, True), (3, False, False))
    return [jobs.config(ask.layout, zero, tied, reshard) for zero, reshard, tied in ways]


def add(result: Result, ask: Ask, parts: Mapping[str, Callable], model: Shape = MODEL) -> None:
    """Count a step of the compared configurations twice, and of the 64 ranks; check both."""
    parts, big, todo = dict(parts), worked(ask.zero, ask.tied, model), compared(ask)
    who = [*(range(ask.layout.ranks) for _ in todo), fake.corners(WORKED)]
    asked = [list(ranks) for ranks in who]
    devices = [*("cpu" for _ in todo), "meta"]
    run = ask.launch(fake.on_rank, [*todo, big], parts, asked, devices, ranks=min(2, ask.ranks))
    counted = [as_ranks(run.ledger, *one) for one in zip([*todo, big], asked, strict=True)]
    real = ask.launch(on_rank, todo, parts, 1).ledger
    for config, ledger in zip(todo, counted, strict=False):
        result.checks += same(config, ledger, real.where(section=config.name))
    result.checks += as_computed(big, counted[-1])
    result.values[SECTION] = (big, counted[-1])


def as_ranks(ledger: Ledger, config: Config, ranks: Iterable[int]) -> Ledger:
    """What a configuration's fake ranks counted, as if each had been a process of its own."""
    return Ledger(
        replace(row, rank=rank, section=config.name)
        for rank in ranks
        for row in ledger.where(section=fake.section(config, rank)).rows
    )


def same(config: Config, counted: Ledger, real: Ledger) -> list[Check]:
    """Fake ranks against real ones. What gloo puts on the wire is left out: nothing was sent."""
    ours, theirs = _calls(counted.rows), _calls(real.rows)
    apart = {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    name = f"{SECTION}, {config.name}"
    return [
        equal(f"{name}: payload of all fake ranks", counted.payload_bytes(), real.payload_bytes(),
              "bytes", "the real ranks' ledger"),
        equal(f"{name}: kinds of calls that differ in count or bytes", len(apart), 0,
              f"of {len(theirs)}", "the real ranks' ledger"),
    ]  # fmt: skip


def _calls(rows: Iterable[Row]) -> dict[tuple, tuple]:
    """(rank, axis, op, phase): count, payload, ideal bytes."""
    return {
        (row.rank, row.axis, row.op, row.phase): (row.count, row.payload_bytes, row.ideal_bytes)
        for row in rows
    }


def decoder(model: Shape) -> Decoder:
    """The model as the formulas call it."""
    return Decoder(
        model.layers, model.d, model.heads, model.d_ff or 4 * model.d, model.length, model.vocab,
        model.tied,
    )  # fmt: skip


def computed(config: Config, rank: int) -> dict[Key, Sent]:
    """What the rank sends in a step by the formulas."""
    sizes, at = config.layout.sizes, config.layout.coordinate(rank)
    sent = formulas.step_traffic(
        decoder(config.model), sizes, at, config.rows, config.micro_batches, config.zero,
        config.dtype.itemsize, config.reshard,
    )  # fmt: skip
    return {(one.axis, one.op, one.phase): one for one in sent}


def counted_by(ledger: Ledger, rank: int) -> dict[Key, tuple[int, int, float]]:
    """Count, payload and ideal bytes of what a rank sends by the ledger."""
    rows = [row for row in ledger.where(rank=rank).rows if row.ideal_bytes]
    return {
        (row.axis, row.op, row.phase): (row.count, row.payload_bytes, row.ideal_bytes)
        for row in rows
    }


def as_computed(config: Config, ledger: Ledger) -> list[Check]:
    """Bytes by axis, op and phase of each stage's ranks against the formulas."""
    found = []
    for stage in range(config.layout.pp):
        those = [
            r for r in fake.corners(config.layout) if config.layout.coordinate(r)["pp"] == stage
        ]
        told = [counted_by(ledger, rank) for rank in those]
        formula = [computed(config, rank) for rank in those]
        name = f"{SECTION}, {config.name}, stage {stage}"
        for key in sorted(formula[0].keys() | {key for one in told for key in one}):
            got = [one.get(key, (0, 0, 0.0))[2] for one in told]
            want = [one[key].ideal if key in one else 0.0 for one in formula]
            axis, op, phase = key
            wrong = [pair for pair in zip(got, want, strict=True) if pair[0] != pair[1]]
            one = wrong[0] if wrong else (got[0], want[0])
            found.append(equal(f"{name}: {axis} {op}, {phase}", *one, "bytes a rank",
                               "step_traffic"))  # fmt: skip
        calls = sum(count for one in told for count, _, _ in one.values())
        asked = sum(one.count for of in formula for one in of.values())
        found.append(equal(f"{name}: calls of {len(those)} ranks", calls, asked, "calls",
                           "step_traffic"))  # fmt: skip
    return found


def by_axis(ledger: Ledger, rank: int) -> dict[str, float]:
    """Ideal bytes that a rank sends in a step, by axis."""
    return {axis: ledger.ideal_bytes(rank=rank, axis=axis) for axis in _axes(ledger.rows)}


def _axes(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.axis for row in rows))
