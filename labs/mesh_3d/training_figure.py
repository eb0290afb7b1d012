"""The loss on a mesh over that of one device, and how far the two are apart."""

from __future__ import annotations

from labs import figure, text
from labs.figure import BLUE, ORANGE, RED, Picture
from labs.mesh_3d.training import APART, Trained

_FLOOR = 1e-9  # where a difference of 0 is drawn on a logarithmic axis


def curve(trained: Trained) -> Picture:
    """Left both losses against the step, with the text's bigram entropy; right their difference."""
    steps = range(1, len(trained.losses) + 1)
    apart = [abs(a - b) for a, b in zip(trained.losses, trained.alone, strict=True)]
    drawn, (left, right) = figure.axes(9.0, 3.4, columns=2)
    left.plot(steps, trained.alone, color=ORANGE, lw=3.0, label="one device")
    left.plot(steps, trained.losses, color=BLUE, lw=1.0, label=str(trained.config.layout))
    left.axhline(text.entropy(1), color=RED, lw=1.0, ls="--", label="bigram entropy of the text")
    left.set(xlabel="step", ylabel="loss, nats a byte")
    left.legend(frameon=False, fontsize=9)
    right.plot(steps, [max(gap, _FLOOR) for gap in apart], ".", color=BLUE, ms=3)
    right.axhline(APART, color=RED, lw=1.0, ls="--", label=f"bound {APART:g}")
    right.set(xlabel="step", ylabel="|difference|, nats", yscale="log", ylim=(_FLOOR / 2, 1e-3))
    right.set_title(f"fp32; differences of 0 are drawn at {_FLOOR:g}", fontsize=9)
    right.legend(frameon=False, fontsize=9)
    last = trained.losses[-1]
    return figure.picture(
        drawn,
        f"Loss of {trained.config.name} over {len(trained.losses)} steps beside one device: from "
        f"{trained.losses[0]:.2f} to {last:.2f}, the two lines on each other; largest difference "
        f"{max(apart):.1e}, bound {APART:g}; the bigram entropy is {text.entropy(1):.2f}.",
    )
