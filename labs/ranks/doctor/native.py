"""Waits inside torch's own C++, which no journal has: DDP's, in a backward pass or as it is made.

What is known is the rank's last call and, once its limit is reached, its stack. A rank that sleeps
below a line of torch's, and whose last call is a collective that some rank has not joined, waits
for that one: whatever else torch does there, it computes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from labs.ranks.doctor.stacks import Look
from labs.ranks.doctor.standing import Stand, Wait
from labs.ranks.doctor.stuck import need
from labs.ranks.journal import COLLECTIVE

_WHERE = tuple(
    os.sep + os.path.join("torch", *part) + os.sep
    for part in (("autograd",), ("distributed",), ("nn", "parallel"))
)


def with_native_waits(stands: Sequence[Stand], looks: Mapping[int, Look]) -> list[Stand]:
    """`stands`, with the wait of each rank that its last call and its stack tell of."""
    found = []
    for stand in stands:
        wait = last_call(stand)
        look = looks.get(stand.rank)
        if (
            wait is not None and look is not None and not stand.ended and not stand.waits
            and look.alive and not look.busy and not look.stopped and _in_torch(look)
            and wait.call.kind == COLLECTIVE and need(stand.rank, wait, stands).ranks
        ):  # fmt: skip
            stand = replace(stand, waits=(wait,))
        found.append(stand)
    return found


def last_call(stand: Stand) -> Wait | None:
    """The rank's last call as a wait for its end, in the line that made it."""
    for call in reversed(stand.calls.values()):
        return Wait(call, call.file, call.function, call.line)
    return None


def _in_torch(look: Look) -> bool:
    return bool(look.frames) and any(part in look.frames[0].file for part in _WHERE)
