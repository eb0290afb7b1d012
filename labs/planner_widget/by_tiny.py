"""The section "tiny": the plan's shape on a few real ranks, each figure beside the planner's."""

from __future__ import annotations

from labs.planner_widget.asked import Asked
from labs.planner_widget.tiny import Row, Tiny, run_tiny
from labs.result import Check, Result, by_clock, equal, near

SECTION = "tiny"


def add(result: Result, asked: Asked, ranks: int, mode: str | None, status: bool) -> None:
    """A check for each row; the whole in values["tiny"]."""
    tiny = run_tiny(asked.layout(), asked.model(), ranks=ranks, mode=mode, status=status)
    take(result, tiny)


def take(result: Result, tiny: Tiny) -> None:
    """Add the checks of a tiny run, and what figures draw from."""
    at = tiny.shrunk.layout
    result.run, result.values[SECTION] = tiny.run, tiny
    result.notes += [f"{at}, m={at.micro_batches}", *tiny.shrunk.told]
    result.checks += [_check(row) for row in tiny.rows]


def _check(row: Row) -> Check:
    name = f"tiny: {row.what}"
    if row.clock:
        return by_clock(
            near(name, row.measured, row.predicted, row.within, row.unit, "(p-1)/(m+p-1)")
        )
    if row.within == 0:
        return equal(name, row.measured, row.predicted, row.unit, "planner")
    return near(name, row.measured, row.predicted, row.within * row.predicted, row.unit, "planner")
