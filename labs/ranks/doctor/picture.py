"""The wait-for graph as a picture: ranks in a circle, an arrow from each to those it waits for."""

from __future__ import annotations

import math

from labs import figure
from labs.figure import BLUE, GREEN, RED, Picture
from labs.ranks.doctor.diagnosis import Diagnosis
from labs.ranks.doctor.words import some

_BEND = 0.25  # of an arrow, as a part of its length
_MOST = 16  # ranks that can be told apart in the picture


def wait_graph(found: Diagnosis) -> Picture | None:
    """Draw who waits for whom; the cycle, if there is one, in red and with thick arrows.

    None where more than 16 ranks take part.
    """
    part = sorted({*found.waits, *(r for ranks in found.waits.values() for r in ranks)})
    if not part or len(part) > _MOST:
        return None
    drawn, (ax,) = figure.axes(width=4.6, height=1.6 if len(part) == 2 else 3.4)
    ax.set_axis_off()
    ax.set_aspect("equal")
    at = {
        rank: (math.sin(2 * math.pi * i / len(part)), math.cos(2 * math.pi * i / len(part)))
        for i, rank in enumerate(part)
    }
    if len(part) == 2:
        at = {part[0]: (-1.0, 0.0), part[1]: (1.0, 0.0)}
    circle = found.cycle
    in_circle = set(zip(circle, circle[1:] + circle[:1], strict=True))
    for rank, others in found.waits.items():
        for other in others:
            _arrow(ax, at[rank], at[other], found.calls.get(rank, ""), (rank, other) in in_circle)
    for rank, (x, y) in at.items():
        colour = RED if rank in circle else GREEN if rank in found.ended else BLUE
        state = "returned" if rank in found.ended else "waits" if rank in found.waits else "busy"
        ax.plot(x, y, "o", markersize=42, color="white", markeredgecolor=colour, mew=2.5, zorder=3)
        ax.text(x, y, f"rank {rank}\n{state}", ha="center", va="center", fontsize=7, zorder=4)
    room = 0.62 if len(part) == 2 else 1.5
    if in_circle:
        ax.text(0, -room + 0.04, "thick: the circle", ha="center", fontsize=7, color=RED)
    ax.set_xlim(-1.6, 1.6)
    ax.set_ylim(-room, room)
    return figure.picture(drawn, alt(found))


def _arrow(ax, start: tuple, end: tuple, name: str, red: bool) -> None:  # noqa: ANN001
    """A bent arrow, so that the two of a pair lie beside each other."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    ax.annotate(
        "",
        end,
        start,
        arrowprops=dict(
            arrowstyle="-|>", connectionstyle=f"arc3,rad={_BEND}", shrinkA=23, shrinkB=23,
            color=RED if red else "0.45", lw=2.4 if red else 1.2,
        ),
    )  # fmt: skip
    # On the bent arrow, nearer to its start, so that names of arrows that cross lie apart.
    way = 0.4
    bend = (start[0] + end[0]) / 2 + _BEND * dy, (start[1] + end[1]) / 2 - _BEND * dx
    x, y = (
        (1 - way) ** 2 * a + 2 * way * (1 - way) * c + way**2 * b
        for a, b, c in zip(start, end, bend, strict=True)
    )
    paper = dict(facecolor="white", edgecolor="none", pad=1.5)
    ax.text(x, y, name, ha="center", va="center", fontsize=7.5, color="0.2", bbox=paper)


def alt(found: Diagnosis) -> str:
    """The picture in words, for those who cannot see it."""
    told = [
        f"rank {rank} waits for {some(others)} ({found.calls.get(rank, '')})"
        for rank, others in found.waits.items()
    ]
    if found.cycle:
        path = " → ".join(map(str, [*found.cycle, found.cycle[0]]))
        told.append(f"the circle is {path}")
    return "Who waits for whom: " + "; ".join(told)
