"""Wrong on purpose: a ring that waits for its messages before it computes.

Same values, same bytes, no overlap: each message's time comes on top. It is any ring, run so that
every pair of a send and a receive is waited for as soon as it is posted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from labs.context_parallel.clock.watched import Watch


def blocking(ring: Callable) -> Callable:
    """`ring` (a ring_forward or a ring_backward) without overlap."""

    @wraps(ring)
    def waiting(*args: Any, **kwargs: Any) -> Any:
        with Watch(at_once=True):
            return ring(*args, **kwargs)

    return waiting
