"""The controls: a widget for each field of Asked, by name, and what stands in which row."""

from __future__ import annotations

import ipywidgets as widgets

from labs.planner.cluster import GPUS, LARGEST
from labs.planner.legal import divisors
from labs.planner_widget.asked import ASSUMED, Asked

DEGREES = ("tp", "pp", "cp")
_TABLES = {
    "bf16": "16: bf16", "bf16, fp32 gradients": "18: bf16, fp32 gradients",
    "fp32 shards": "16: FSDP's fp32 shards", "fp32": "16: fp32",
}  # fmt: skip


LESSON = (
    ("gpus", "per_node", "parameters", "layers"), ("tp", "pp", "dp"), ("batch", "mbs"),
)  # fmt: skip
MORE = (
    ("gpu",), ("hidden", "heads", "kv_heads", "ffn"), ("vocab", "length", "gated", "tied"),
    ("cp", "v", "zero"), ("recompute", "sp", "flash"), ("table",),
)  # fmt: skip
EVERY = tuple(name for several in (LESSON, MORE) for row in several for name in row)
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


def controls(asked: Asked) -> dict[str, widgets.ValueWidget]:
    """A control for each field of Asked."""
    found = {name: _control(name, getattr(asked, name), asked) for name in EVERY}
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
        layout = wide("205px")
        return widgets.Text(
            value=shown(name, value), continuous_update=False, layout=layout, **given
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
    least = 0 if name in ASSUMED else 1
    layout = wide("205px")
    return widgets.BoundedIntText(value=value, min=least, max=LARGEST, layout=layout, **given)


def offer(slider: widgets.SelectionSlider, values: set[int], value: int) -> None:
    """Set a slider's values and its place in one message: a page told one after the other moves."""
    options = sorted(values)
    if list(slider.options) == options and slider.value == value:
        return
    with slider.hold_sync():
        slider.options = options
        slider.value = value


def wide(width: str) -> widgets.Layout:
    return widgets.Layout(width=width)


_STYLE = {"description_width": "100px"}


def rows(controls: dict, names: tuple) -> list[widgets.HBox]:
    wrap = widgets.Layout(flex_flow="row wrap")
    return [widgets.HBox([controls[name] for name in row], layout=wrap) for row in names]


def shown(name: str, value: object) -> object:
    """70e9 as one would type it, to the last figure."""
    if name != "parameters" or isinstance(value, str):
        return value
    for text in (f"{value / 1e9:.12g}e9", f"{value:.17g}"):
        if value >= 1e6 and text.count("e") == 1 and float(text) == value:
            return text
    return f"{value:.17g}"
