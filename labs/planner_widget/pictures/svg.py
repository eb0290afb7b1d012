"""A few words of SVG: boxes, texts, lines and patterns, written by hand, safe to show in a page.

    drawing = Drawing(900, 120, "what it says, for those who cannot see it")
    drawing.box(0, 0, 50, 20, look=LOOKS[0])
    drawing.text(4, 14, "rank 0")
    str(drawing)                            <svg …>…</svg>

A look is a colour and a pattern: colour is never all that tells two things apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

from labs.colours import BLUE, GREEN, ORANGE, PINK, RED, SKY

INK, GREY, PAPER = "#1a1a1a", "#6b6b6b", "#ffffff"
FONT = "font-family='system-ui,sans-serif'"
SMALL, PLAIN = 12, 14  # px
WIDE = 6.9  # px of a letter of size SMALL, on average


@dataclass(frozen=True)
class Look:
    """A fill: a colour of Okabe and Ito's palette, and lines across it, or none."""

    name: str
    colour: str
    lines: str = ""  # path of one tile of 8 by 8

    def pattern(self) -> str:
        return (
            f"<pattern id='{self.name}' width='8' height='8' patternUnits='userSpaceOnUse'>"
            f"<rect width='8' height='8' fill='{self.colour}'/>"
            f"<path d='{self.lines}' stroke='{PAPER}' stroke-width='1.5' fill='none'/></pattern>"
        )


_RISING, _FALLING = "M-2 6L6-2M2 10L10 2", "M-2 2L6 10M2-2L10 6"
LOOKS = (
    Look("plain", BLUE),
    Look("rising", ORANGE, _RISING),
    Look("falling", GREEN, _FALLING),
    Look("dots", PINK, "M2 2h1M6 6h1"),
    Look("level", SKY, "M0 4H8"),
    Look("crossed", RED, _RISING + _FALLING),
    Look("upright", GREY, "M4 0V8"),
    Look("cells", "#F0E442", "M0 4H8M4 0V8"),
    Look("stairs", "#999999", "M0 2H4V6H8"),
)


@dataclass
class Drawing:
    """Parts of a picture of `width` by `height` px; `alt` says what it shows."""

    width: float
    height: float
    alt: str
    parts: list[str] = field(default_factory=list)
    used: dict[str, Look] = field(default_factory=dict)

    def box(
        self, x: float, y: float, width: float, height: float, look: Look | None = None, *,
        fill: str = "none", line: str = "none", thick: float = 1.0, dashed: bool = False,
        round_: float = 0.0, title: str = "",
    ) -> None:  # fmt: skip
        """A rectangle. title: what a pointer that rests on it is told."""
        more = f" rx='{round_:g}'" if round_ else ""
        more += " stroke-dasharray='5 3'" if dashed else ""
        told = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' "
            f"height='{max(height, 0):.1f}' "
            f"fill='{self.fill(look) if look else fill}' stroke='{line}' "
            f"stroke-width='{thick:g}'{more}>{told}</rect>"
        )

    def fill(self, look: Look) -> str:
        """What to write where a fill is asked for."""
        if not look.lines:
            return look.colour
        self.used[look.name] = look
        return f"url(#{look.name})"

    def text(
        self, x: float, y: float, words: str, *, size: int = SMALL, colour: str = INK,
        anchor: str = "start", bold: bool = False, halo: bool = False,
    ) -> None:  # fmt: skip
        """Words whose base line begins, ends or has its middle at (x, y). halo: white around them,
        for words that a line may cross."""
        weight = " font-weight='600'" if bold else ""
        weight += f" paint-order='stroke' stroke='{PAPER}' stroke-width='4'" if halo else ""
        self.parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{colour}' "
            f"text-anchor='{anchor}'{weight}>{escape(words)}</text>"
        )

    def path(
        self, d: str, *, fill: str = "none", line: str = "none", thick: float = 1.0,
        dashed: bool = False,
    ) -> None:  # fmt: skip
        """Any path, in SVG's own letters."""
        more = " stroke-dasharray='5 3'" if dashed else ""
        self.parts.append(
            f"<path d='{d}' fill='{fill}' stroke='{line}' stroke-width='{thick:g}'{more}/>"
        )

    def legend(self, x: float, y: float, entries: list[tuple[Look, str]]) -> None:
        """Looks with their names, one after the other."""
        for look, name in entries:
            self.box(x, y - 10, 14, 12, look, line=INK, thick=0.5)
            self.text(x + 19, y, name)
            x += 19 + WIDE * len(name) + 18

    def __str__(self) -> str:
        patterns = "".join(look.pattern() for look in self.used.values())
        return (
            f"<svg viewBox='0 0 {self.width:g} {self.height:g}' width='{self.width:g}' role='img' "
            f"aria-label='{escape(self.alt)}' "
            f"style='max-width:100%;height:auto;background:{PAPER}' {FONT} "
            f"xmlns='http://www.w3.org/2000/svg'><defs>{patterns}</defs>"
            f"{''.join(self.parts)}</svg>"
        )
