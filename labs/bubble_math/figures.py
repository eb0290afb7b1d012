"""The figures of notebook 02. What was measured stands beside formula and simulator."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from labs import figure, formulas
from labs.bubble_math.accounts import LESSON
from labs.bubble_math.jobs import CLOCK, COMPUTE, UNEVEN
from labs.figure import BLUE, COLOURS, MARKERS, Picture
from labs.folded import Folded
from labs.pipeline import agreement_figure
from labs.pipeline.agreement import Agreement
from labs.predictions_figure import predictions as predictions
from labs.result import Result


def plot(result: Result) -> Picture:
    """Bubble against m: formula, simulator and ranks, and the residual; else what was run."""
    if result.values.get(CLOCK):
        return agreement_figure.overlaid(result.values[CLOCK])
    if result.values.get(UNEVEN):
        return uneven(result)
    return computed(result)


def uneven(result: Result, which: int = 0) -> Picture:
    """A pipeline with one slow stage: simulated above measured, and where the formula ends.

    which: 0 the straggler, 1 the heavy head. Raises ValueError where it was not run.
    """
    return agreement_figure.side_by_side(_one(result, UNEVEN, which))


def computed(result: Result) -> Picture:
    """A pipeline that really computes: simulated from its measured parts, above measured.

    Raises ValueError where it was not run.
    """
    return agreement_figure.side_by_side(_one(result, COMPUTE, 0))


def _one(result: Result, section: str, which: int) -> Agreement:
    found = result.values.get(section, [])
    if not 0 <= which < len(found):
        raise ValueError(
            f"this result has no run {which} of {section!r}: run the lab with only={section!r}"
        )
    return found[which]


def residuals(result: Result) -> Folded:
    """Formula, simulated, measured and residual of each timed job, folded."""
    found = [one for section in (CLOCK, UNEVEN, COMPUTE) for one in result.values.get(section, [])]
    return agreement_figure.table(found, "Formula, simulator and ranks")


def shares(p_values: Sequence[int] = (2, 4, 8, 16), m_max: int = 256) -> Picture:
    """The bubble against m by both definitions, the lesson's points and the rules of thumb."""
    if not p_values or not m_max > 1:
        raise ValueError(
            f"shares needs ranks, as (2, 4), and m_max above 1; got {p_values!r} and {m_max!r}"
        )
    for p in p_values:
        formulas.bubble_share(p, m_max)  # refuses what cannot be
    drawn, (ax,) = figure.axes(8.0, 4.8)
    ms = [m_max ** (step / 120) for step in range(121)]
    for n, p in enumerate(p_values):
        colour = COLOURS[n % len(COLOURS)]
        ax.plot(ms, [(p - 1) / (m + p - 1) for m in ms], color=colour, lw=1.8, label=f"p={p}")
        ax.plot(ms, [(p - 1) / m for m in ms], color=colour, lw=1, ls="--")
    ax.plot([], [], color="0.4", lw=1.8, label="÷ total time, (p-1)/(m+p-1)")
    ax.plot([], [], color="0.4", lw=1, ls="--", label="÷ ideal time, (p-1)/m")
    for times, style in ((4, ":"), (8, "-.")):
        many = [p_values[0] + (p_values[-1] - p_values[0]) * step / 60 for step in range(61)]
        line = [(times * p, (p - 1) / (times * p + p - 1)) for p in many if times * p <= m_max]
        if line:
            ax.plot(*zip(*line, strict=True), color="black", lw=1.3, ls=style,
                    label=f"m = {times}p, ÷ total time")  # fmt: skip
    told = _lesson(ax, p_values, m_max)
    ax.axhline(0.1, color="black", lw=0.8)
    ax.text(1.02, 0.107, "10%", fontsize=8)
    ax.set(xscale="log", xlim=(1, m_max), ylim=(0, 1), xlabel="micro-batches m")
    ax.xaxis.set_major_locator(FixedLocator([2**k for k in range(12) if 2**k <= m_max]))
    ax.xaxis.set_major_formatter(lambda m, _: f"{m:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.set_title("The bubble by both definitions; marked: the lesson's figures", fontsize=10)
    ax.legend(frameon=False, fontsize=8.5)
    rules = "; ".join(
        f"p={p}: {formulas.bubble_share(p, 4 * p):.1%} at m=4p, "
        f"{formulas.bubble_share(p, 8 * p):.1%} at m=8p" for p in p_values
    )  # fmt: skip
    return figure.picture(
        drawn,
        f"Bubble against the number of micro-batches, by both definitions, for p = "
        f"{', '.join(map(str, p_values))}. {told}{rules}.",
        colours=256,
    )


def _lesson(ax: object, p_values: Sequence[int], m_max: int) -> str:
    told = []
    for p, m in LESSON:
        if p in p_values and m <= m_max:
            share = formulas.bubble_share(p, m)
            n = list(p_values).index(p) % len(COLOURS)
            ax.plot(m, share, MARKERS[n], color=COLOURS[n], mec="black", ms=7, zorder=4)
            close = share < 0.07  # lines lie close there: beside them, with a line to the mark
            ax.annotate(f"{share:.1%}", (m, share), xytext=(4, 74) if close else (6, 7),
                        textcoords="offset points", fontsize=8.5, zorder=5,
                        arrowprops=dict(arrowstyle="-", lw=0.7, shrinkB=4) if close else None,
                        bbox=dict(facecolor="white", edgecolor="none", pad=0.8))  # fmt: skip
            told.append(f"p={p}, m={m}: {share:.1%}")
    return f"Marked: {', '.join(told)}. " if told else ""


def slots(grid: Sequence[Sequence[int | None]]) -> Picture:
    """A forward-only pipeline in slots: which micro-batch each rank has in each slot.

    grid: by rank, by slot; None: idle, hatched. Rows may differ in length.

    Raises ValueError for what is no such grid.
    """
    rows = _rows(grid)
    width = max(map(len, rows))
    drawn, (ax,) = figure.axes(min(9.0, max(4.0, 1.4 + 0.4 * width)), 1.1 + 0.36 * len(rows))
    idle = 0
    for rank, row in enumerate(rows):
        for slot in range(width):
            i = row[slot] if slot < len(row) else None
            idle += i is None
            look = dict(facecolor="0.95", hatch="xxx", edgecolor="0.82") if i is None else dict(
                facecolor=BLUE, edgecolor="white")  # fmt: skip
            ax.add_patch(Rectangle((slot, rank - 0.42), 1, 0.84, linewidth=0.6, **look))
            if i is not None:
                ax.text(slot + 0.5, rank, i, ha="center", va="center", color="white",
                        fontsize=8 if width <= 30 else 6)  # fmt: skip
    share = idle / (width * len(rows))
    ax.set(xlim=(0, width), ylim=(len(rows) - 0.5, -0.5), xlabel="slot")
    ax.set_yticks(range(len(rows)), [f"rank {rank}" for rank in range(len(rows))], fontsize=8)
    each = max(1, width // 16)
    ax.set_xticks([s + 0.5 for s in range(0, width, each)], range(0, width, each), fontsize=8)
    told = f"{idle} of {width * len(rows)} slots are bubble: {share:.1%}"
    ax.set_title(told, fontsize=10)
    by_rank = "; ".join(
        f"rank {rank}: {' '.join('-' if i is None else str(i) for i in row)}"
        for rank, row in enumerate(rows)
    )
    return figure.picture(drawn, f"{told}. By slot, {by_rank}.", colours=256)


def _rows(grid: object) -> list[list[int | None]]:
    what = "a grid is a list for each rank, of a micro-batch's number or None for each slot"
    if not isinstance(grid, Sequence) or isinstance(grid, str) or not grid:
        raise ValueError(f"{what}; got {grid!r}")
    for rank, row in enumerate(grid):
        if not isinstance(row, Sequence) or isinstance(row, str):
            raise ValueError(f"{what}; rank {rank} has {row!r}")
        for slot, i in enumerate(row):
            if i is not None and (isinstance(i, bool) or not isinstance(i, Integral)):
                raise ValueError(f"{what}; rank {rank}, slot {slot} has {i!r}")
    if not any(map(len, grid)):
        raise ValueError(f"{what}; this one has no slot")
    return [list(row) for row in grid]
