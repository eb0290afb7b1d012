"""A story as a plot: a place on the x axis for each layout, state as bars, bubbles as lines."""

from __future__ import annotations

from labs.planner.lesson import FIXED_M, View
from labs.planner.units import gb
from labs.planner_widget.pictures.svg import GREY, INK, LOOKS, Drawing
from labs.planner_widget.words import SIGNS

_LEFT, _TOP, _HIGH, _STEP = 60, 30, 150, 130


def story(views: list[View], at_batch: bool = True) -> Drawing:
    """State a GPU (bars, with their GB) and the bubble at m = 32 (○) and at the batch (▲)."""
    width = _LEFT + _STEP * len(views) + 60
    told = "; ".join(
        f"{one.ask.name}: {one.regime}, {gb(one.state)}, bubble {one.bubble:.1%} at m = {FIXED_M}"
        + (f", {one.bubble_batch:.1%} at the batch" if one.bubble_batch is not None else "")
        for one in views
    )
    drawing = Drawing(max(width, 700), _TOP + _HIGH + 82, told)
    most = max(max(one.state, one.ask.memory) for one in views)
    top = max(max(one.bubble, one.bubble_batch or 0.0) for one in views) or 1.0
    drawing.path(f"M{_LEFT} {_TOP}v{_HIGH}h{_STEP * len(views)}", line=GREY)
    lines: dict[str, list[tuple[float, float]]] = {"fixed": [], "batch": []}
    for n, one in enumerate(views):
        x = _LEFT + n * _STEP + 14
        tall = one.state / most * _HIGH
        drawing.box(x, _TOP + _HIGH - tall, 34, tall, LOOKS[4], line=INK, thick=0.5,
                    title=f"{one.state:,.0f} bytes")  # fmt: skip
        drawing.text(x + 17, _TOP + _HIGH - tall - 4, gb(one.state), anchor="middle")
        drawing.text(x + 40, _TOP + _HIGH + 17, one.ask.name, anchor="middle")
        drawing.text(x + 40, _TOP + _HIGH + 33, f"{SIGNS[one.regime]} {one.regime}",
                     anchor="middle", bold=True)  # fmt: skip
        lines["fixed"].append((x + 80, _TOP + _HIGH * (1 - one.bubble / top)))
        if at_batch and one.bubble_batch is not None:
            lines["batch"].append((x + 80, _TOP + _HIGH * (1 - one.bubble_batch / top)))
        drawing.text(x + 80, lines["fixed"][-1][1] - 9, f"{one.bubble:.1%}", anchor="middle")
    _lines(drawing, lines)
    base = _TOP + _HIGH + 54
    drawing.legend(_LEFT, base, [(LOOKS[4], "state a GPU")])
    words = f"○ solid: bubble at m = {FIXED_M}"
    words += "; ▲ dashed: at the global batch, m = batch/(dp·mbs)" if at_batch else ""
    drawing.text(_LEFT, base + 18, words)
    return drawing


def _lines(drawing: Drawing, lines: dict[str, list[tuple[float, float]]]) -> None:
    for name, dashed in (("fixed", False), ("batch", True)):
        points = lines[name]
        if not points:
            continue
        way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        drawing.path(f"M{way}", line=INK, thick=1.6, dashed=dashed)
        for x, y in points:
            mark = f"M{x - 5:.1f} {y + 4:.1f}h10l-5 -9z" if dashed else (
                f"M{x - 4.5:.1f} {y:.1f}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z"
            )  # fmt: skip
            drawing.path(mark, fill=INK if dashed else "#ffffff", line=INK, thick=1.5)
