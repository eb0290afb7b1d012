"""Answers to notebook 02: the slots of a pipeline, its bubble, its time.

The picture to hold in mind: micro-batch i is on rank s in slot i + s. So every row has m full slots
and p - 1 empty ones.
"""

from __future__ import annotations

import math


def fill_and_drain(ranks: int, micro_batches: int) -> list[list[int | None]]:
    """Who works on what in which slot, when all only pass forward.

    ranks           p, 1 or more
    micro_batches   m, 1 or more
    returns a row for each rank; row[slot] is the micro-batch that the rank works on in that slot,
            from 0, or None where it waits

    Rank 0 can begin at once, rank s when rank s-1 is done with the micro-batch. A pass takes one
    slot everywhere. All rows are as long as the whole takes.
    """
    slots = micro_batches + ranks - 1
    rows: list[list[int | None]] = [[None] * slots for _ in range(ranks)]
    for rank, row in enumerate(rows):
        for i in range(micro_batches):
            row[rank + i] = i
    return rows


def bubble_share(ranks: int, micro_batches: int) -> float:
    """Idle part of the total time, from 0 to 1: the empty slots of all slots."""
    return (ranks - 1) / (micro_batches + ranks - 1)


def micro_batches_for(share: float, ranks: int) -> int:
    """The fewest micro-batches with which the bubble is at most `share` of the total time.

    share    above 0 and below 1
    returns  a whole number, 1 or more
    """
    return max(1, math.ceil((ranks - 1) * (1 / share - 1) - 1e-9))


def step_time(ranks: int, micro_batches: int, forward: float, backward: float) -> float:
    """Time of a step: all forward passes, then all backward passes, on ranks that are alike.

    forward, backward   of one micro-batch on one rank, in ms
    """
    return (micro_batches + ranks - 1) * (forward + backward)
