"""The straggler as a picture: who waits when, on which axis, and how long in all.

Left, a row a rank as it was measured: forward, backward, and the waits of each axis. Right, how
much longer each rank waited than in the run in which nobody is slow, beside the formula.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from labs import figure, formulas
from labs.figure import BLUE, GREEN, ORANGE, PINK, RED, Picture
from labs.mesh.programs import Span, end
from labs.mesh_3d.straggler import AXES, SECTION, Straggled, cost, payers, told
from labs.result import Result

_WORK = {"F": ("forward", BLUE, ""), "B": ("backward", ORANGE, "///")}
_WAIT = {"tp": (GREEN, "...."), "pp": (PINK, "xxx"), "dp": (RED, "\\\\\\")}
_MS = 1e3


def plot(result: Result, number: int = 1) -> Picture:
    """Job `number` of the section, the first of which has no straggler.

    Raises ValueError where the section was not run, or has no such job.
    """
    found: list[Straggled] | None = result.values.get(SECTION)
    if not found:
        raise ValueError(f"this result has no straggler: run the lab with only={SECTION!r}")
    if not 1 <= number < len(found):
        raise ValueError(f"job {number} was asked for; there are 1 to {len(found) - 1}")
    one, without = found[number], found[0]
    ranks = one.job.layout.ranks
    drawn = figure.empty(9.6, 1.5 + 0.36 * ranks)
    left, right = drawn.subplots(1, 2, sharey=True, width_ratios=[3, 1])
    _rows(left, one)
    _bars(right, one, without)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    left.set_ylim(ranks - 0.5, -0.5)
    left.set_yticks(range(ranks), [_name(one, rank) for rank in range(ranks)], fontsize=8)
    keys = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=_lighter(colour), linewidth=0, label=name)
        for name, colour, hatch in [
            *_WORK.values(), *((f"waits along {axis}", *_WAIT[axis]) for axis in AXES),
        ]
    ]  # fmt: skip
    keys += [Line2D([], [], color="black", lw=1.4, ls=(0, (4, 2)), label="formula"),
             Line2D([], [], color="0.5", lw=1.4, ls=":", label="with nobody slow")]  # fmt: skip
    drawn.legend(handles=keys, loc="outside upper center", ncols=len(keys), fontsize=8,
                 frameon=False, handlelength=1.6, columnspacing=1.1)  # fmt: skip
    return figure.picture(drawn, _told(one, without), colours=256)


def _rows(ax: Axes, one: Straggled) -> None:
    for rank, spans in enumerate(one.measured):
        for axis, label, start, long in _joined(spans):
            _, colour, hatch = ("", *_WAIT[axis]) if axis else _WORK[label]
            ax.broken_barh([(start * _MS, long * _MS)], (rank - 0.4, 0.8), facecolor=colour,
                           hatch=hatch, edgecolor=_lighter(colour), linewidth=0)  # fmt: skip
    ax.axvline(one.formula * _MS, color="black", lw=1.4, ls=(0, (4, 2)))
    ax.axvline((one.formula - one.delay) * _MS, color="0.5", lw=1.4, ls=":")
    ax.set_xlim(0, max(one.wall, one.formula) * _MS * 1.01)
    ax.set_xlabel("ms   (simulated devices, real messages)", fontsize=9)
    ax.set_title(f"{one.job.layout}, {one.job.name}: a step", fontsize=9.5, loc="left")
    ax.tick_params(labelsize=8)


def _joined(spans: Sequence[Span]) -> list[tuple[str, str, float, float]]:
    """(axis, F or B, start, length), neighbours of a kind as one: a picture of fewer boxes."""
    found: list[list] = []
    for span in spans:
        kind = (span.axis, "" if span.axis else span.label[0])
        if found and tuple(found[-1][:2]) == kind and span.start - found[-1][3] < 1e-3:
            found[-1][3] = span.end
        elif span.end - span.start > 5e-4:
            found.append([*kind, span.start, span.end])
    return [(axis, label, start, last - start) for axis, label, start, last in found]


def _bars(ax: Axes, one: Straggled, without: Straggled) -> None:
    layout = one.job.layout
    slow_at = layout.coordinate(one.slow)
    for rank in range(layout.ranks):
        longer = cost(one, without, rank)
        at = 0.0
        for axis in AXES:
            colour, hatch = _WAIT[axis]
            long = max(0.0, longer[axis]) * _MS
            ax.barh(rank, long, 0.8, at, facecolor=colour, hatch=hatch, linewidth=0,
                    edgecolor=_lighter(colour))  # fmt: skip
            at += long
        if one.stage == layout.pp - 1 and formulas.straggler_pays(layout.coordinate(rank), slow_at):
            due = one.delay * _MS
            ax.plot([due, due], [rank - 0.45, rank + 0.45], color="black", lw=1.4, ls=(0, (2, 1)))
    ax.set_xlabel("ms", fontsize=9)
    ax.set_title("waits longer", fontsize=9.5, loc="left")
    ax.tick_params(labelsize=8)


def _name(one: Straggled, rank: int) -> str:
    at = one.job.layout.coordinate(rank)
    slow = "SLOW  " if rank == one.slow else ""
    return f"{slow}rank {rank}   dp{at['dp']} pp{at['pp']} tp{at['tp']}"


def _lighter(colour: str) -> tuple[float, ...]:
    return tuple(channel + (1 - channel) * 0.7 for channel in to_rgb(colour))


def _told(one: Straggled, without: Straggled) -> str:
    return (
        f"{one.job.layout}, rank {one.slow} takes twice as long: a step of "
        f"{one.formula * _MS:.0f} ms by formula, {end(one.simulated) * _MS:.0f} simulated, "
        f"{one.wall * _MS:.0f} measured, instead of {without.wall * _MS:.0f}. Ranks that wait "
        f"longer, by axis: {told(payers(one, without))}."
    )
