"""A timeline as a picture: who computes what when, the bubble hatched, what is stored under it.

Nothing is told by colour alone: forward passes are plain, backward passes striped, and a bar at the
foot of a box says which chunk of the model it is, none for chunk 0 and a taller one for each more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import Affine2D

from labs import figure
from labs.figure import BLUE, GREEN, ORANGE, PINK, Picture
from labs.schedules.instructions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    forward,
)
from labs.schedules.timeline import Span, Timeline

_LOOK = {  # name, colour, hatch, colour of the number
    FORWARD: ("forward", BLUE, "", "white"),
    BACKWARD: ("backward", ORANGE, "////", "black"),
    BACKWARD_INPUT: ("backward, input", PINK, "....", "black"),
    BACKWARD_WEIGHT: ("backward, weights", GREEN, "\\\\", "black"),
}
_BUBBLE = dict(facecolor="0.95", hatch="xxx", edgecolor="0.82")
# Inches. The places are worked out here: to have them found takes longer than to draw.
_WIDTH, _LEFT, _RIGHT = 9.0, 0.62, 0.12
_LEGEND, _LINE, _ROW, _GAP, _STORED, _FOOT = 0.3, 0.17, 0.36, 0.12, 0.75, 0.48
_LETTERS = (6.5, 4.8)  # points: as wished, and the smallest that can be read
_HALF = 0.42  # of a box's height
_MOST_NUMBERS = 1200  # boxes that still get their micro-batch's number
_BAR = 0.16  # of the row's height, for each chunk after the first


@dataclass(frozen=True)
class Drawn:
    """A picture and where its axis of time lies: `left` and `right` as shares of its width."""

    picture: Picture
    left: float
    right: float
    end: float  # the time at `right`


def gantt(
    timelines: Timeline | Sequence[Timeline], titles: Sequence[str] = (), stored: bool = True,
    unit: str = "", *, scale: float = 1.0, shares: Sequence[float] = (),
    formula: float | None = None,
) -> Picture:  # fmt: skip
    """Draw timelines under one another on one axis of time.

    titles: one for each; stored: show under each how many forward passes the first and the last
    rank store; unit: of time, for the axis; scale: what a time is multiplied by to be in that unit;
    shares: of the bubble, one for each (none: as the timelines have it); formula: a moment to be
    marked, in the timelines' own unit.
    """
    return drawn(timelines, titles, stored, unit, scale, shares, formula).picture


def drawn(
    timelines: Timeline | Sequence[Timeline], titles: Sequence[str] = (), stored: bool = True,
    unit: str = "", scale: float = 1.0, shares: Sequence[float] = (),
    formula: float | None = None,
) -> Drawn:  # fmt: skip
    """As `gantt`, and where on the picture its axis of time lies."""
    shown = [timelines] if isinstance(timelines, Timeline) else timelines
    if not isinstance(shown, Sequence) or not shown:
        raise ValueError(
            f"a timeline is drawn, or a list of them, as simulate gives; got {shown!r}"
        )
    titles = [titles] if isinstance(titles, str) else list(titles)
    titles = titles or [one.schedule.name for one in shown]
    if len(titles) != len(shown):
        raise ValueError(f"{len(titles)} titles for {len(shown)} timelines; each has one")
    shares = list(shares) or [one.bubble_share for one in shown]
    end = max([one.makespan * scale for one in shown] + [(formula or 0.0) * scale])
    drawn_, axes = _rows_of(shown, titles, stored, end)
    for one, title, share, (upper, lower) in zip(shown, titles, shares, axes, strict=True):
        _gantt(upper, one, scale, end)
        upper.set_title(f"{title}: bubble {share:.1%} of the time", fontsize=9, pad=4)
        if lower is not None:
            _stored(lower, one, scale)
        if formula is not None:
            for ax in filter(None, (upper, lower)):
                ax.axvline(formula * scale, color="black", lw=1.6, ls=(0, (4, 2)), zorder=5)
    last = axes[-1][1] or axes[-1][0]
    last.set_xlabel(f"time ({unit})" if unit else "time", fontsize=9, labelpad=2)
    keys = _legend(shown, formula is not None)
    drawn_.legend(handles=keys, loc="upper center", ncols=len(keys), fontsize=8, frameon=False,
                  handlelength=1.8, columnspacing=1.4, borderaxespad=0.2)  # fmt: skip
    told = alt(shown, titles, shares, formula, scale, unit)
    made = figure.picture(drawn_, told, colours=256)
    return Drawn(made, _LEFT / _WIDTH, 1 - _RIGHT / _WIDTH, end)


def _rows_of(
    shown: Sequence[Timeline], titles: Sequence[str], stored: bool, end: float
) -> tuple[Figure, list[tuple[Axes, Axes | None]]]:
    """An empty figure: for each timeline an axes of its ranks, and one of what is stored."""
    places, down = [], _LEGEND  # (top, height) in inches from the top
    for one, title in zip(shown, titles, strict=True):
        down += _LINE * (1 + title.count("\n")) + 0.08
        heights = [_ROW * one.schedule.ranks] + ([_STORED] if stored else [])
        for height in heights:
            places.append((down, height))
            down += height + _GAP
    whole = down - _GAP + _FOOT
    made = figure.empty(_WIDTH, whole)
    made.set_layout_engine("none")
    flat: list[Axes] = []
    for top, height in places:
        at = (_LEFT / _WIDTH, 1 - (top + height) / whole, 1 - (_LEFT + _RIGHT) / _WIDTH,
              height / whole)  # fmt: skip
        ax = made.add_axes(at)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlim(0, end or 1.0)
        ax.tick_params(labelsize=8, labelbottom=len(flat) == len(places) - 1)
        flat.append(ax)
    step = 2 if stored else 1
    return made, [(flat[n], flat[n + 1] if stored else None) for n in range(0, len(flat), step)]


def _gantt(ax: Axes, timeline: Timeline, scale: float, end: float) -> None:
    schedule = timeline.schedule
    zero = min((start[0] for start in timeline.starts if start), default=0.0)
    whole = [Span(rank, forward(0), zero, zero + timeline.makespan)
             for rank in range(schedule.ranks)]  # fmt: skip
    ax.add_artist(PathPatch(_boxes(whole, zero, scale, -_HALF), linewidth=0, **_BUBBLE))
    alike: dict[tuple[str, int], list[Span]] = {}
    for span in timeline.spans():
        alike.setdefault((span.instruction.kind, span.instruction.chunk), []).append(span)
    points = (_WIDTH - _LEFT - _RIGHT) * 72 / end if end else 0.0  # a unit of time on paper
    for (kind, chunk), spans in alike.items():
        _, colour, hatch, _ = _LOOK[kind]
        edge = min(0.6, 0.1 * points * scale * min(span.end - span.start for span in spans))
        face, stripe = _shades(colour, chunk)
        ax.add_artist(
            PathPatch(_boxes(spans, zero, scale, -_HALF), facecolor=face, hatch=hatch,
                      edgecolor=stripe, linewidth=edge, snap=True)
        )  # fmt: skip
        if chunk:
            bars = _boxes(spans, zero, scale, _HALF - _BAR * chunk)
            ax.add_artist(PathPatch(bars, facecolor="0.2", edgecolor="white", linewidth=edge,
                                   snap=True))  # fmt: skip
    if sum(map(len, schedule.orders)) <= _MOST_NUMBERS:
        _numbers(ax, timeline, zero, scale, points)
    ax.set_ylim(schedule.ranks - 0.5, -0.5)
    ax.set_yticks(range(schedule.ranks), [f"rank {rank}" for rank in range(schedule.ranks)],
                  fontsize=8)  # fmt: skip


def _numbers(ax: Axes, timeline: Timeline, zero: float, scale: float, points: float) -> None:
    """The micro-batch in each box that has room for it; upright where the box is narrow.

    As outlines in a few collections, for a text each is slow: hundreds of them take half a second.
    """
    alike: dict[str, list[tuple[Path, tuple[float, float]]]] = {}
    for span in timeline.spans():
        kind, i, chunk = span.instruction
        size, turn = _fitting(str(i), (span.end - span.start) * scale * points)
        if size:
            at = ((span.start + span.end) / 2 - zero) * scale, span.rank - _BAR * chunk / 2
            ink = "black" if chunk else _LOOK[kind][3]
            alike.setdefault(ink, []).append((_outline(i, size, turn), at))
    for ink, found in alike.items():
        ax.add_collection(
            PathCollection([path for path, _ in found], offsets=[at for _, at in found],
                           offset_transform=ax.transData, facecolor=ink, linewidth=0,
                           transform=Affine2D().scale(ax.figure.dpi / 72), zorder=3)
        )  # fmt: skip


@lru_cache(maxsize=4096)
def _outline(number: int, size: float, turn: int) -> Path:
    """A number's outline in points, its middle at (0, 0)."""
    drawn_ = TextPath((0, 0), str(number), size=size)
    box = drawn_.get_extents()
    middle = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2)
    return middle.rotate_deg(turn).transform_path(drawn_)


def _fitting(digits: str, width: float) -> tuple[float, int]:
    """Letter size in points and rotation at which digits fit a width in points; size 0: not."""
    for size in _LETTERS:
        if 0.62 * size * len(digits) + 0.8 <= width:
            return size, 0
    for size in _LETTERS:
        if size * 0.75 + 0.6 <= width:
            return size, 90
    return 0.0, 0


def _boxes(spans: Sequence[Span], zero: float, scale: float, top: float) -> Path:
    """Boxes as one path, from `top` to the foot of their rank's row: stripes are drawn once."""
    corners = []
    for span in spans:
        left, right = (span.start - zero) * scale, (span.end - zero) * scale
        upper, lower = span.rank + top, span.rank + _HALF
        corners += [(left, upper), (right, upper), (right, lower), (left, lower), (left, upper)]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(spans)
    return Path(corners, codes)


def _shades(colour: str, chunk: int) -> tuple[tuple, tuple]:
    """Of a box and of its stripes: light on dark for chunk 0, and the reverse for later ones."""
    pale, light, dark = (_lighter(colour, paler) for paler in (0.6 + 0.05 * chunk, 0.7, 0.25))
    return (pale, dark) if chunk else (_lighter(colour, 0), light)


def _lighter(colour: str, paler: float) -> tuple[float, ...]:
    """The colour itself at 0, white at 1."""
    return tuple(channel + (1 - channel) * paler for channel in to_rgb(colour))


def _legend(shown: Sequence[Timeline], marked: bool) -> list:
    kinds = {at.kind for one in shown for order in one.schedule.orders for at in order}
    keys: list = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=_lighter(colour, 0.7), linewidth=0,
              label=name)
        for kind, (name, colour, hatch, _) in _LOOK.items() if kind in kinds
    ]  # fmt: skip
    keys.append(Patch(label="bubble", linewidth=0, **_BUBBLE))
    if any(one.schedule.chunks > 1 for one in shown):
        keys.append(Line2D([], [], color="0.2", lw=3, label="foot bar: later chunk of the model"))
    if marked:
        keys.append(Line2D([], [], color="black", lw=1.6, ls=(0, (4, 2)), label="formula's end"))
    return keys


def _stored(ax: Axes, timeline: Timeline, scale: float) -> None:
    zero = min((start[0] for start in timeline.starts if start), default=0.0)
    last, most = timeline.schedule.ranks - 1, 0
    looped = timeline.schedule.chunks > 1
    for rank, colour, style in ((0, BLUE, "-"), (last, ORANGE, "--")):
        # Where one is let go as the next begins, the count stays: no dip of no length.
        changes = dict(timeline.stored(rank))
        peak = timeline.peak_stored(rank)
        most = max(most, peak)
        times = [(t - zero) * scale for t in changes]
        ax.step(times, list(changes.values()), where="post", color=colour, linestyle=style, lw=1.6,
                label=f"rank {rank}: at most {peak}{' chunks' if looped else ''}")  # fmt: skip
        if last == 0:
            break
    ax.set_ylim(0, 1.6 * max(1, most))  # room for the legend
    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    ax.set_ylabel("chunks\nstored" if looped else "stored", fontsize=8)
    ax.legend(fontsize=7.5, loc="upper right", ncols=2, frameon=False, borderaxespad=0.1)


def alt(
    timelines: Sequence[Timeline], titles: Sequence[str], shares: Sequence[float] = (),
    formula: float | None = None, scale: float = 1.0, unit: str = "",
) -> str:  # fmt: skip
    """The picture in words."""
    told, unit = [], f" {unit}" if unit else ""
    shares = list(shares) or [one.bubble_share for one in timelines]
    for one, title, share in zip(timelines, titles, shares, strict=True):
        peaks = [one.peak_stored(rank) for rank in range(one.schedule.ranks)]
        last = one.schedule.ranks - 1
        where = f"ranks 0 to {last}" if last else "rank 0"
        told.append(
            f"{title}: {one.schedule.ranks} ranks, {one.schedule.micro_batches} micro-batches, "
            f"{one.makespan * scale:.4g}{unit}, bubble {share:.1%}, at most "
            f"{', '.join(map(str, peaks))} stored on {where}"
        )
    marked = "" if formula is None else f"; the formula's end is at {formula * scale:.4g}{unit}"
    return "Who computes when. " + "; ".join(told) + marked
