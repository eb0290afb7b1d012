"""Seeds from which nobody finds the others'."""

from __future__ import annotations

import hashlib


def mixed(*numbers: int) -> int:
    """A seed of 63 bits from some numbers: where one of them differs, another seed altogether.

    Whoever knows it does not know the numbers, nor what others were made of.
    """
    told = hashlib.sha256(" ".join(map(str, numbers)).encode()).digest()
    return int.from_bytes(told[:8], "big") >> 1
