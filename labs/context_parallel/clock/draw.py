"""A ring's timeline as a picture: who works on which block when, and what travels meanwhile.

A row a rank. Its computations stand above, with the number of the block; the messages that it sends
below, as long as they were on their way. Nothing is told by colour alone: backward is striped, sums
are dotted, idle time is crossed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from labs import figure
from labs.context_parallel.clock.timeline import BACKWARD, FORWARD, KV, SUMS, RingTimeline
from labs.figure import BLUE, GREEN, ORANGE, PINK, Picture

_IDLE = dict(facecolor="0.95", hatch="xxx", edgecolor="0.82", linewidth=0)
_WORK = {FORWARD: ("forward", BLUE, "", "white"), BACKWARD: ("backward", ORANGE, "///", "black")}
_SENT = {KV: (GREEN, ""), SUMS: (PINK, "....")}
# Of a row whose middle is a whole number, downwards: computations, then messages.
_UPPER, _LOWER, _SLOT = (-0.42, 0.50), (0.12, 0.26), 0.13
_WIDTH, _ROW, _REST = 9.0, 0.3, 0.34  # inches: of a figure, of a rank, around a panel
_LETTER = 0.085  # inches that a digit in a box needs
MS = 1e3


@dataclass(frozen=True)
class Panel:
    """One timeline with its title; formula: the end by the closed form, in seconds."""

    title: str
    timeline: RingTimeline
    formula: float | None = None
    wall: float | None = None  # the measured end; None: the timeline's own

    @property
    def end(self) -> float:
        return self.timeline.makespan if self.wall is None else self.wall


def gantt(panels: Sequence[Panel], note: str, alt: str) -> Picture:
    """The panels under one another on one axis of time; note: stands below."""
    heights = [panel.timeline.ranks for panel in panels]
    drawn = figure.empty(_WIDTH, _ROW * sum(heights) + _REST * len(panels) + 0.75)
    axes = drawn.subplots(len(panels), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
    end = max(max(panel.end, panel.formula or 0.0) for panel in panels) * MS
    for ax, panel in zip(axes, panels, strict=True):
        ax.spines[["top", "right"]].set_visible(False)
        _rows(ax, panel, end)
        ax.set_title(panel.title, fontsize=9, loc="left", pad=3)
        ax.tick_params(labelsize=8)
    axes[-1].set_xlim(0, end * 1.01)
    axes[-1].set_xlabel(f"ms   ({note})", fontsize=9)
    keys = _legend(panels)
    drawn.legend(handles=keys, loc="outside upper center", ncols=len(keys), fontsize=8,
                 frameon=False, handlelength=1.8, columnspacing=1.2)  # fmt: skip
    return figure.picture(drawn, alt, colours=256)


def _rows(ax: Axes, panel: Panel, end: float) -> None:
    timeline, ranks = panel.timeline, panel.timeline.ranks
    for rank in range(ranks):
        ax.broken_barh([(0, panel.end * MS)], (rank + _UPPER[0], _UPPER[1]), **_IDLE)
    for one in timeline.computations:
        _, colour, hatch, ink = _WORK[one.phase]
        start, long = one.start * MS, (one.end - one.start) * MS
        ax.broken_barh([(start, long)], (one.rank + _UPPER[0], _UPPER[1]), facecolor=colour,
                       hatch=hatch, edgecolor=_lighter(colour), linewidth=0.4)  # fmt: skip
        if long / end * (_WIDTH - 1) > _LETTER * len(str(one.block)):
            middle = one.rank + _UPPER[0] + _UPPER[1] / 2
            ax.text(start + long / 2, middle, str(one.block), fontsize=6.5, color=ink,
                    ha="center", va="center_baseline")  # fmt: skip
    for one in timeline.messages:
        colour, hatch = _SENT[one.what]
        top = one.rank + _LOWER[0] + (_SLOT if one.what == SUMS else 0)
        ax.broken_barh([(one.start * MS, (one.end - one.start) * MS)], (top, _SLOT),
                       facecolor=colour, hatch=hatch, edgecolor=_lighter(colour),
                       linewidth=0)  # fmt: skip
    if panel.formula is not None:
        ax.axvline(panel.formula * MS, color="black", lw=1.4, ls=(0, (4, 2)))
    ax.set_ylim(ranks - 0.52, -0.52)
    ax.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)], fontsize=8)


def _lighter(colour: str) -> tuple[float, ...]:
    return tuple(channel + (1 - channel) * 0.7 for channel in to_rgb(colour))


def _legend(panels: Sequence[Panel]) -> list:
    phases = {one.phase for panel in panels for one in panel.timeline.computations}
    sent = {one.what for panel in panels for one in panel.timeline.messages}
    keys: list = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=_lighter(colour), linewidth=0,
              label=f"{name}, block's number")
        for phase, (name, colour, hatch, _) in _WORK.items() if phase in phases
    ]  # fmt: skip
    keys += [
        Patch(facecolor=colour, hatch=hatch, edgecolor=_lighter(colour), linewidth=0,
              label=f"sends {what}")
        for what, (colour, hatch) in _SENT.items() if what in sent
    ]  # fmt: skip
    keys.append(Patch(label="idle", **_IDLE))
    if any(panel.formula is not None for panel in panels):
        keys.append(Line2D([], [], color="black", lw=1.4, ls=(0, (4, 2)), label="formula's end"))
    return keys
