"""A story as a plot: a column for each layout, the bubbles above, the state of a GPU below.

Where no layout has a bubble, as in (a), the upper band shows what changes instead: how many GPUs a
tensor-parallel group has, against a node's.
"""

from __future__ import annotations

from labs.colours import RED
from labs.planner.lesson import FIXED_M, View
from labs.planner.units import gb
from labs.planner_widget.pictures.svg import GREY, INK, LOOKS, Drawing
from labs.planner_widget.words import SIGNS

_LEFT, _STEP, _RIGHT = 96, 130, 110
_UPPER, _LOWER = (26, 136), (186, 256)
"""Top and base of the two bands, px."""
_BAR, _GROUP, _STATE = 34, LOOKS[0], LOOKS[4]


def story(views: list[View], at_batch: bool = True) -> Drawing:
    """The bubble at m = 32 (○) and at the batch (▲), and the state (bars, with their GB)."""
    told = "; ".join(
        f"{one.ask.name}: {one.regime}, {gb(one.state)}, bubble {one.bubble:.1%} at m = {FIXED_M}"
        + (f", {one.bubble_batch:.1%} at the batch" if one.bubble_batch is not None else "")
        for one in views
    )
    base = _LOWER[1]
    drawing = Drawing(max(_LEFT + _STEP * len(views) + _RIGHT, 700), base + 62, told)
    waits = any(one.bubble or one.bubble_batch for one in views)
    words = _bubbles(drawing, views, at_batch) if waits else _groups(drawing, views)
    _states(drawing, views)
    for n, one in enumerate(views):
        drawing.text(_middle(n), base + 17, one.ask.name, anchor="middle")
        drawing.text(_middle(n), base + 33, f"{SIGNS[one.regime]} {one.regime}", anchor="middle",
                     bold=True)  # fmt: skip
    drawing.text(_LEFT, base + 54, words)
    return drawing


def _middle(n: int) -> float:
    return _LEFT + (n + 0.5) * _STEP


def _band(drawing: Drawing, views: list[View], band: tuple[int, int], name: str) -> None:
    top, base = band
    drawing.path(f"M{_LEFT} {top}V{base}h{_STEP * len(views)}", line=GREY)
    drawing.text(_LEFT - 8, (top + base) / 2 + 4, name, anchor="end")


def _limit(drawing: Drawing, views: list[View], y: float, words: str) -> None:
    """A dashed line with its name at the right."""
    end = _LEFT + _STEP * len(views)
    drawing.path(f"M{_LEFT} {y:.1f}H{end}", line=RED, thick=1.5, dashed=True)
    drawing.text(end + 6, y + 4, words, colour=RED)


def _groups(drawing: Drawing, views: list[View]) -> str:
    """tp as bars against the GPUs of a node."""
    top, base = _UPPER
    node = views[0].ask.per_node
    most = max(node, *(one.ask.tp for one in views))
    _band(drawing, views, _UPPER, "tp")
    for n, one in enumerate(views):
        tall = one.ask.tp / most * (base - top)
        drawing.box(_middle(n) - _BAR / 2, base - tall, _BAR, tall, _GROUP, line=INK, thick=0.5)
        drawing.text(_middle(n), base - tall - 4, str(one.ask.tp), anchor="middle", halo=True)
    _limit(drawing, views, base - node / most * (base - top), f"{node} GPUs a node")
    return "above: the GPUs of a tensor-parallel group; below: weights, gradients and optimizer"


def _states(drawing: Drawing, views: list[View]) -> None:
    top, base = _LOWER
    card = views[0].ask.memory
    most = max(card, *(one.state for one in views))
    _band(drawing, views, _LOWER, "state a GPU")
    for n, one in enumerate(views):
        tall = one.state / most * (base - top)
        drawing.box(_middle(n) - _BAR / 2, base - tall, _BAR, tall, _STATE, line=INK, thick=0.5,
                    title=f"{one.state:,.0f} bytes")  # fmt: skip
        drawing.text(_middle(n), base - tall - 4, gb(one.state), anchor="middle", halo=True)
    _limit(drawing, views, base - card / most * (base - top), f"card: {gb(card)}")


def _bubbles(drawing: Drawing, views: list[View], at_batch: bool) -> str:
    """Both bubbles as lines; the words that say which is which."""
    top, base = _UPPER
    most = max(max(one.bubble, one.bubble_batch or 0.0) for one in views)
    _band(drawing, views, _UPPER, "bubble")

    def height(share: float) -> float:
        return base - share / most * (base - top)

    fixed = [(_middle(n), height(one.bubble)) for n, one in enumerate(views)]
    batch = [
        (_middle(n), height(one.bubble_batch))
        for n, one in enumerate(views)
        if at_batch and one.bubble_batch is not None
    ]
    _line(drawing, fixed, dashed=False)
    _line(drawing, batch, dashed=True)
    for n, one in enumerate(views):
        other = one.bubble_batch if at_batch else None
        shares = sorted({one.bubble, one.bubble if other is None else other})
        drawing.text(_middle(n), height(shares[-1]) - 9, f"{shares[-1]:.1%}", anchor="middle",
                     halo=True)  # fmt: skip
        if len(shares) == 2:  # the lower one below its point
            drawing.text(_middle(n), height(shares[0]) + 18, f"{shares[0]:.1%}", anchor="middle",
                         halo=True)  # fmt: skip
    words = f"○ solid: bubble at m = {FIXED_M}"
    return words + ("; ▲ dashed: at the global batch, m = batch/(dp·mbs)" if at_batch else "")


def _line(drawing: Drawing, points: list[tuple[float, float]], dashed: bool) -> None:
    if not points:
        return
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    drawing.path(f"M{way}", line=INK, thick=1.6, dashed=dashed)
    for x, y in points:
        mark = f"M{x - 5:.1f} {y + 4:.1f}h10l-5 -9z" if dashed else (
            f"M{x - 4.5:.1f} {y:.1f}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"
        )  # fmt: skip
        drawing.path(mark, fill=INK if dashed else "#ffffff", line=INK, thick=1.5)
