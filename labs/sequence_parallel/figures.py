"""The figure of sequence parallelism: what a rank keeps of a layer, by what it is."""

from __future__ import annotations

from labs import figure
from labs.figure import COLOURS, HATCHES, Picture
from labs.formulas.sequence import CORE, REPLICATED, SHARED

BARS = {
    "none, recompute none": "one device",
    "tp, recompute none": "TP",
    "tp+sp, recompute none, inputs kept whole": "TP+SP,\ninputs whole",
    "tp+sp, recompute none": "TP+SP",
    "tp+sp, recompute selective": "TP+SP,\nselective",
    "tp+sp, recompute full": "TP+SP,\nfull",
}
"""Which of the points are drawn, by name, and what is written under them."""

_ORDER = (*REPLICATED, *SHARED, *CORE)
_PARTS = (REPLICATED, SHARED, CORE)


def activations(points: list[dict[str, object]]) -> Picture:
    """Bytes that one rank keeps of a layer: the formula's summands as bars, measured as dots.

    points: of labs.sequence_parallel.lab.activation_points. A dot stands where the measured
    summands up to there end.
    """
    known = {point["name"]: point for point in points}
    bars = [(told, known[name]) for name, told in BARS.items() if name in known]
    drawn, (ax,) = figure.axes(width=8.2, height=4.0)
    off = 0
    for at, (_, point) in enumerate(bars):
        bottom = measured = 0.0
        for number, name in enumerate(_ORDER):
            size, got = point["formula"].get(name, 0), point["measured"].get(name, 0)
            off += got != size
            if not size and not got:
                continue
            ax.bar(at, size / 1e3, bottom=bottom / 1e3, width=0.62, color=_colour(number),
                   hatch=HATCHES[number % 6], edgecolor="white", linewidth=0.5)  # fmt: skip
            bottom, measured = bottom + size, measured + got
            ax.plot(at, measured / 1e3, "o", color="black", markersize=3)
        ax.annotate(f"{measured / 1e3:.0f} kB", (at, bottom / 1e3), (0, 6),
                    textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
    ax.set_xticks(range(len(bars)), [told for told, _ in bars], fontsize=8)
    ax.set_ylabel("kB kept for backward, a rank and layer")
    for number, name in reversed(list(enumerate(_ORDER))):
        ax.bar(0, 0, color=_colour(number), hatch=HATCHES[number % 6], edgecolor="white",
               label=name)  # fmt: skip
    ax.plot([], [], "o", color="black", markersize=3, label="measured")
    ax.legend(frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    ax.set_title("Sequence parallelism divides what tensor parallelism leaves whole", fontsize=10)
    totals = ", ".join(f"{told} {sum(p['measured'].values()):,}".replace("\n", " ")
                       for told, p in bars)  # fmt: skip
    return figure.picture(
        drawn, f"Bytes kept of a layer by summand, measured: {totals}; {off} summands off formula."
    )


def _colour(number: int) -> str:
    """One colour for each of the formula's three parts, hatches within it."""
    name = _ORDER[number]
    return COLOURS[next(i for i, part in enumerate(_PARTS) if name in part)]
