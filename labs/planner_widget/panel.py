"""The planner as widgets: controls above, what they come to below. Everything goes by keyboard.

Tab goes from control to control. Arrow keys move a slider and a number, Space ticks a box, Enter
presses a button. There are no drop-down lists: JupyterLab takes their arrow keys for itself.
"""

from __future__ import annotations

from dataclasses import replace
from html import escape
from math import isfinite

import ipywidgets as widgets

from labs.planner.cluster import GPUS
from labs.planner.search import divisors
from labs.planner_widget import words
from labs.planner_widget.answer import BLOCKS, answer
from labs.planner_widget.asked import Asked
from labs.planner_widget.stories import TITLES, Told, tell

LARGEST = 1_000_000  # of a number of GPUs, sequences, tokens
_TABLES = {
    "bf16": "16: bf16", "bf16, fp32 gradients": "18: bf16, fp32 gradients",
    "fp32 shards": "16: FSDP's fp32 shards", "fp32": "16: fp32",
}  # fmt: skip
DEGREES = ("tp", "pp", "cp")


class Panel:
    """The controls of one planner; `asked` is what they say, `blocks` what is shown.

    box: the widget to display. controls: each by the name of its field of Asked.
    """

    def __init__(self, asked: Asked | None = None, precise: bool = False) -> None:
        self.asked = asked or Asked()
        self.told: Told | None = None
        self.blocks: dict[str, str] = {}
        self._quiet = False
        self.controls = _controls(self.asked)
        self.follows = widgets.Checkbox(
            value=True, description="dp follows: dp = G ÷ (the others)", indent=False
        )
        self.more = widgets.ToggleButton(
            value=precise, description="More: the precise view", layout=_wide("220px")
        )
        self.stories = {
            which: widgets.Button(description=title, layout=_wide("310px"))
            for which, title in TITLES.items()
        }
        self.views = {name: widgets.HTML() for name in (*BLOCKS, "story")}
        self.follows.add_class("planner-follows")
        self.more.add_class("planner-more")
        for control in (*self.controls.values(), self.follows, self.more):
            control.observe(self._changed, "value")
        for which, button in self.stories.items():
            button.add_class(f"planner-story-{which}")
            button.on_click(lambda _, which=which: self.tell(which))
        self._more_box = widgets.VBox(_rows(self.controls, _MORE))
        top = [
            *_rows(self.controls, _LESSON), widgets.HBox([self.follows, self.more]),
            self._more_box, widgets.HBox(list(self.stories.values())),
        ]  # fmt: skip
        order = ["verdict", "story", *(name for name in BLOCKS if name != "verdict")]
        self.box = Box(self, [*top, *(self.views[name] for name in order)])
        self._changed()

    def set(self, **fields: object) -> None:
        """Move controls by their names, all at once: one new picture."""
        self._quiet = True
        try:
            for name, value in fields.items():
                control = self.controls[name]
                if name in DEGREES:
                    _offer(control, {*control.options, value}, value)
                else:
                    control.value = _shown(name, value)
        finally:
            self._quiet = False
        self._changed()

    def tell(self, which: str) -> None:
        """Tell a story, and set the layout to where it arrives."""
        self.told = tell(which, self.asked)
        last = self.told.views[-1].ask
        self.follows.value = True
        self.set(dp=last.dp, pp=last.pp, cp=1, tp=last.tp)
        self.views["story"].value = self.told.html()

    def _changed(self, change: object = None) -> None:
        if self._quiet:
            return
        try:
            self.asked = self._read()
        except ValueError as refused:
            self._show(
                dict.fromkeys(BLOCKS, "") | {"verdict": words.verdict("red", [str(refused)])}
            )
            return
        if getattr(change, "owner", None) in self.controls.values():
            self.views["story"].value = ""
            self.told = None
        precise = self.more.value
        self._more_box.layout.display = "" if precise else "none"
        self._show(answer(self.asked, precise))

    def _read(self) -> Asked:
        """What the controls say; dp of what the other degrees leave, and their options by G."""
        given = {name: control.value for name, control in self.controls.items()}
        given["parameters"] = _number(given["parameters"])
        asked = Asked(**given) if self.more.value else replace(Asked(**given), cp=1)
        self._quiet = True
        try:
            for name in DEGREES:
                control = self.controls[name]
                _offer(control, {*divisors(asked.gpus), control.value}, control.value)
            self.controls["dp"].disabled = self.follows.value
            if self.follows.value:
                dp = max(1, asked.gpus // (asked.pp * asked.cp * asked.tp))
                self.controls["dp"].value = dp
                asked = replace(asked, dp=dp)
        finally:
            self._quiet = False
        return asked

    def _show(self, blocks: dict[str, str]) -> None:
        self.blocks = blocks
        for name, html in blocks.items():
            if self.views[name].value != html:
                self.views[name].value = html


class Box(widgets.VBox):
    """The widgets; where they cannot live, as in a stored notebook, what they show last."""

    def __init__(self, panel: Panel, children: list) -> None:
        super().__init__(children)
        self.panel = panel
        self.add_class("planner")

    def _repr_mimebundle_(self, **kwargs: object) -> dict:
        data = super()._repr_mimebundle_(**kwargs)
        html = "".join(self.panel.blocks.values())
        plain = f"planner: {self.panel.asked}"
        return {**data, "text/plain": plain, "text/html": f"<div>{html}</div>"}


def explore(asked: Asked | None = None, precise: bool = False, **fields: object) -> Box:
    """The planner as a box of widgets, beginning with what is asked.

    fields: of Asked, by name: explore(gpus=16, tp=2). Raises ValueError for a name that is none.
    """
    unknown = [name for name in fields if name not in _EVERY]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no control; there are {', '.join(_EVERY)}")
    return Panel(replace(asked or Asked(), **fields), precise).box


_LESSON = (
    ("gpus", "per_node", "parameters", "layers"), ("tp", "pp", "dp"), ("batch", "mbs"),
)  # fmt: skip
_MORE = (
    ("gpu",), ("hidden", "heads", "kv_heads", "ffn"), ("vocab", "length", "gated", "tied"),
    ("cp", "v", "zero"), ("recompute", "sp", "flash"), ("table",),
)  # fmt: skip
_EVERY = tuple(name for rows in (_LESSON, _MORE) for row in rows for name in row)
_NAMES = {
    "gpus": "GPUs, G", "per_node": "GPUs a node", "parameters": "parameters, N",
    "layers": "layers, L", "batch": "global batch", "mbs": "micro-batch", "gpu": "GPU",
    "hidden": "hidden, d", "kv_heads": "KV heads", "ffn": "MLP width", "vocab": "vocabulary",
    "length": "tokens, T", "gated": "gated MLP", "tied": "tied embedding", "v": "chunks, v",
    "zero": "ZeRO", "sp": "sequence parallel", "flash": "fused attention",
    "table": "bytes a parameter",
}  # fmt: skip
_ABOUT = {
    "recompute": "with fused attention 'selective' saves little: the T x T tensors that it leaves "
                 "out are not kept anyway",
    "hidden": "0: assumed from N and L", "heads": "0: assumed, 128 wide",
    "kv_heads": "0: as many as heads", "ffn": "0: as wide as N leaves",
}  # fmt: skip


def _controls(asked: Asked) -> dict[str, widgets.ValueWidget]:
    """A control for each field of Asked."""
    found = {name: _control(name, getattr(asked, name), asked) for name in _EVERY}
    for name, control in found.items():
        control.add_class(f"planner-{name}")
    return found


def _control(name: str, value: object, asked: Asked) -> widgets.ValueWidget:
    label = _NAMES.get(name, name)
    given = dict(description=label, tooltip=_ABOUT.get(name, label), style=_STYLE)
    if name in DEGREES:
        options = sorted({*divisors(asked.gpus), value})
        return widgets.SelectionSlider(
            options=options, value=value, continuous_update=True, **given
        )
    if name == "parameters":
        layout = _wide("220px")
        return widgets.Text(
            value=_shown(name, value), continuous_update=False, layout=layout, **given
        )
    if name in ("gpu", "zero", "recompute", "table"):
        options = {
            "gpu": [(one, one) for one in GPUS], "zero": [(str(n), n) for n in range(4)],
            "recompute": [(one, one) for one in ("none", "selective", "full")],
            "table": [(words_, one) for one, words_ in _TABLES.items()],
        }[name]  # fmt: skip
        style = {**_STYLE, "button_width": "auto"}
        return widgets.ToggleButtons(options=options, value=value, **(given | {"style": style}))
    if isinstance(value, bool):
        return widgets.Checkbox(value=value, **given)
    least = 0 if name in ("hidden", "heads", "kv_heads", "ffn") else 1
    layout = _wide("220px")
    return widgets.BoundedIntText(value=value, min=least, max=LARGEST, layout=layout, **given)


def _offer(slider: widgets.SelectionSlider, values: set[int], value: int) -> None:
    """Set a slider's values and its place in one message: a page told one after the other moves."""
    options = sorted(values)
    if list(slider.options) == options and slider.value == value:
        return
    with slider.hold_sync():
        slider.options = options
        slider.value = value


def _wide(width: str) -> widgets.Layout:
    return widgets.Layout(width=width)


_STYLE = {"description_width": "110px"}


def _rows(controls: dict, names: tuple) -> list[widgets.HBox]:
    wrap = widgets.Layout(flex_flow="row wrap")
    return [widgets.HBox([controls[name] for name in row], layout=wrap) for row in names]


def _shown(name: str, value: object) -> object:
    """70e9 as one would type it."""
    if name != "parameters" or isinstance(value, str):
        return value
    return f"{value:.6g}" if value < 1e6 else f"{value / 1e9:g}e9"


def _number(text: str) -> float:
    """N as typed: 70e9, 70B, 7_000_000_000. Raises ValueError with what would do."""
    plain = text.strip().replace(",", "").replace("_", "").replace(" ", "")
    for letter, times in (("B", 1e9), ("M", 1e6), ("T", 1e12)):
        if plain.upper().endswith(letter):
            plain, scale = plain[:-1], times
            break
    else:
        scale = 1.0
    try:
        found = float(plain) * scale
    except ValueError:
        found = float("nan")
    if not (isfinite(found) and found > 0):
        raise ValueError(
            f"parameters, N: {escape(text)!r} is no number above 0; 70e9 or 70B would do"
        )
    return found
