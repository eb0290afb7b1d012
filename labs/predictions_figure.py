"""The last figure of a notebook: every prediction beside what was measured.

Each is drawn as a share of its measurement, so that bytes and counts stand on one axis. Of a
measurement of 0 there is no share: those are listed below.
"""

from __future__ import annotations

from labs import figure
from labs.figure import BLUE, ORANGE, Picture
from labs.predictions import gaps


def predictions() -> Picture | None:
    """Every prediction so far, as measured = 1; a sentence where there is none."""
    made = [c for c in gaps() if c.gap is not None]
    if not made:
        print("No predictions yet. Put numbers in the predict(...) cells and run this one again.")
        return None
    shares, listed = [c for c in made if c.measured], [c for c in made if not c.measured]
    drawn, (ax,) = figure.axes(height=1.2 + 0.3 * len(shares) + 0.2 * len(listed))
    ax.margins(y=0.2)
    for i, one in enumerate(shares):
        ax.plot([1, 1 + one.gap], [i, i], color="grey", lw=1)
        ax.plot(1 + one.gap, i, "o", color=BLUE)
    ax.axvline(1, color=ORANGE, lw=2, label="measured")
    ax.set_yticks(range(len(shares)), [c.name for c in shares], fontsize=8)
    ax.invert_yaxis()
    told = ["your prediction ÷ measurement; the line is what was measured", *map(repr, listed)]
    ax.set_xlabel("\n".join(told), fontsize=9)
    hit = sum(c.gap == 0 for c in made)
    apart = "".join(f" {one!r}." for one in listed)
    plural = "s" * (len(made) > 1)
    return figure.picture(drawn, f"{len(made)} prediction{plural}, {hit} exact.{apart}")
