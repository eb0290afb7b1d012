"""The bytes of a GPU, stacked, against its card: a bar for each stage that could be worst."""

from __future__ import annotations

from dataclasses import dataclass

from labs.colours import RED
from labs.planner.units import both
from labs.planner_widget.pictures.svg import GREY, INK, LOOKS, Drawing

_LEFT, _WIDTH, _BAR, _STEP = 84, 640, 24, 36
PARTS = ("weights", "gradients", "optimizer", "activations", "ends", "working")
"""As labs.planner.cost.memory.StageMemory names them."""
STATE = "state"
NAMES = {
    "ends": "embedding, head, logits",
    "working": "gathered or recomputed",
    STATE: "weights, gradients, optimizer",
}
_LOOKS = dict(zip((*PARTS, STATE), LOOKS, strict=False))


@dataclass(frozen=True)
class Bar:
    """One bar: what it is, and bytes by part."""

    name: str
    parts: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())


def memory(bars: list[Bar], card: float, card_name: str, usable: float | None = None) -> Drawing:
    """Bars to one scale. usable: bytes of the card that a plan may fill; a second line."""
    most = max([card, *(bar.total for bar in bars)]) * 1.06
    scale = _WIDTH / most
    told = "; ".join(f"{bar.name}: {both(bar.total)}" for bar in bars)
    drawing = Drawing(980, 56 + _STEP * len(bars), f"{told}; {card_name}: {both(card)}")
    for n, bar in enumerate(bars):
        x, y = float(_LEFT), 22 + n * _STEP
        drawing.text(_LEFT - 8, y + 16, bar.name, anchor="end")
        for part, look in _LOOKS.items():
            size = bar.parts.get(part, 0.0) * scale
            if size:
                title = f"{NAMES.get(part, part)}: {both(bar.parts[part])}"
                drawing.box(x, y, size, _BAR, look, line=INK, thick=0.5, title=title)
            x += size
        over = bar.total > (usable or card)
        drawing.text(x + 6, y + 16, both(bar.total) + (" too much" if over else ""),
                     colour=RED if over else INK, bold=over)  # fmt: skip
    bottom = 22 + _STEP * len(bars)
    lines = [(card, False)] + ([(usable, True)] if usable else [])
    for where, dashed in lines:
        at = _LEFT + where * scale
        drawing.path(f"M{at:.1f} 16V{bottom}", line=RED, thick=2, dashed=dashed)
    drawing.text(_LEFT + card * scale + 4, 12, f"{card_name}: {both(card)}", colour=RED)
    if usable:
        drawing.text(_LEFT, 12, f"dashed: a plan may fill {both(usable)}", colour=GREY)
    shown = [part for part in _LOOKS if any(bar.parts.get(part) for bar in bars)]
    entries = [(_LOOKS[part], NAMES.get(part, part)) for part in shown]
    drawing.legend(_LEFT, bottom + 24, entries)
    return drawing
