"""What no formula has an answer to: sizes that are none, sequences that ranks cannot share."""

from __future__ import annotations

import math
from numbers import Integral, Real


def need_whole(**sizes: object) -> None:
    """Each must be a whole number from 1 on. Raises ValueError."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"{name} must be a whole number from 1 on, got {size!r}")


def need_times(**times: object) -> None:
    """Each must be a number from 0 on, in whatever unit. Raises ValueError."""
    for name, time in times.items():
        real = isinstance(time, Real) and not isinstance(time, bool)
        if not real or not 0 <= time < math.inf:
            raise ValueError(f"{name} must be a time, a number from 0 on, got {time!r}")


def need_shared(length: int, ranks: int, chunks: int = 1) -> None:
    """The ranks must be able to share a sequence equally, in `chunks` pieces each.

    Raises ValueError with the nearest lengths that work.
    """
    need_whole(length=length, ranks=ranks)
    pieces = chunks * ranks
    if length % pieces:
        below = length // pieces * pieces
        near = f"{below} or {below + pieces}" if below else f"{pieces}"
        told = f"{ranks} ranks" if chunks == 1 else f"{ranks} ranks with {_WORDS[chunks]} each"
        raise ValueError(
            f"{length} tokens cannot be shared by {told}: {length} % {pieces} = "
            f"{length % pieces}; {near} tokens would do"
        )


_WORDS = {2: "two chunks"}
