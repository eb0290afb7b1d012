"""A plan on real ranks of this machine, tiny: what the planner says of it beside what they did.

    shrink(layout)      a mesh of at most 8 ranks          labs/planner/exports/shrink.py
    measure(...)        ranks train it: what they held, sent, and waited
    compare(...)        the same by labs/planner and labs/formulas, a row each

Predictions know nothing of the run, measurements nothing of a formula. Bytes are of one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from labs import formulas
from labs import ranks as on_ranks
from labs.answers import references
from labs.gpt import Shape
from labs.mesh import accounted, needs
from labs.mesh.config import Config
from labs.mesh.layout import Layout as Mesh
from labs.mesh.programs import Work
from labs.mesh.straggler import Timed
from labs.mesh.trainer import PARTS
from labs.planner.cost.memory import all_stages
from labs.planner.exports.shrink import MOST, Shrunk, shrink
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import COURSE
from labs.ranks import Run

__all__ = [
    "MOST", "Measured", "Row", "Shrunk", "Tiny", "compare", "config_of", "measure", "run_tiny",
    "shrink",
]  # fmt: skip
STEP, PASSES = 1.2, 2
"""Seconds of a step on simulated devices, by the formula; parts of a stage."""
TRIES = 3
WITHIN = dict(peak=0.02, bubble=0.05)
"""How far the peak may be off, as a share; the bubble, as a share of the step's time. All else is
exact."""
DISTURBED = (
    "only the bubble is off, which a clock measured: other work on this machine makes it longer; "
    "try again when it is quiet"
)
AXES = ("dp", "pp", "tp")


NO_PEAK = "no peak: it is predicted for CPUs and gloo, which copies what it reduces; here are GPUs"


@dataclass(frozen=True)
class Row:
    """What, by planner or formula, and on the ranks. apart: measured/predicted - 1; of the bubble,
    which is a share already, the difference."""

    what: str
    predicted: float
    measured: float
    unit: str
    apart: float
    within: float = 0.0
    clock: bool = False  # measured by a clock: whatever else the machine does may fail it

    @property
    def ok(self) -> bool:
        return abs(self.apart) <= self.within

    def __str__(self) -> str:
        share = self.unit == "of the time"
        numbers = [f"{n:.1%}" if share else f"{n:,.0f}" for n in (self.predicted, self.measured)]
        apart = f"{100 * self.apart:+.1f} pt" if share else f"{self.apart:+.2%}"
        apart = "exact" if self.apart == 0 else apart
        verdict = "ok" if self.ok else f"FAIL, beyond {self.within:.0%}"
        return (
            f"{self.what:44}{numbers[0]:>12}{numbers[1]:>12}  {self.unit:12}{apart:>9}  {verdict}"
        )


@dataclass(frozen=True)
class Measured:
    """What ranks told of a step. By rank, but for bytes sent, which are all ranks' of an axis."""

    parameters: list[int]
    state: list[int]  # weights, gradients and optimizer state, at rest
    peak: list[int]  # of all tensors
    left: list[int]  # bytes by which a rank's account may be too high
    sent: dict[str, int]  # payload by axis
    bubble: float | None  # share of the step's time; None without a pipeline
    backend: str = "gloo"


@dataclass(frozen=True)
class Tiny:
    """The tiny run: what it was, and its rows."""

    shrunk: Shrunk
    rows: list[Row]
    measured: Measured
    run: Run | None = None

    @property
    def ok(self) -> bool:
        return all(row.ok for row in self.rows)

    def __str__(self) -> str:
        head = f"{'':44}{'predicted':>12}{'measured':>12}"
        at = self.shrunk.layout
        first = f"{at.gpus} real ranks, {at}, m={at.micro_batches}"
        failed = [row for row in self.rows if not row.ok]
        last = [DISTURBED] if failed and all(row.clock for row in failed) else []
        last += [] if self.measured.backend == "gloo" else [NO_PEAK]
        told = (f"  {one}" for one in self.shrunk.told)
        return "\n".join([first, *told, head, *map(str, self.rows), *last])


def config_of(layout: Layout, model: Model) -> Config:
    """The lab's configuration of a plan for the toy GPT. Raises ValueError as the lab does."""
    shape = Shape(
        model.layers, model.d, model.heads, model.length, model.vocab, model.d_ff, model.tied
    )
    mesh = Mesh(dp=layout.dp, pp=layout.pp, tp=layout.tp)
    return Config(
        mesh, shape, layout.batch, layout.micro_batches, layout.zero, dtype=torch.float32
    )  # fmt: skip


def run_tiny(
    layout: Layout, model: Model | None = None, *, ranks: int = MOST, mode: str | None = None,
    status: bool = True, limit: float = 300.0,
) -> Tiny:  # fmt: skip
    """Shrink the plan, train it for a step or two on real ranks, and hold one against the other.

    model: the plan's, for what is said of it and whether its table is tied. Raises ValueError
    before anything is launched; RunFailed where the run fails.
    """
    shrunk = shrink(layout, model, ranks)
    measured, run = measure(shrunk, mode=mode, status=status, limit=limit)
    return Tiny(shrunk, compare(shrunk, measured), measured, run)


def measure(
    shrunk: Shrunk, *, mode: str | None = None, status: bool = True, limit: float = 300.0
) -> tuple[Measured, Run]:
    """Train it on ranks. Raises ValueError before the launch, RunFailed where it fails."""
    config = config_of(shrunk.layout, shrunk.model)
    needs.check()
    parts = references(PARTS)
    clocked = [timed(config)] if config.layout.pp > 1 else []
    run = on_ranks.launch(
        accounted.on_rank, config.layout.ranks, args=([config], parts, clocked), limit=limit,
        mode=mode, status=status,
    )  # fmt: skip
    return taken(config, run), run


def timed(config: Config) -> Timed:
    """The same step on device clocks, nobody slow; backward takes twice as long as forward."""
    rounds = config.micro_batches + config.layout.pp - 1
    forward = STEP / (3 * PASSES * rounds)
    work = Work(PASSES, forward, 2 * forward)
    return Timed("on device clocks", config.layout, config.micro_batches, work, TRIES)


def taken(config: Config, run: Run, number: int = 0) -> Measured:
    """What the ranks told of configuration `number` of a run."""
    told = run.values[: config.layout.ranks]
    accounts = [value["account"][number] for value in told]
    ledger = run.ledger.where(section=config.name)
    sent = {
        axis: sum(
            row.payload_bytes
            for row in ledger.where(axis=axis).rows
            if row.op != "recv" and row.algorithm != "none"
        )
        for axis in AXES
    }
    clocks = [value["clock"] for value in told]
    return Measured(
        [value["parameters"][number] for value in told],
        [one["rest"] for one in accounts],
        [one["rest"] + one["other"] + one["peak"] for one in accounts],
        [one["left"] for one in accounts],
        sent,
        bubble_of([clock[0] for clock in clocks]) if config.layout.pp > 1 else None,
        run.backend,
    )


def bubble_of(clocks: list[list[Mapping]]) -> float:
    """Share of the ranks' time in which they did not compute, in the shortest of the tries: what
    else the machine does only adds."""
    shares = []
    for tries in zip(*clocks, strict=True):
        wall = max(one["wall"] for one in tries)
        busy = sum(end - begin for one in tries for axis, _, begin, end in one["spans"] if not axis)
        shares.append((wall, 1 - busy / (len(tries) * wall)))
    return min(shares)[1]


def compare(shrunk: Shrunk, measured: Measured) -> list[Row]:
    """A row each: parameters of every stage; state and peak of the worst; bytes by axis; bubble.

    The peak is predicted for CPUs and gloo: where ranks have a GPU each there is no such row.
    """
    at, model = shrunk.layout, shrunk.model
    stages = all_stages(model, at, COURSE)
    on_stage = {
        s: [r for r in range(at.gpus) if _mesh(at).coordinate(r)["pp"] == s] for s in range(at.pp)
    }
    rows = [
        _row(f"parameters of a rank, stage {s}", stages[s].parameters,
             _farthest([measured.parameters[r] for r in those], stages[s].parameters), "")
        for s, those in on_stage.items()
    ]  # fmt: skip
    worst = max(stages, key=lambda one: one.total)
    those = on_stage[worst.stage]
    rows.append(_row(f"state at rest, worst stage ({worst.stage})", worst.state,
                     _farthest([measured.state[r] for r in those], worst.state),
                     "bytes"))  # fmt: skip
    if measured.backend == "gloo":
        clean = min(those, key=lambda r: (measured.left[r], measured.peak[r]))
        rows.append(_row(f"peak of a step, worst stage ({worst.stage})", worst.total,
                         measured.peak[clean], "bytes", WITHIN["peak"]))  # fmt: skip
    said = sent(model, at)
    rows += [
        _row(f"sent in a step along {axis}, all ranks", said[axis], measured.sent[axis], "bytes")
        for axis in AXES if said[axis] or measured.sent[axis]
    ]  # fmt: skip
    if measured.bubble is not None:
        share = formulas.bubble_share(at.pp, at.micro_batches)
        rows.append(Row("bubble, on device clocks", share, measured.bubble, "of the time",
                        measured.bubble - share, WITHIN["bubble"], True))  # fmt: skip
    return rows


def sent(model: Model, at: Layout) -> dict[str, int]:
    """Payload bytes of a step along each axis, all ranks together, by the formulas."""
    found = dict.fromkeys(AXES, 0)
    mesh = _mesh(at)
    for rank in range(mesh.ranks):
        for one in formulas.step_traffic(
            model.decoder, mesh.sizes, mesh.coordinate(rank), at.mbs, at.micro_batches, at.zero,
            COURSE.element_bytes,
        ):  # fmt: skip
            if one.axis in found:
                found[one.axis] += one.payload
    return found


def tiny_layout(
    dp: int, pp: int, tp: int, zero: int = 1, micro_batches: int = 4, mbs: int = 2
) -> Layout:
    """A layout by its degrees. Raises ValueError for what is no number, or no ZeRO stage."""
    if type(micro_batches) is not int or micro_batches < 1:
        raise ValueError(f"micro-batches must be a whole number from 1 on, got {micro_batches!r}")
    one = Layout(dp=dp, pp=pp, tp=tp, mbs=mbs, zero=zero)
    return replace(one, batch=dp * mbs * micro_batches)


def _mesh(at: Layout) -> Mesh:
    return Mesh(dp=at.dp, pp=at.pp, tp=at.tp)


def _farthest(numbers: list[int], predicted: float) -> int:
    """Of what the ranks told, what is farthest from the prediction."""
    return max(numbers, key=lambda number: abs(number - predicted))


def _row(what: str, predicted: float, measured: float, unit: str, within: float = 0.0) -> Row:
    apart = measured / predicted - 1 if predicted else float(measured != 0)
    return Row(what, predicted, measured, unit, apart, within)
