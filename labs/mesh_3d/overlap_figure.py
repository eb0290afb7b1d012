"""Sums of gradients beside the backward pass and after it, as one rank did them."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from labs import figure
from labs.figure import GREEN, ORANGE, Picture
from labs.mesh_3d.overlap import SECTION, Overlapped
from labs.result import Result

_WORK = dict(facecolor=ORANGE, hatch="///", edgecolor="white", linewidth=0.6)
_SENT = dict(facecolor=GREEN, hatch="....", edgecolor="white", linewidth=0.6)
_ALONE = dict(facecolor="0.9", linewidth=0)
_MS = 1e3


def plot(result: Result) -> Picture:
    """A panel a job: above the units' backward passes, below their sums on the link; grey: exposed.

    Raises ValueError where the section was not run.
    """
    found: list[Overlapped] | None = result.values.get(SECTION)
    if not found:
        raise ValueError(f"this result has no overlap: run the lab with only={SECTION!r}")
    columns = len(found) // 2
    drawn = figure.empty(9.6, 3.4)
    axes = drawn.subplots(2, columns, sharex="col", squeeze=False)
    for number, one in enumerate(found):
        column, row = divmod(number, 2)
        _panel(axes[row][column], one)
    for ax in axes[1]:
        ax.set_xlabel("ms   (simulated devices, real messages)", fontsize=9)
    keys = [Patch(label="backward pass of a unit", **_WORK), Patch(label="its sum", **_SENT),
            Patch(label="exposed", **_ALONE),
            Line2D([], [], color="black", lw=1.4, ls=(0, (4, 2)), label="formula")]  # fmt: skip
    drawn.legend(handles=keys, loc="outside upper center", ncols=len(keys), fontsize=8,
                 frameon=False)  # fmt: skip
    return figure.picture(drawn, "; ".join(map(str, found)) + ".", colours=128)


def _panel(ax: Axes, one: Overlapped) -> None:
    told = one.best[0]
    computed = told["computed"][-1][1] * _MS
    ax.broken_barh([(computed, one.wall * _MS - computed)], (-0.5, 2), **_ALONE)
    for start, end in told["computed"]:
        ax.broken_barh([(start * _MS, (end - start) * _MS)], (-0.4, 0.8), **_WORK)
    for start, end in told["sent"]:
        ax.broken_barh([(start * _MS, (end - start) * _MS)], (0.6, 0.8), **_SENT)
    due = (one.job.units * one.backward + one.formula) * _MS
    ax.axvline(due, color="black", lw=1.4, ls=(0, (4, 2)))
    ax.set_ylim(1.55, -0.55)
    ax.set_xlim(0, max(ax.get_xlim()[1], due * 1.03))
    ax.set_yticks([0, 1], ["computes", "link"], fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    way = "beside" if one.job.overlap else "at the end"
    ax.set_title(
        f"{way}: exposed {one.exposed * _MS:.0f} ms, formula {one.formula * _MS:.0f}",
        fontsize=9, loc="left",
    )  # fmt: skip
