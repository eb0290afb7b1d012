"""Slots of a forward-only pipeline as data: `grid[rank][slot]`, a micro-batch's number or None."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from labs.schedules.instructions import Instruction, Schedule, forward, make

Grid = Sequence[Sequence[int | None]]
_LONGEST = 10_000
"""Slots of a row that is still read."""


def schedule(grid: Grid, micro_batches: int) -> Schedule:
    """The order that the slots stand for; when each pass starts is the pipeline's own affair."""

    def order(rank: int, ranks: int, m: int) -> list[Instruction]:
        return [forward(i) for i in grid[rank] if i is not None]

    return make("your slots", order, len(grid), micro_batches)


def plain(grid: Grid) -> list[list[int | None]]:
    """The same in lists, and its whole numbers of Python's own type (NumPy has others)."""
    return [[None if x is None else int(x) for x in row] for row in grid]


def odd(grid: object, p: int) -> str:
    """Why this is no grid of p rows, or "": a sentence."""
    if not isinstance(grid, (list, tuple)):
        return f"it returned {type(grid).__name__}, not a list of {p} rows"
    if len(grid) != p:
        return f"it has {len(grid)} rows, there are {p} ranks"
    for rank, row in enumerate(grid):
        if not isinstance(row, (list, tuple)):
            return f"the row of rank {rank} is {type(row).__name__}, not a list"
        if len(row) > _LONGEST:
            return f"the row of rank {rank} has {len(row):,} slots; no more than needed, please"
        wrong = [
            x for x in row
            if x is not None and (isinstance(x, bool) or not isinstance(x, Integral))
        ]  # fmt: skip
        if wrong:
            return (
                f"the row of rank {rank} has {wrong[0]!r} in it; a slot holds a micro-batch's "
                "number or None"
            )
    return ""


def missing(grid: Grid, m: int) -> str:
    """Whose micro-batch is not worked on exactly once, or ""."""
    for rank, row in enumerate(grid):
        for i in range(m):
            if list(row).count(i) != 1:
                times = list(row).count(i)
                return f"rank {rank} works on micro-batch {i} {times} times, not once"
        other = [x for x in row if x is not None and not 0 <= x < m]
        if other:
            return f"rank {rank} works on micro-batch {other[0]}; there are 0 to {m - 1}"
    return ""


def too_early(grid: Grid, m: int) -> str:
    """Which rank works on something that the rank before it has not done yet, or ""."""
    for rank in range(1, len(grid)):
        for i in range(m):
            before, at = list(grid[rank - 1]).index(i), list(grid[rank]).index(i)
            if at <= before:
                return (
                    f"rank {rank} works on micro-batch {i} in slot {at}, but rank {rank - 1} has "
                    f"it only after slot {before}"
                )
    return ""
