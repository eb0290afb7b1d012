"""A step of the pipeline: a row for each stage, its passes, what is idle left white.

The timeline is simulated, so this is the second way to the bubble beside the formula. A step of
many passes is drawn with fewer micro-batches or stages, and the words say so.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt

from labs import formulas
from labs.answers import Missing, reference
from labs.colours import ORANGE, SKY
from labs.planner_widget.pictures.svg import GREY, INK, Drawing, Look
from labs.schedules import Times, simulate
from labs.schedules.instructions import FORWARD
from labs.schedules.known import KNOWN
from labs.schedules.timeline import Timeline

STAGES, CHUNKS, PASSES = 16, 20, 320
"""Drawn at most: stages, chunks of a stage, forward passes."""
FORWARD_LOOK, BACKWARD_LOOK = Look("forward", SKY), Look("backward", ORANGE)
_LEFT, _WIDTH, _TOP = 64, 880, 3


def drawn_size(pp: int, m: int, v: int) -> tuple[int, int, int]:
    """Stages, micro-batches and chunks that are drawn of pp, m and v: rounds of pp where v > 1."""
    stages = min(pp, STAGES)
    if v > 1:  # at least one round of all stages
        v = min(v, CHUNKS)
        stages = min(stages, isqrt(PASSES // v))
    most = max(PASSES // (stages * v), 1)
    if m <= most and (v == 1 or m % stages == 0):
        return stages, m, v
    if v == 1:
        return stages, max(most // stages * stages, 1), v
    return stages, max(min(m, most) // stages * stages, stages), v


@lru_cache(maxsize=256)
def simulated(pp: int, m: int, v: int = 1) -> Timeline:
    """1F1B, interleaved for v > 1, backward twice as long as forward, messages free.

    Raises labs.answers.Missing where the orders of notebook 03 are not there.
    """
    known = KNOWN["interleaved" if v > 1 else "one_f_one_b"]
    order = reference(f"one_f_one_b.{known.order}", None)
    return simulate(known.make(order, pp, m, v), Times(forward=1 / v, backward=2 / v))


def gantt(pp: int, m: int, v: int = 1) -> Drawing:
    """The step of pp stages and m micro-batches, v chunks a stage."""
    stages, micro, chunks = drawn_size(pp, m, v)
    try:
        timeline = simulated(stages, micro, chunks)
    except Missing as missing:
        drawing = Drawing(980, 26, str(missing))
        drawing.text(4, 18, str(missing))
        return drawing
    words = told(pp, m, v, timeline, chunks)
    high = 20 if stages <= 8 else 14
    drawing = Drawing(980, _TOP + 24 + stages * (high + 3), words)
    scale = _WIDTH / timeline.makespan
    boxes: dict[bool, list[str]] = {True: [], False: []}
    for stage in range(stages):
        y = _TOP + stage * (high + 3)
        drawing.text(_LEFT - 8, y + high - (5 if high >= 20 else 3), f"stage {stage}", anchor="end")
        drawing.box(_LEFT, y, _WIDTH, high, line=GREY, thick=0.5)
    labels, strips = [], []
    for span in timeline.spans():
        x, y = _LEFT + span.start * scale, _TOP + span.rank * (high + 3)
        size = (span.end - span.start) * scale
        forward = span.instruction.kind == FORWARD
        boxes[forward].append(f"M{x:.1f} {y}h{size:.1f}v{high}h-{size:.1f}z")
        if not forward:  # a dark foot: colour is not all that tells the two apart
            strips.append(f"M{x:.1f} {y + high - 3}h{size:.1f}v3h-{size:.1f}z")
        if size > 13 and high >= 20:
            labels.append((x + size / 2, y + high - 7, str(span.instruction.micro_batch)))
    for forward, look in ((True, FORWARD_LOOK), (False, BACKWARD_LOOK)):
        drawing.path("".join(boxes[forward]), fill=look.colour, line=INK, thick=0.5)
    drawing.path("".join(strips), fill=INK)
    for x, y, label in labels:
        drawing.text(x, y, label, anchor="middle")
    base = _TOP + stages * (high + 3) + 16
    for x, look, name in (
        (_LEFT, FORWARD_LOOK, "forward"),
        (_LEFT + 84, BACKWARD_LOOK, "backward"),
    ):
        drawing.box(x, base - 10, 14, 12, look, line=INK, thick=0.5)
        drawing.text(x + 19, base, name)
    drawing.box(_LEFT + 84, base - 1, 14, 3, fill=INK)
    drawing.text(_LEFT + 180, base, f"white: idle. {words}")
    return drawing


def told(pp: int, m: int, v: int, timeline: Timeline, chunks: int) -> str:
    """The bubble by formula, and by simulation of what is drawn, of `chunks` a stage."""
    p, n = timeline.schedule.ranks, timeline.schedule.micro_batches
    said = f"formula: {formulas.bubble_share(pp, m, v):.1%} of the step"
    if (p, n, chunks) == (pp, m, v):
        return f"{said}; simulated: {timeline.bubble_share:.1%}"
    fewer = f", {chunks} of {v} chunks" if chunks < v else ""
    return (
        f"{said}; drawn: {p} of {pp} stages, {n} of {m} micro-batches{fewer}: there "
        f"{formulas.bubble_share(p, n, chunks):.1%}, simulated {timeline.bubble_share:.1%}"
    )
