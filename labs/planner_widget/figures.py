"""What notebook 06 shows of the planner without widgets: its blocks, prices, scores, a scatter."""

from __future__ import annotations

from dataclasses import replace

from labs.figure import BLUE, MARKERS, ORANGE, Picture, axes, picture
from labs.planner.cost.memory import difference
from labs.planner.evidence.errors import unseen
from labs.planner.evidence.score import aligned, mean
from labs.planner.units import gb
from labs.planner_widget import answer as blocks
from labs.planner_widget.asked import Asked
from labs.planner_widget.words import Shown
from labs.predictions_figure import predictions as predictions

CHOICES = (
    ("fp32 gradients instead of bf16", dict(table="bf16, fp32 gradients"), dict(table="bf16")),
    ("selective recompute", {}, dict(recompute="selective")),
    ("full recompute", {}, dict(recompute="full")),
    ("no sequence parallelism", {}, dict(sp=False)),
    ("no fused attention", {}, dict(flash=False)),
    ("ZeRO-0 instead of 1", dict(zero=1), dict(zero=0)),
    ("ZeRO-3 instead of 1", dict(zero=1), dict(zero=3)),
    ("micro-batches of 2", dict(mbs=1), dict(mbs=2)),
)
"""Name, the plan before, the plan after. The first is read backwards: what fp32 gradients cost."""


def answer(asked: Asked, *names: str) -> Shown:
    """Blocks of the precise view by name. Raises ValueError for a name that is none."""
    unknown = [name for name in names if name not in blocks.BLOCKS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no block; there are {', '.join(blocks.BLOCKS)}")
    found = blocks.answer(asked, precise=True)
    return Shown("".join(found[name] for name in names))


def changed(asked: Asked, **fields: object) -> float:
    """Bytes by which the worst stage's total changes with these choices."""
    after = replace(asked, **fields)
    return difference(
        asked.model(), (asked.layout(), asked.software()), (after.layout(), after.software())
    )


def prices(asked: Asked) -> str:
    """What it costs the worst stage to choose otherwise, choice by choice."""
    rows = []
    for name, before, after in CHOICES:
        cost = changed(replace(asked, **before), **after)
        if name.startswith("fp32 gradients"):
            cost = -cost
        rows.append([name, signed(cost)])
    return aligned(rows)


def signed(count: float) -> str:
    """Bytes in GB with their sign; what rounds to nothing has none."""
    told = gb(abs(count))
    return told if told == gb(0) else f"{'+' if count > 0 else '-'}{told}"


def scatter() -> Picture:
    """Measured seconds of a step against predicted ones, of runs that no fit had seen."""
    figure, (axis,) = axes(6.4, 4.2)
    runs = unseen()
    for kind, zero3, colour, marker in (
        ("other", False, BLUE, MARKERS[0]), ("ZeRO-3", True, ORANGE, MARKERS[1]),
    ):  # fmt: skip
        those = [(run, off) for run, off in runs if (run.layout.zero == 3) == zero3]
        measured = [run.seconds for run, _ in those]
        predicted = [run.seconds * (1 + off) for run, off in those]
        label = f"{kind}: {len(those)} runs"
        axis.plot(measured, predicted, marker, color=colour, fillstyle="none", label=label)
    ends = [min(run.seconds for run, _ in runs), max(run.seconds for run, _ in runs)]
    axis.plot(ends, ends, color="black", linewidth=1, label="as measured")
    axis.plot(ends, [0.9 * end for end in ends], ":", color="black", linewidth=1, label="±10 %")
    axis.plot(ends, [1.1 * end for end in ends], ":", color="black", linewidth=1)
    axis.set(xscale="log", yscale="log", xlabel="measured seconds a step", ylabel="predicted")
    axis.legend(frameon=False)
    near = mean([float(abs(off) <= 0.1) for _, off in runs])
    return picture(figure, f"{len(runs)} published runs, {near:.0%} predicted within 10 %; ZeRO-3 "
                   "lies below the line, predicted too fast")  # fmt: skip
