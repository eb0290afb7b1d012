"""The section "stories": (a), (b) and (c), each step by formula, the bubbles by simulation too."""

from __future__ import annotations

from labs import formulas
from labs.answers import Missing
from labs.planner.lesson import FIXED_M, SENSIBLE_BUBBLE, story_a, story_b, story_c
from labs.planner_widget.asked import Asked
from labs.planner_widget.pictures.gantt import simulated
from labs.result import Check, Result, at_most, equal

SECTION = "stories"
_SIMULATED = 16
"""Stages of the longest pipeline that is simulated here."""


def add(result: Result, asked: Asked, ranks: int, mode: str | None, status: bool) -> None:
    """The checks of all three stories."""
    sizes = (asked.gpus, asked.per_node, asked.parameters, asked.layers)
    result.checks += _of_a(sizes, asked)
    try:
        result.checks += _of_b(sizes, asked)
    except Missing as missing:
        result.notes.append(str(missing))


def _of_a(sizes: tuple, asked: Asked) -> list[Check]:
    return [
        equal(f"(a) {one.ask.name}: red for its tp", "of a node: all-reduces" in one.reasons[0],
              one.ask.tp > asked.per_node, "", "tp against the GPUs of a node")
        for one in story_a(*sizes, asked.batch)
    ]  # fmt: skip


def _of_b(sizes: tuple, asked: Asked) -> list[Check]:
    """State equal to the byte, bubble by formula and simulation, and its limit at the batch."""
    tp = asked.tp if asked.gpus % asked.tp == 0 else 1
    rows = story_b(*sizes, tp, asked.batch, asked.mbs)
    back = story_c(*sizes, tp, asked.batch, asked.mbs)
    states = len({one.state for one in rows})
    found = [
        equal("(b) values of state a GPU", states, 1, "", "16·N/(dp·pp·tp)"),
        equal("(c) is (b) the other way round", back == rows[::-1], True, "", "layouts"),
    ]
    k = asked.batch * tp / (asked.gpus * asked.mbs)
    for one in rows:
        pp, name = one.ask.pp, f"(b) {one.ask.name}"
        if pp <= _SIMULATED:
            apart = abs(simulated(pp, FIXED_M).bubble_share - one.bubble)
            told = f"{name}, m = {FIXED_M}: bubble simulated, apart"
            found.append(at_most(told, apart, 1e-12, "of the time", f"formula {one.bubble:.4f}"))
        if one.bubble_batch is not None:
            told = f"{name}, batch {asked.batch}: bubble"
            limit = f"1/(1 + {k:g}), where it saturates"
            found.append(at_most(told, one.bubble_batch, 1 / (1 + k), "of the time", limit))
    rising = [one.bubble for one in rows]
    found.append(equal(f"(b) at m = {FIXED_M} each step's bubble is larger",
                       all(a < b for a, b in zip(rising, rising[1:], strict=False)), True, "",
                       "(p-1)/(m + p-1)"))  # fmt: skip
    enough = formulas.micro_batches_for(SENSIBLE_BUBBLE, rows[-1].ask.pp)
    found.append(at_most(f"(b) m that leaves {rows[-1].ask.name} a bubble of {SENSIBLE_BUBBLE:.0%}",
                         enough, 4 * rows[-1].ask.pp, "micro-batches", "m = 4p"))  # fmt: skip
    return found
