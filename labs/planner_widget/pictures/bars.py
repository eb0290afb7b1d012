"""Pictures of bars: what a rank sends on each axis over which link; where a step's time goes."""

from __future__ import annotations

from labs.colours import RED
from labs.planner.cost.traffic import Sent
from labs.planner.units import both
from labs.planner_widget.pictures.svg import GREY, INK, LOOKS, SMALL, WIDE, Drawing

_LEFT, _WIDTH, _BAR, _STEP = 84, 420, 22, 32
NVLINK, NETWORK = LOOKS[2], LOOKS[1]


def traffic(sent: list[Sent], exposed: dict[str, float]) -> Drawing:
    """Bytes by axis, to one scale. exposed: seconds of a step that are waited for, by axis."""
    words = [
        f"{one.axis}: {both(one.bytes)} over {one.link.name}, "
        f"{1e3 * exposed.get(one.axis, 0.0):,.0f} ms waited for"
        for one in sent
    ]
    if not sent:
        words = ["one GPU sends nothing"]
    drawing = Drawing(980, 26 + _STEP * max(len(sent), 1), "; ".join(words))
    most = max((one.bytes for one in sent), default=0.0) or 1.0
    for n, one in enumerate(sent):
        y = n * _STEP + 2
        drawing.text(_LEFT - 8, y + 15, one.axis, anchor="end", bold=True)
        size = max(one.bytes / most * _WIDTH, 2.0)
        drawing.box(_LEFT, y, size, _BAR, NVLINK if one.inside else NETWORK, line=INK, thick=0.5)
        drawing.text(_LEFT + size + 6, y + 15, words[n].partition(": ")[2])
    if not sent:
        drawing.text(_LEFT, 17, words[0])
    links = [(NVLINK, "inside a node (NVLink)"), (NETWORK, "between nodes (network)")]
    drawing.legend(_LEFT, _STEP * max(len(sent), 1) + 16, links)
    return drawing


def seconds(parts: dict[str, float], between: tuple[float, float]) -> Drawing:
    """A step's seconds, stacked; the line above them is what the error bars leave.

    parts: seconds by what they go to; between: the error bars' ends, in seconds.
    """
    total, (low, high) = sum(parts.values()), between
    most = max(total * 1.06, high * 1.02)
    left, width = 12, 940
    scale = width / most
    told = ", ".join(
        f"{name} {part / total:.1%}" for name, part in parts.items() if part / total >= 0.0005
    )
    drawing = Drawing(980, 96, f"{total:.3g} s, between {low:.3g} and {high:.3g} s: {told}")
    a, b = left + low * scale, left + high * scale
    drawing.path(f"M{a:.1f} 14H{b:.1f}M{a:.1f} 8v12M{b:.1f} 8v12", line=INK, thick=2)
    bars = f"error bars: {low:.3g} to {high:.3g} s"
    drawing.text(min((a + b) / 2, left + width - WIDE / 2 * len(bars)), 34, bars, anchor="middle",
                 colour=GREY)  # fmt: skip
    if not low <= total <= high:
        off = "fast" if total < low else "slow"
        drawing.text(left, 34, f"the estimate lies outside them: most runs of this kind were "
                     f"predicted too {off}", colour=RED)  # fmt: skip
    x, place, row = float(left), float(left), 0
    looks = {name: look for name, look in zip(parts, LOOKS, strict=False)}
    for name, part in parts.items():
        drawing.box(x, 42, part * scale, 22, looks[name], line=INK, thick=0.5,
                    title=f"{name}: {part:.3g} s")  # fmt: skip
        x += part * scale
    drawing.text(x + 6, 58, f"{total:.3g} s", halo=True)
    for name, part in parts.items():
        if part / total < 0.0005:  # 0.0 %
            continue
        words = f"{name} {part / total:.1%}"
        drawing.box(place, 72 + row, 12, 10, looks[name], line=INK, thick=0.5)
        drawing.text(place + 16, 81 + row, words, size=SMALL)
        place += 32 + WIDE * len(words)
    return drawing
