"""What travels on which axis: bytes by axis and phase of one step, counted, beside the formulas.

tp     inside a layer, in every pass       pp    between stages, once a micro-batch
dp     gradients and weights of ZeRO       ends, mesh   a tied table; the loss and the norm
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from labs import formulas
from labs.formulas import Sent
from labs.mesh import measured
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh_3d import jobs, sizes
from labs.mesh_3d.ask import Ask
from labs.ranks.ledger import Ledger
from labs.result import Check, Result, equal

SECTION = "traffic"
FEW, MANY = 1, 4
"""Micro-batches between which gathers are compared."""


@dataclass(frozen=True)
class Row:
    """Calls of one kind by one rank: what the ledger has of them, and what the formula says."""

    config: Config
    rank: int
    got: Sent | None
    want: Sent | None

    @property
    def ok(self) -> bool:
        """The same count, payload and ideal bytes."""
        return self.got == self.want

    @property
    def axis(self) -> str:
        return (self.got or self.want).axis

    @property
    def kind(self) -> str:
        """Axis, phase and operation."""
        one = self.got or self.want
        return f"{one.axis}, {one.phase}, {one.op}"


def configs(ask: Ask) -> list[Config]:
    """Every way to share out, tied and untied, at the layout asked for; two of them at others."""
    first, *others = sizes.layouts(ask.ranks, _without_cp(ask.layout))
    found = [
        sizes.config(first, zero, tied, reshard)
        for tied in (False, True)
        for zero, reshard in jobs.WAYS
    ]
    for number, layout in enumerate(others):
        for place in (2 * number, 2 * number + 1):  # round and round
            zero, reshard = jobs.WAYS[place % len(jobs.WAYS)]
            found.append(sizes.config(layout, zero, place % 2 == 0, reshard))
    return list(dict.fromkeys([*found, asked(ask), *fsdp(ask.ranks)]))


def asked(ask: Ask) -> Config:
    """The configuration whose bytes are shown one by one."""
    return sizes.config(_without_cp(ask.layout), ask.zero, ask.tied)


def fsdp(ranks: int) -> list[Config]:
    """ZeRO-3, under a pipeline where the ranks suffice: few micro-batches and many, both ways."""
    layout = Layout(dp=2, pp=2) if ranks >= 4 else Layout(dp=2)
    return [
        sizes.config(layout, 3, reshard=reshard, m=m)
        for reshard in (True, False)
        for m in (FEW, MANY)
    ]


def _without_cp(layout: Layout) -> Layout:
    return replace(layout, cp=1)


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Count one step of every configuration; values["traffic"]: the rows of the one asked for."""
    if ask.ranks < 2:
        result.notes.append(f"{SECTION} left out: one rank sends nothing")
        return
    todo = configs(ask)
    run = ask.launch(measured.sent, todo, parts)
    result.run = result.run or run
    shown = rows(asked(ask), run.ledger)
    result.values[SECTION] = shown
    result.checks += [_row_check(row) for row in _one_a_stage(shown)]
    result.checks += checks(todo, run.ledger)
    result.checks += gather_checks(fsdp(ask.ranks), run.ledger)


def rows(config: Config, ledger: Ledger) -> list[Row]:
    """All that the ranks of one configuration sent in a step, each beside its formula."""
    layout, model, found = config.layout, sizes.decoder(config.model), []
    for rank in range(layout.ranks):
        told = [
            Sent(row.axis, row.op, row.phase, row.count, row.payload_bytes, row.ideal_bytes)
            for row in ledger.where(section=config.name, rank=rank).rows
            if row.op != "recv" and row.algorithm != "none"  # a group of one sends nothing
        ]
        formula = formulas.step_traffic(
            model, layout.sizes, layout.coordinate(rank), config.rows, config.micro_batches,
            config.zero, config.dtype.itemsize, config.reshard,
        )  # fmt: skip
        got, want = _by_kind(told), _by_kind(formula)
        found += [Row(config, rank, got.get(k), want.get(k)) for k in dict.fromkeys([*want, *got])]
    return found


def _by_kind(sent: Sequence[Sent]) -> dict[tuple, Sent]:
    """By axis, phase and operation. A ring of three sends thirds: not summed to the last bit."""
    return {(s.axis, s.phase, s.op): replace(s, ideal=round(s.ideal, 3)) for s in sent}


def checks(todo: Sequence[Config], ledger: Ledger) -> list[Check]:
    """Of each configuration: every rank's calls, payloads and ideal bytes are those of the formula.

    What is shown is the sum over ranks; where one row differs, that row.
    """
    made = []
    for config in todo:
        found = rows(config, ledger)
        wrong = [row for row in found if not row.ok]
        if wrong:
            made.append(_row_check(wrong[0]))
            continue
        got, want = (round(sum(getattr(row, of).ideal for row in found)) for of in ("got", "want"))
        axes = ", ".join(dict.fromkeys(row.axis for row in found))
        made.append(
            equal(f"{config.name}: sent in a step on {axes}, all ranks", got, want, "bytes",
                  "calls, payload and ring bytes, rank by rank")
        )  # fmt: skip
    return made


def _one_a_stage(found: Sequence[Row]) -> list[Row]:
    """Ranks that differ in dp or tp alone send alike: rows of the first rank of each stage."""
    layout = found[0].config.layout
    return [
        row for row in found
        if not any(layout.coordinate(row.rank)[axis] for axis in ("dp", "tp"))
    ]  # fmt: skip


def _row_check(row: Row) -> Check:
    """One row: calls, payload and ideal bytes."""
    name = f"{row.config.name}: {row.kind}, {sizes.place(row.config.layout, row.rank)}"
    return equal(name, _told(row.got), _told(row.want), "", _SOURCE.get(row.axis, "no such axis"))


def _told(sent: Sent | None) -> str:
    if sent is None:
        return "nothing"
    return f"{sent.count} calls of {sent.payload:,} bytes, a ring sends {sent.ideal:,.0f}"


_SOURCE = {
    "tp": "4 all-reduces of B·T·d·e a layer; embedding, head, loss",
    "pp": "B·T·d·e a micro-batch and boundary, both ways",
    "dp": "parameters of the rank, as ZeRO has it",
    "ends": "the table that both ends hold",
    "mesh": "loss and norm, 8 bytes each",
}


def gather_checks(todo: Sequence[Config], ledger: Ledger) -> list[Check]:
    """FSDP under a pipeline: how often a rank gathers, with few micro-batches and with many."""

    def calls(op: str, reshard: bool, m: int) -> int:
        one = next(c for c in todo if c.reshard is reshard and c.micro_batches == m)
        return ledger.count(section=one.name, rank=0, axis="dp", op=op)

    made = []
    n = len(sizes.units(todo[0], 0))
    for reshard, told in ((True, "weights let go after each pass"), (False, "weights kept")):
        name = f"ZeRO-3, {todo[0].layout}, {told}"
        for m in (FEW, MANY):
            times = sum(formulas.zero_gathers(1, m, reshard))
            what = f"{name}, m={m}: all-gathers of a rank's {n} units"
            made.append(equal(what, calls("all_gather", reshard, m), n * times, "",
                              "2 a unit and micro-batch, or 1 a step"))  # fmt: skip
        ratio = calls("all_gather", reshard, MANY) / calls("all_gather", reshard, FEW)
        made.append(equal(f"{name}: all-gathers at m={MANY} over m={FEW}", ratio,
                          MANY // FEW if reshard else 1, "", "gathers a micro-batch"))  # fmt: skip
        ratio = calls("reduce_scatter", reshard, MANY) / calls("reduce_scatter", reshard, FEW)
        made.append(equal(f"{name}: reduce-scatters at m={MANY} over m={FEW}", ratio,
                          MANY // FEW, "", "gradients are reduced each micro-batch"))  # fmt: skip
    return made
