"""The mesh planner as a lab: its stories, its score, and a plan of its own held against real ranks.

    N, L, G, nodes ──► dp·pp·tp = G ──► memory a GPU, bubble, regime, seconds
                                          │ the same formulas, at the size of a laptop
                                          ▼
                                 eight ranks: bytes held, bytes sent, bubble measured

`run(ranks=8)` goes through the three stories by formula and by simulation, scores the planner on
published runs that its constants were not fitted on, and runs a plan tiny on `ranks` real ranks.
`explore()` is the planner as widgets.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import ModuleType

from labs.planner.evidence.errors import Bars, error_bars
from labs.planner.legal import refusals
from labs.planner_widget import by_score, by_stories, by_tiny
from labs.planner_widget.answer import exported
from labs.planner_widget.asked import Asked, an_asked
from labs.planner_widget.pictures.gantt import simulated
from labs.result import Result
from labs.sections import chosen

TOPIC = "planner_widget"
_ROOMS: dict[str, ModuleType] = {room.SECTION: room for room in (by_stories, by_score, by_tiny)}
SECTIONS = tuple(_ROOMS)
__all__ = [
    "SECTIONS", "TOPIC", "Asked", "Result", "bars", "command", "explore", "exported", "refused",
    "run", "simulated", "tell",
]  # fmt: skip


def command(ranks: int = 8) -> str:
    """The plain torchrun command of this lab."""
    return f"torchrun --nproc-per-node {ranks} -m labs.{TOPIC}"


def run(
    ranks: int = 8,
    *,
    only: Iterable[str] | str | None = None,
    asked: Asked | None = None,
    mode: str | None = None,
    status: bool = True,
) -> Result:
    """The lab. only: some of SECTIONS; asked: the cluster, the model and the plan (None: 64 GPUs,
    70e9 parameters, dp=2 pp=4 tp=8), of which the last section runs a tiny one on `ranks` ranks;
    mode: "warm" or "cold".

    Raises ValueError, before anything is launched, for what cannot be.
    """
    sections = chosen(TOPIC, SECTIONS, only)
    asked = an_asked(asked)
    result = Result(TOPIC, dict(ranks=ranks, gpus=asked.gpus, layout=str(asked.layout())))
    begun = time.monotonic()
    for section in sections:
        _ROOMS[section].add(result, asked, ranks, mode, status)
    result.seconds = time.monotonic() - begun
    return result


def explore(asked: Asked | None = None, precise: bool = False, **fields: object) -> object:
    """The planner as a box of widgets (labs/planner_widget/panel.py)."""
    from labs.planner_widget import panel

    return panel.explore(an_asked(asked), precise, **fields)


def tell(which: str, asked: Asked | None = None) -> object:
    """Story "a", "b" or "c" (labs/planner_widget/stories.py)."""
    from labs.planner_widget import stories

    return stories.tell(which, an_asked(asked))


def refused(asked: Asked) -> list[str]:
    """Why a layout cannot be, a sentence each; empty where it can. Raises ValueError as Asked."""
    return [
        one.sentence for one in refusals(an_asked(asked).model(), asked.cluster(), asked.layout())
    ]


def bars(asked: Asked) -> Bars:
    """How far off the seconds of such a layout may be (labs/planner/evidence/errors.py)."""
    return error_bars(asked.layout(), asked.software())
