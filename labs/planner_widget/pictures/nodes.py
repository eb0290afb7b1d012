"""The mesh on its nodes: a cell is a GPU with its place on each axis, a frame a TP group.

Ranks are numbered with tp fastest, then cp, pp, dp (labs/mesh/layout.py); rank g is on GPU g. A
group that lies on more than one node has a dashed red frame. What does not fit is counted in words.
"""

from __future__ import annotations

from labs.colours import RED
from labs.planner.layout import Layout
from labs.planner_widget.pictures.svg import GREY, INK, PLAIN, Drawing

DRAWN = 64  # GPUs at most, of several nodes
_NODE = 72  # of one node
_CELL, _HIGH, _ROW, _GAP, _TOP = 49, 36, 8, 22, 26


def place(rank: int, at: Layout) -> tuple[int, int, int, int]:
    """(dp, pp, cp, tp) of a rank."""
    rank, tp = divmod(rank, at.tp)
    rank, cp = divmod(rank, at.cp)
    dp, pp = divmod(rank, at.pp)
    return dp, pp, cp, tp


def shown(at: Layout, per_node: int) -> int:
    """How many nodes are drawn."""
    nodes = -(-at.gpus // per_node)
    return max(1, min(nodes, DRAWN // per_node))


def nodes(at: Layout, per_node: int) -> Drawing:
    """The first nodes of a layout."""
    wide = min(per_node, 2 * _ROW if at.tp > _ROW else _ROW)  # a group of 16 in one row
    rows = -(-min(per_node, _NODE) // wide)
    across = max(1, 2 * _ROW // wide)
    count = shown(at, per_node)
    down = -(-count // across)
    width = min(across, count) * (wide * _CELL + _GAP) + 4
    high = rows * _HIGH + _TOP
    drawing = Drawing(max(width, 940), down * high + 66, told(at, per_node))
    for node in range(count):
        left = 2 + node % across * (wide * _CELL + _GAP)
        top = node // across * high
        drawing.text(left, top + 15, f"node {node}", colour=GREY)
        held = range(node * per_node, min((node + 1) * per_node, at.gpus))
        _node(drawing, held[:_NODE], at, per_node, wide, left, top + _TOP - 6)
    _legend(drawing, at, per_node, count, down * high + 14)
    return drawing


def _node(
    drawing: Drawing, ranks: range, at: Layout, per_node: int, wide: int, left: float, top: float
) -> None:
    crossing = at.tp > per_node or per_node % at.tp != 0
    for n, rank in enumerate(ranks):
        dp, pp, cp, tp = place(rank, at)
        x, y = left + n % wide * _CELL, top + n // wide * _HIGH
        name = f"rank {rank}: dp {dp}, pp {pp}, cp {cp}, tp {tp}"
        drawing.box(x, y, _CELL - 3, _HIGH - 4, fill=_shade(pp, at.pp), title=name)
        drawing.text(x + 4, y + 14, f"d{dp} p{pp}")
        drawing.text(x + 4, y + 27, f"t{tp}" + (f" c{cp}" if at.cp > 1 else ""))
    for first, last in _runs(ranks, at.tp, wide, ranks[0]):
        x, y = left + first % wide * _CELL, top + first // wide * _HIGH
        group = (ranks[first] // at.tp) * at.tp
        split = crossing and group // per_node != (group + at.tp - 1) // per_node
        drawing.box(x - 1.5, y - 1.5, (last - first) * _CELL, _HIGH - 1, line=RED if split else INK,
                    thick=2.5 if split else 1.6, dashed=split, round_=3)  # fmt: skip


def _runs(ranks: range, tp: int, wide: int, start: int) -> list[tuple[int, int]]:
    """[first, last) of the cells of one tensor-parallel group in one row."""
    cuts = sorted({
        0, len(ranks),
        *(n for n in range(1, len(ranks)) if (start + n) % tp == 0 or n % wide == 0),
    })  # fmt: skip
    return list(zip(cuts, cuts[1:], strict=False))


def _shade(stage: int, pp: int) -> str:
    """From light to darker with the stage; its number stands in the cell."""
    light = 96 - (26 * stage / (pp - 1) if pp > 1 else 0)
    return f"hsl(205 60% {light:.0f}%)"


def _legend(drawing: Drawing, at: Layout, per_node: int, count: int, y: float) -> None:
    drawing.text(2, y, f"{told(at, per_node, count)}", size=PLAIN)
    drawing.text(2, y + 20, "frame: a tensor-parallel group; darker: a later stage; "
                 "dashed red: a group on more than one node", colour=GREY)  # fmt: skip
    axes = ", ".join(("d", "p", "t") + (("c",) if at.cp > 1 else ()))
    drawing.text(
        2,
        y + 38,
        f"{axes}: the GPU's place along "
        + ", ".join(("dp", "pp", "tp") + (("cp",) if at.cp > 1 else ())),
        colour=GREY,
    )


def told(at: Layout, per_node: int, count: int | None = None) -> str:
    """The picture in words."""
    whole = -(-at.gpus // per_node)
    some = shown(at, per_node) if count is None else count
    rest = f"; {some} of them drawn, the others go on in the same way" if whole > some else ""
    if min(per_node, at.gpus) > _NODE:
        rest += f"; {_NODE} GPUs of a node are drawn"
    if at.tp > per_node:
        inside = f"each tensor-parallel group of {at.tp} lies on {-(-at.tp // per_node)} nodes"
    elif per_node % at.tp:
        inside = f"some tensor-parallel groups of {at.tp} lie on two nodes"
    else:
        inside = f"every tensor-parallel group of {at.tp} is inside a node"
    return f"{at.gpus:,} GPUs on {whole:,} nodes of {per_node}: {inside}{rest}"
