"""The figures of notebook 00. Each is drawn from what a run returned."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from labs import figure
from labs.figure import BLUE, COLOURS, HATCHES, ORANGE, RED, Picture
from labs.folded import Folded
from labs.predictions_figure import predictions as predictions
from labs.ranks_and_collectives.collectives import COLLECTIVES, Blocks, read
from labs.ranks_and_collectives.cost import Timed
from labs.result import Result

_SHOWN = 4
"""Ranks of the picture: more would not be told apart."""


def plot(result: Result) -> Picture:
    """The times against the sizes, where they were measured; else the collectives."""
    return times(result) if result.values.get("times") else collectives(result)


def collectives(result: Result) -> Picture:
    """What each rank held before and after each collective, read off the tensors that came back."""
    if result.run is None or "collectives" not in result.run.values[0]:
        raise ValueError("this result has no collectives: run the lab with only='collectives'")
    values = result.run.values
    if len(values) > _SHOWN:
        raise ValueError(f"the picture is for up to {_SHOWN} ranks, this run has {len(values)}")
    drawn = Figure(figsize=(7.0, 7.2), dpi=110, layout="constrained")
    for place, one in enumerate(COLLECTIVES.values()):
        ax = drawn.add_subplot(4, 2, place + 1)
        held = [value["collectives"][one.op] for value in values]
        _panel(ax, [read(h["before"]) for h in held], [read(h["after"]) for h in held])
        ax.set_title(f"{one.op}: {one.says}", fontsize=8.5, loc="left")
    drawn.suptitle("A number says which block it is, the stripe which rank it comes from; a sum "
                   "has all stripes", fontsize=9.5)  # fmt: skip
    stripes = [Patch(facecolor=COLOURS[rank], hatch=HATCHES[rank] * 2, edgecolor="white", lw=0,
                     label=f"from rank {rank}") for rank in range(len(values))]  # fmt: skip
    drawn.legend(handles=stripes, loc="outside lower center", ncols=len(stripes), frameon=False,
                 fontsize=8)  # fmt: skip
    told = "; ".join(f"{one.op}: {one.says}" for one in COLLECTIVES.values())
    return figure.picture(
        drawn,
        f"Blocks on {len(values)} ranks before and after each collective, as they came back. "
        f"{told}.",
    )


def _panel(ax: Axes, before: list[Blocks], after: list[Blocks]) -> None:
    """One row a rank: its blocks before on the left, after on the right."""
    t = len(before)
    for rank in range(t):
        ax.text(-0.25, rank, f"rank {rank}", ha="right", va="center", fontsize=7)
        for start, blocks in ((0, before[rank]), (t + 1.4, after[rank])):
            for place in range(t):
                ax.add_patch(Rectangle((start + place, rank - 0.4), 0.9, 0.8, facecolor="none",
                                       edgecolor="#CCCCCC", lw=0.6))  # fmt: skip
            for place, stamp in enumerate(blocks):
                _block(ax, start + place, rank - 0.4, stamp)
    ax.add_patch(FancyArrowPatch((t + 0.05, (t - 1) / 2), (t + 1.25, (t - 1) / 2),
                                 arrowstyle="->", mutation_scale=10, color="black"))  # fmt: skip
    ax.set(xlim=(-1.6, 2 * t + 1.5), ylim=(t - 0.45, -0.55))
    ax.axis("off")


def _block(ax: Axes, x: float, y: float, stamp: tuple[int, ...]) -> None:
    """The block's number, from 0, and below it a stripe for each rank that is in it."""
    width = 0.9 / len(stamp)
    for rank, number in enumerate(stamp):
        if number:
            ax.add_patch(Rectangle((x + rank * width, y + 0.48), width, 0.32,
                                   facecolor=COLOURS[rank], hatch=HATCHES[rank] * 2,
                                   edgecolor="white", lw=0))  # fmt: skip
    ax.add_patch(Rectangle((x, y), 0.9, 0.8, facecolor="none", edgecolor="black", lw=0.7))
    ax.text(x + 0.45, y + 0.25, str(max(stamp) - 1), ha="center", va="center", fontsize=7.5)


def times(result: Result) -> Picture:
    """Measured times of each collective against the size, beside formula and simulator."""
    found: list[Timed] = result.values["times"]
    worlds = sorted({one.ranks for one in found})
    t = 4 if 4 in worlds else worlds[-1]
    drawn = Figure(figsize=(7.0, 4.6), dpi=110, layout="constrained")
    shown = [one for one in found if one.ranks == t]
    axes = drawn.subplots(2, 4, sharex=True, sharey=True).flatten()
    for ax, one in zip(axes, shown, strict=True):
        _times(ax, one)
    for ax in axes[4:]:
        ax.set_xlabel("size of the tensor", fontsize=8)
    for ax in axes[::4]:
        ax.set_ylabel("ms", fontsize=8)
    drawn.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2,
                 frameon=False, fontsize=8)  # fmt: skip
    drawn.suptitle(f"{t} ranks: measured, and what α and β of a ping-pong say", fontsize=10)
    told = ", ".join(
        f"{one.op} formula {one.ratio(one.formula):.2f} and simulator "
        f"{one.ratio(one.simulated):.2f} of what was measured"
        for one in shown
    )
    return figure.picture(drawn, f"Times over sizes on {t} ranks, medians over the sizes: {told}.")


def _times(ax: Axes, one: Timed) -> None:
    sizes = [p.whole for p in one.points]
    x = [size / 2**10 for size in sizes]
    own = one.fit()
    fitted = [
        one.steps() * own.alpha + own.beta * size / sizes[-1] * one.passed(sizes[-1])
        for size in sizes
    ]
    ax.plot(x, [1e3 * one.formula(s) for s in sizes], "-", color=BLUE, lw=1.2,
            label="formula: own links")  # fmt: skip
    ax.plot(x, [1e3 * one.simulated(s) for s in sizes], "--", color=ORANGE, lw=1.4,
            label="simulator: shared cores")  # fmt: skip
    ax.plot(x, [1e3 * f for f in fitted], ":", color="grey", lw=1.2, label="fit to the dots")
    ax.vlines(x, [1e3 * p.seconds for p in one.points], [1e3 * p.median for p in one.points],
              color=RED, lw=0.8)  # fmt: skip
    ax.plot(x, [1e3 * p.seconds for p in one.points], "o", color=RED, ms=3.5,
            label="measured: best try, line to the median")  # fmt: skip
    ax.set(xscale="log", yscale="log")
    ax.xaxis.set_major_locator(FixedLocator([1, 64, 1024, 8192]))
    ax.set_xticklabels(["1 KiB", "64", "1 MiB", "8"])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda ms, _: f"{ms:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.tick_params(labelsize=7)
    ax.grid(axis="y", color="#DDDDDD", lw=0.5)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(one.op, fontsize=8.5)


def fits(result: Result) -> Folded:
    """α and β of the ping-pong and of each collective on most ranks, folded."""
    t = max(one.ranks for one in result.values["times"])
    shown = [one for one in result.values["times"] if one.ranks == t]
    lines = (f"ping-pong of 2 ranks: {shown[0].link}", *map(str, shown))
    return Folded(f"α and β of each collective on {t} ranks", lines)
