"""Pictures of the course: one look, colours that survive colour-blindness and print, alt text."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure  # not pyplot: the notebook's own backend is not ours to set
from PIL import Image

from labs.colours import BLUE, GREEN, ORANGE, PINK, RED, SKY

COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, RED)
MARKERS = ("o", "s", "^", "D", "v", "P")
HATCHES = ("", "//", "..", "xx", "\\\\", "--")


@dataclass(frozen=True)
class Picture:
    """A finished figure: PNG bytes and what it says, for those who cannot see it."""

    png: bytes
    alt: str

    def __repr__(self) -> str:
        return f"[figure: {self.alt}]"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png).decode()
        return f'<img alt="{escape(self.alt)}" src="data:image/png;base64,{data}">'


def empty(width: float = 7.0, height: float = 3.2) -> Figure:
    """A figure of the course's look without axes, sizes in inches."""
    return Figure(figsize=(width, height), dpi=110, layout="constrained")


def axes(width: float = 7.0, height: float = 3.2, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with empty axes beside each other, sizes in inches."""
    figure = empty(width, height)
    found = [figure.add_subplot(1, columns, i + 1) for i in range(columns)]
    for one in found:
        one.spines[["top", "right"]].set_visible(False)
    return figure, found


def picture(figure: Figure, alt: str, colours: int | None = None) -> Picture:
    """Draw the figure. The bytes depend on nothing but what is drawn.

    colours: keep that many, at most 256: a third of the bytes, for a picture of many small boxes.
    """
    buffer = io.BytesIO()
    canvas = FigureCanvasAgg(figure)
    if colours is None:
        # What savefig does, but for drawing everything once before to learn nothing from it.
        canvas.print_png(buffer, metadata={"Software": None})
    else:
        canvas.draw()
        whole = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        fewer = whole.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        fewer.save(buffer, "png", dpi=(figure.dpi, figure.dpi))
    return Picture(buffer.getvalue(), alt)
