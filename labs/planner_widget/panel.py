"""The planner as widgets: controls above, what they come to below. Everything goes by keyboard.

Tab goes from control to control. Arrow keys move a slider and a number, Space ticks a box, Enter
presses a button. There are no drop-down lists: JupyterLab takes their arrow keys for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import ipywidgets as widgets

from labs.answers import Missing
from labs.planner.legal import divisors
from labs.planner_widget import words
from labs.planner_widget.answer import BLOCKS, answer
from labs.planner_widget.asked import Asked, number
from labs.planner_widget.controls import (
    DEGREES,
    EVERY,
    LESSON,
    MORE,
    controls,
    offer,
    rows,
    shown,
    wide,
)
from labs.planner_widget.stories import TITLES, Told, tell
from labs.ranks import RunFailed


class Panel:
    """The controls of one planner; `asked` is what they say, `blocks` what is shown; `refused` why
    what they say is nothing to ask, and then `asked` is what they said before.

    box: the widget to display. controls: each by the name of its field of Asked.
    """

    def __init__(self, asked: Asked | None = None, precise: bool = False) -> None:
        self.asked = asked or Asked()
        self.told: Told | None = None
        self.blocks: dict[str, str] = {}
        self.refused = ""
        self._quiet = False
        self.controls = controls(self.asked)
        self.follows = widgets.Checkbox(
            value=True, description="dp follows: dp = G ÷ (the others)", indent=False
        )
        self.more = widgets.ToggleButton(
            value=precise, description="More: the precise view", layout=wide("220px")
        )
        self.stories = {
            which: widgets.Button(description=title, layout=wide("310px"))
            for which, title in TITLES.items()
        }
        self.run = widgets.Button(description="Run this plan tiny, on real ranks",
                                  layout=wide("310px"))  # fmt: skip
        self.run.add_class("planner-run")
        self.run.on_click(lambda _: self.run_tiny())
        self.views = {name: widgets.HTML() for name in (*BLOCKS, "story", "tiny")}
        self.follows.add_class("planner-follows")
        self.more.add_class("planner-more")
        for control in (*self.controls.values(), self.follows, self.more):
            control.observe(self._changed, "value")
        for which, button in self.stories.items():
            button.add_class(f"planner-story-{which}")
            button.on_click(lambda _, which=which: self.tell(which))
        self._more_box = widgets.VBox(rows(self.controls, MORE))
        top = [
            *rows(self.controls, LESSON), widgets.HBox([self.follows, self.more]),
            self._more_box, widgets.HBox(list(self.stories.values())),
        ]  # fmt: skip
        top.append(self.run)
        order = ["verdict", "tiny", "story", *(name for name in BLOCKS if name != "verdict")]
        self.box = Box(self, [*top, *(self.views[name] for name in order)])
        self._changed()

    def set(self, **fields: object) -> None:
        """Move controls by their names, all at once: one new picture.

        Raises ValueError, a sentence, and moves none, for a name that is no control or a value
        that it cannot have. N as text goes to its control as it was typed.
        """
        _known(fields)
        text = {name: one for name, one in fields.items() if _typed(name, one)}
        rest = {name: one for name, one in fields.items() if name not in text}
        asked = replace(self.asked, **rest)
        fields = {name: getattr(asked, name) for name in rest} | text
        self._quiet = True
        try:
            for name, value in fields.items():
                control = self.controls[name]
                if name in DEGREES:
                    offer(control, {*control.options, value}, value)
                else:
                    control.value = shown(name, value)
        finally:
            self._quiet = False
        self._changed()

    def tell(self, which: str) -> None:
        """Tell a story, and set the layout to where it arrives. Of what is refused there is none.

        Raises ValueError for a story that there is not.
        """
        if self.refused:
            return
        self.told = tell(which, self.asked)
        last = self.told.views[-1].ask
        self._quiet = True  # one new picture, at the end
        self.follows.value = True
        self.set(dp=last.dp, pp=last.pp, cp=1, tp=last.tp)
        self.views["story"].value = self.told.html()

    def run_tiny(self) -> None:
        """Start the plan's shape on a few real ranks; what came of it beside what was predicted."""
        from labs.planner_widget.tiny import run_tiny

        view = self.views["tiny"]
        if self.refused:
            view.value = words.verdict("red", [self.refused])
            return
        view.value = words.heading("Running on real ranks of this machine …")
        try:
            told = str(run_tiny(self.asked.layout(), self.asked.model(), status=False))
        except (ValueError, RunFailed, Missing) as failed:
            told = str(failed)
        view.value = words.heading("This plan, tiny, on real ranks") + words.verbatim(told)

    def _changed(self, change: object = None) -> None:
        if self._quiet:
            return
        try:
            self.asked, self.refused = self._read(), ""
        except ValueError as refused:
            self.refused, self.told = str(refused), None
            self.views["story"].value = self.views["tiny"].value = ""
            self._show(
                dict.fromkeys(BLOCKS, "") | {"verdict": words.verdict("red", [str(refused)])}
            )
            return
        if getattr(change, "owner", None) in self.controls.values():
            self.views["story"].value = self.views["tiny"].value = ""
            self.told = None
        precise = self.more.value
        self._more_box.layout.display = "" if precise else "none"
        self._show(answer(self.asked, precise))

    def _read(self) -> Asked:
        """What the controls say; dp of what the other degrees leave, and their options by G."""
        given = {name: control.value for name, control in self.controls.items()}
        given["parameters"] = number(given["parameters"])
        asked = Asked(**given) if self.more.value else replace(Asked(**given), cp=1)
        self._quiet = True
        try:
            for name in DEGREES:
                control = self.controls[name]
                offer(control, {*divisors(asked.gpus), control.value}, control.value)
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
    _known(fields)
    return Panel(replace(asked or Asked(), **fields), precise).box


def _known(fields: Mapping[str, object]) -> None:
    unknown = [name for name in fields if name not in EVERY]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no control; there are {', '.join(EVERY)}")


def _typed(name: str, value: object) -> bool:
    return name == "parameters" and isinstance(value, str)
