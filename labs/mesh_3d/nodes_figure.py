"""The mesh on nodes as a picture: who sits where, and what each axis has to cross.

A box is a machine, a cell a GPU with its rank and, below, its coordinate dp·pp·tp. A colour is a
replica, stripes are the later stages; one tensor-parallel group is outlined and joined by a line.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch, Rectangle

from labs import figure
from labs.figure import COLOURS, Picture
from labs.mesh.layout import AXES
from labs.mesh_3d import fake
from labs.mesh_3d.nodes import SECTION, Placed, link, traffic
from labs.result import Result

_COLUMNS = 2  # of nodes
_GAP = 0.55  # between nodes, in GPUs
_GB, _MS = 1e-9, 1e3


def plot(result: Result, sent: Mapping[str, float] | None = None) -> Picture:
    """The worked layout with tp fastest, and beside it with tp slowest.

    sent: ideal bytes of a rank in a step, by axis; None: what rank 0 sent in the section
    "64 ranks", and where that was not run links are named, without times. Raises ValueError where
    there are no nodes.
    """
    placed: list[Placed] | None = result.values.get(SECTION)
    if not placed:
        raise ValueError(f"this result has no nodes: run the lab with only={SECTION!r}")
    if sent is None and fake.SECTION in result.values:
        _, ledger = result.values[fake.SECTION]
        sent = fake.by_axis(ledger, 0)
    drawn, axes = figure.axes(9.6, 5.6, columns=2)
    titles = ("tp fastest: as it should be", "tp slowest: the wrong way round")
    for ax, one, title in zip(axes, placed[:2], titles, strict=True):
        _nodes(ax, one, title)
        ax.set_xlabel("\n".join(_links(one, sent)), fontsize=8, loc="left", family="monospace")
    drawn.suptitle(
        "a cell: rank, and dp·pp·tp below   colour: replica   striped: second stage   "
        "outlined: one tensor-parallel group", fontsize=8.5,
    )  # fmt: skip
    told = "; ".join(_told(one, sent) for one in placed[:2])
    return figure.picture(drawn, f"{told}.", colours=128)


def _nodes(ax: Axes, placed: Placed, title: str) -> None:
    at = placed.nodes
    across = min(at.gpus_per_node, 4)
    down = -(-at.gpus_per_node // across)
    centre = {}
    for node in range(at.nodes):
        row, column = divmod(node, _COLUMNS)
        left, top = column * (across + _GAP), row * (down + _GAP + 0.25)
        ax.add_patch(
            FancyBboxPatch((left - 0.08, top - 0.08), across + 0.16, down + 0.16, fc="none",
                           boxstyle="round,pad=0.04", ec="0.35", lw=1)
        )  # fmt: skip
        ax.text(left, top - 0.17, f"node {node}", fontsize=6.5, color="0.3", va="bottom")
        for place in range(at.gpus_per_node):
            y, x = divmod(place, across)
            gpu = node * at.gpus_per_node + place
            centre[gpu] = (left + x + 0.5, top + y + 0.5)
            _gpu(ax, placed, gpu, left + x, top + y)
    first = placed.groups[0]["tp"]
    if len({gpu // at.gpus_per_node for gpu in first}) > 1:
        line = [centre[gpu] for gpu in first]
        ax.plot(*zip(*line, strict=True), color="black", lw=0.9, ls=(0, (4, 2)), zorder=0.5)
    rows = -(-at.nodes // _COLUMNS)
    ax.set_xlim(-0.3, _COLUMNS * (across + _GAP) - _GAP + 0.3)
    ax.set_ylim(rows * (down + _GAP + 0.25) - 0.45, -0.75)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_title(f"{at.layout}, {title}", fontsize=9.5)


def _gpu(ax: Axes, placed: Placed, gpu: int, x: float, y: float) -> None:
    at = placed.nodes.coordinate(gpu)
    colour = COLOURS[at["dp"] % len(COLOURS)]
    outlined = gpu in placed.groups[0]["tp"]
    ax.add_patch(
        Rectangle((x + 0.04, y + 0.04), 0.92, 0.92, facecolor=_lighter(colour, 0.62),
                  hatch="////" if at["pp"] else "", edgecolor=_lighter(colour, 0.35), lw=0,
                  zorder=1)
    )  # fmt: skip
    ax.add_patch(
        Rectangle((x + 0.06, y + 0.06), 0.88, 0.88, fill=False, zorder=2,
                  edgecolor="black" if outlined else "none", lw=1.6)
    )  # fmt: skip
    where = "·".join(str(at[axis]) for axis in AXES if axis != "cp")
    box = dict(boxstyle="round,pad=0.06", fc="white", ec="none", alpha=0.8)
    ax.text(x + 0.5, y + 0.36, str(gpu), fontsize=7.5, ha="center", va="center", zorder=3)
    ax.text(x + 0.5, y + 0.70, where, fontsize=5.5, ha="center", va="center", zorder=3, bbox=box)


def _lighter(colour: str, by: float) -> tuple[float, ...]:
    return tuple(channel + (1 - channel) * by for channel in to_rgb(colour))


def _links(placed: Placed, sent: Mapping[str, float] | None) -> list[str]:
    """A line an axis: how many nodes a group is on, what link, and for how long a step."""
    at = placed.nodes
    lines = [f"    {'a group':8} {'its link':20}" + (" sent, takes a step" if sent else "")]
    took = {one.axis: one for one in traffic(at, sent or {})}
    for axis in reversed(AXES):
        if at.layout.sizes[axis] == 1:
            continue
        n, what = placed.nodes_of(axis), link(at, axis).name
        line = f"{axis.upper()}  {f'{n} nodes' if n > 1 else '1 node':8} {what:20}"
        if axis in took:
            one = took[axis]
            line += f" {one.ideal_bytes * _GB:5.2f} GB {one.seconds * _MS:6.1f} ms"
        lines.append(line)
    return lines


def _told(placed: Placed, sent: Mapping[str, float] | None) -> str:
    at = placed.nodes
    inside, groups = placed.inside("tp"), len(placed.distinct("tp"))
    links = ", ".join(" ".join(line.split()) for line in _links(placed, sent)[1:])
    order = "fastest" if at.order == AXES else "slowest"
    return (
        f"{at.layout} on {at.nodes} nodes of {at.gpus_per_node} GPUs, tp {order}: {inside} of "
        f"{groups} tensor-parallel groups are inside one node; {links}"
    )
