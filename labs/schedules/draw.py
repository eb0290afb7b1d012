"""A timeline as a picture: who computes what when, the bubble hatched, what is stored under it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from labs import figure
from labs.figure import BLUE, GREEN, ORANGE, SKY, Picture
from labs.schedules.instructions import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD
from labs.schedules.timeline import Timeline

# Told apart by colour, by hatch and by where the number stands; later chunks are lighter.
_LOOK = {
    FORWARD: ("forward", BLUE, ""),
    BACKWARD: ("backward", ORANGE, "//"),
    BACKWARD_INPUT: ("backward, input", ORANGE, "//"),
    BACKWARD_WEIGHT: ("backward, weights", GREEN, "\\\\"),
}
_MOST_NUMBERS = 400  # boxes that still get their micro-batch's number


def gantt(
    timelines: Timeline | Sequence[Timeline], titles: Sequence[str] = (), stored: bool = True,
    unit: str = "",
) -> Picture:  # fmt: skip
    """Draw timelines under one another on one axis of time.

    titles: one for each; stored: show under each how many forward passes the first and the last
    rank store; unit: of time, for the axis.
    """
    shown = [timelines] if isinstance(timelines, Timeline) else list(timelines)
    titles = list(titles) or [one.schedule.name for one in shown]
    rows = []
    for one in shown:
        rows += [("gantt", one)] + ([("stored", one)] if stored else [])
    heights = [0.34 * one.schedule.ranks + 0.5 if kind == "gantt" else 0.8 for kind, one in rows]
    drawn = figure.empty(9.0, sum(heights) + 0.7)
    axes = drawn.subplots(len(rows), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    end = max(one.makespan for one in shown)
    named = iter(titles)
    for (kind, one), ax in zip(rows, axes, strict=True):
        ax.spines[["top", "right"]].set_visible(False)
        if kind == "gantt":
            _rows(ax, one)
            ax.set_title(f"{next(named)}: bubble {one.bubble_share:.1%} of the time", fontsize=9)
        else:
            _stored(ax, one)
    axes[-1].set_xlim(0, end)
    axes[-1].set_xlabel(f"time{f' ({unit})' if unit else ''}")
    kinds = {at.kind for one in shown for order in one.schedule.orders for at in order}
    patches = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name)
        for kind, (name, colour, hatch) in _LOOK.items() if kind in kinds
    ]  # fmt: skip
    patches.append(Patch(facecolor="0.93", hatch="xx", edgecolor="0.75", label="bubble"))
    drawn.legend(handles=patches, loc="outside upper right", ncols=len(patches), fontsize=8)
    return figure.picture(drawn, alt(shown, titles))


def _rows(ax: Axes, timeline: Timeline) -> None:
    schedule = timeline.schedule
    first = min((start[0] for start in timeline.starts if start), default=0.0)
    boxes = sum(map(len, schedule.orders))
    for rank in range(schedule.ranks):
        ax.add_patch(
            Rectangle((0, rank - 0.4), timeline.makespan, 0.8, facecolor="0.93", hatch="xx",
                      edgecolor="0.75", linewidth=0)
        )  # fmt: skip
    for span in timeline.spans():
        _, colour, hatch = _LOOK[span.instruction.kind]
        chunk = span.instruction.chunk
        if chunk and span.instruction.kind == FORWARD:
            colour = SKY
        left, width = span.start - first, span.end - span.start
        ax.add_patch(
            Rectangle((left, span.rank - 0.4), width, 0.8, facecolor=colour, hatch=hatch,
                      edgecolor="white", linewidth=0.5)
        )  # fmt: skip
        if boxes <= _MOST_NUMBERS:
            shade = "white" if colour in (BLUE, GREEN) else "black"
            ax.text(left + width / 2, span.rank, span.instruction.micro_batch, fontsize=6.5,
                    ha="center", va="center", color=shade)  # fmt: skip
    ax.set_ylim(schedule.ranks - 0.5, -0.5)
    ax.set_yticks(range(schedule.ranks), [f"rank {rank}" for rank in range(schedule.ranks)])


def _stored(ax: Axes, timeline: Timeline) -> None:
    first = min((start[0] for start in timeline.starts if start), default=0.0)
    last = timeline.schedule.ranks - 1
    for rank, colour, style in ((0, BLUE, "-"), (last, ORANGE, "--")):
        changes = timeline.stored(rank)
        ax.step([t - first for t, _ in changes], [n for _, n in changes], where="post",
                color=colour, linestyle=style, label=f"rank {rank}")  # fmt: skip
        if last == 0:
            break
    ax.set_ylim(bottom=0)
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.set_ylabel("stored", fontsize=8)
    ax.legend(fontsize=7, loc="upper right")


def alt(timelines: Sequence[Timeline], titles: Sequence[str]) -> str:
    """The picture in words."""
    told = []
    for one, title in zip(timelines, titles, strict=True):
        peaks = [one.peak_stored(rank) for rank in range(one.schedule.ranks)]
        told.append(
            f"{title}: {one.schedule.ranks} ranks, {one.schedule.micro_batches} micro-batches, "
            f"bubble {one.bubble_share:.1%}, at most {', '.join(map(str, peaks))} stored on ranks "
            f"0 to {one.schedule.ranks - 1}"
        )
    return "Who computes when. " + "; ".join(told)
