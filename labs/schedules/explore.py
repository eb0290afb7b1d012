"""Sliders over a schedule: its picture, its bubble by formula and simulator, what it stores.

`explore(orders)` gives a box of widgets. Every control is reached with Tab; sliders are moved with
the arrow keys, buttons pressed with Enter. In a notebook that is stored, where no widget is alive,
the box is the picture and words of what it showed last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import islice

import ipywidgets as widgets

from labs.pipeline import refuse
from labs.schedules import draw
from labs.schedules.instructions import Instruction, Order
from labs.schedules.known import Known
from labs.schedules.lint import lint
from labs.schedules.simulate import Times, simulate
from labs.schedules.timeline import Timeline

P, M, V = (1, 8), (1, 32), (1, 4)
"""Least and most ranks, micro-batches, chunks."""
_STEPS = 60  # of the slider over time
_PLAY_MS = 150  # a step of it


@dataclass(frozen=True)
class Shown:
    """What one choice comes to: a picture with its words, or words why there is none."""

    words: str
    drawn: draw.Drawn | None = None

    def html(self, part: float = 1.0) -> str:
        """The picture, what has not happened yet after `part` of the time veiled; its words."""
        said = f"<div style='white-space:pre-line'>{escape(self.words)}</div>"
        if self.drawn is None:
            return f"<div role='status'>{said}</div>"
        left, right = self.drawn.left, self.drawn.right
        at = left + part * (right - left)
        veil = "" if part >= 1 else (
            f"<div style='position:absolute;top:0;bottom:0;left:{at:.2%};right:{1 - right:.2%};"
            "background:rgba(255,255,255,0.8);border-left:2px solid black'></div>"
        )  # fmt: skip
        return (
            f"{said}<div style='position:relative;display:inline-block'>"
            f"{self.drawn.picture._repr_html_()}{veil}</div>"
        )


def show(*choice: object, **more: object) -> Shown:
    """The picture and the words of one choice; the arguments are those of `work_out`."""
    words, timeline = work_out(*choice, **more)
    return Shown(words, timeline and draw.drawn(timeline))


def work_out(
    known: Known, order: Order, p: int, m: int, v: int = 1, f: float = 1.0, b: float = 2.0,
    message: float = 0.0,
) -> tuple[str, Timeline | None]:  # fmt: skip
    """What one choice comes to; f, b: of a rank's whole part, a chunk's a v-th.

    What cannot be is said in words, without a timeline, and so is what is wrong with an order of
    one's own.
    """
    v = v if known.looped else 1

    def first(*given: int) -> Iterable[Instruction]:
        """No more of an order than tells that it is too long: one of one's own may be endless."""
        found = order(*given)
        if found is None:
            raise TypeError("the order gives nothing; it is to give forward(i), backward(i), …")
        return islice(found, 3 * m * v + 1)

    try:
        if known.order == "interleaved_order":
            refuse.multiple(m, p)
        schedule = known.make(first, p, m, v)
    except Exception as error:  # an order of one's own may raise anything
        return f"{known.title}, p={p}, m={m}: {error or type(error).__name__}", None
    wrong = lint(schedule)
    if wrong:
        return "\n".join([f"{schedule.name}, p={p}, m={m}, cannot run:", *wrong[:4]]), None
    times = Times(f / v, b / v, message)
    timeline = simulate(schedule, times)
    return _words(known, timeline, times), timeline


def _words(known: Known, timeline: Timeline, times: Times) -> str:
    """Time and share by formula and simulator, and the most stored by rank."""
    s = timeline.schedule
    p, m = s.ranks, s.micro_batches
    told = [f"time {timeline.makespan:.6g}, bubble {timeline.bubble_share:.2%} of it"]
    formula = known.seconds(s, times)
    said = f"formula: time {formula:.6g}, bubble {known.share(s, times):.2%}"
    if abs(formula - timeline.makespan) > 1e-9 * max(1.0, formula):
        said += f", {timeline.makespan - formula:+.4g} apart: {_why(known, p, m, times)}"
    peaks = [timeline.peak_stored(rank) for rank in range(p)]
    what = "forward passes" + (" of a chunk" if s.chunks > 1 else "")
    wanted = [known.stored(p, rank, m, s.chunks) for rank in range(p)]
    stored = f"stored at most, by rank: {', '.join(map(str, peaks))} {what}"
    if peaks != wanted:
        stored += f" (formula {', '.join(map(str, wanted))})"
    return "\n".join([f"simulator: {told[0]}", said, stored])


def _why(known: Known, p: int, m: int, times: Times) -> str:
    if times.message:
        return "it knows no messages that take time"
    if m < p:
        return "it holds from m = p on"
    if known.order == "zero_bubble_order":
        return "it holds while half a backward pass is no longer than a forward pass"
    return "it does not hold here"


class Box(widgets.VBox):
    """The widgets; where they cannot live, what they show last as a picture and words."""

    def __init__(self, explorer: Explorer, children: list) -> None:
        super().__init__(children)
        self._explorer = explorer

    def _repr_mimebundle_(self, **kwargs: object) -> dict:
        data = super()._repr_mimebundle_(**kwargs)
        shown = self._explorer.shown
        return {**data, "text/plain": shown.words, "text/html": shown.html()}


class Explorer:
    """The controls, and what they come to."""

    def __init__(self, orders: Mapping[str, tuple[Known, Callable]], p: int, m: int) -> None:
        self.orders = dict(orders)
        first = next(iter(self.orders))
        self.schedule = widgets.ToggleButtons(  # no list: JupyterLab takes its arrow keys
            options=list(self.orders), value=first, description="schedule"
        )
        self.p = _whole("ranks p", p, P)
        self.m = _whole("micro-batches m", m, M)
        self.v = _whole("chunks v", 2, V)
        self.ratio = _real("backward ÷ forward", 2.0, 0.5, 4.0, 0.5)
        self.message = _real("message ÷ forward", 0.0, 0.0, 2.0, 0.1)
        self.play = widgets.Play(min=0, max=_STEPS, value=_STEPS, interval=_PLAY_MS, repeat=True,
                                 tooltip="play the step")  # fmt: skip
        self.time = widgets.IntSlider(min=0, max=_STEPS, value=_STEPS, readout=False,
                                      description="time", tooltip="time, from start to end",
                                      layout=widgets.Layout(width="60%"))  # fmt: skip
        self.view = widgets.HTML()
        widgets.link((self.play, "value"), (self.time, "value"))
        self.chosen = [self.schedule, self.p, self.m, self.v, self.ratio, self.message]
        for control in self.chosen:
            control.observe(self._choose, "value")
        self.time.observe(self._veil, "value")
        self._choose()
        rows = [self.chosen[:1], self.chosen[1:4], self.chosen[4:], [self.play, self.time]]
        self.box = Box(self, [*(widgets.HBox(row) for row in rows), self.view])

    def _choose(self, _: object = None) -> None:
        known, order = self.orders[self.schedule.value]
        self.v.disabled = not known.looped
        self.shown = show(known, order, self.p.value, self.m.value, self.v.value,
                          1.0, self.ratio.value, self.message.value)  # fmt: skip
        self._veil()

    def _veil(self, _: object = None) -> None:
        self.view.value = self.shown.html(self.time.value / _STEPS)


_WIDE = {"description_width": "130px"}


def _whole(name: str, value: int, limits: tuple[int, int]) -> widgets.IntSlider:
    return widgets.IntSlider(min=limits[0], max=limits[1], value=value, description=name,
                             style=_WIDE, tooltip=name)  # fmt: skip


def _real(name: str, value: float, low: float, high: float, step: float) -> widgets.FloatSlider:
    return widgets.FloatSlider(min=low, max=high, step=step, value=value, description=name,
                               readout_format=".1f", style=_WIDE, tooltip=name)  # fmt: skip


def explore(orders: Mapping[str, tuple[Known, Callable]], p: int = 4, m: int = 8) -> Box:
    """A box of sliders over p, m, v, f:b, the time of a message, the schedule, and time itself.

    orders: by title, a schedule of labs/schedules/known.py and the order that makes it.

    Raises ValueError without orders, or for p or m that the sliders do not reach.
    """
    if not orders:
        raise ValueError("there is no schedule to explore: hand in one order at least")
    for name, value, (low, high) in (("p", p, P), ("m", m, M)):
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"{name} must be a whole number from {low} to {high}, got {value!r}")
    return Explorer(orders, p, m).box
