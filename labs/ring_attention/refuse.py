"""What the lab cannot run, said before a launch: which numbers clash, and what would do."""

from __future__ import annotations

from collections.abc import Iterable

from labs import ranks
from labs.context_parallel.jobs import CAUSAL, FULL, PLAIN, ZIGZAG

MASKS, LAYOUTS = (CAUSAL, FULL), (PLAIN, ZIGZAG)


def whole(**numbers: object) -> None:
    """Each must be a whole number from 1 on. Raises ValueError."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ValueError(f"{name} must be a whole number from 1 on, got {number!r}")


def length(tokens: int, c: int, layout: str = PLAIN) -> None:
    """A sequence that `c` ranks cannot share. Raises ValueError with the nearest that work."""
    pieces = 2 * c if layout == ZIGZAG else c
    if tokens % pieces:
        below = tokens // pieces * pieces
        near = f"{below} or {below + pieces}" if below else f"{pieces}"
        told = f"{c} ranks" if layout == PLAIN else f"{c} ranks with two chunks each"
        raise ValueError(
            f"{tokens} tokens cannot be shared by {told}: {tokens} % {pieces} = {tokens % pieces}; "
            f"{near} tokens would do"
        )


def mask(asked: object) -> None:
    """The ring knows two masks. Raises ValueError for any other."""
    if asked not in MASKS:
        raise ValueError(
            f"the mask {asked!r} was asked for; a ring of blocks knows {CAUSAL!r} (by place in the "
            f"whole sequence) and {FULL!r}: any other would have to travel with the keys"
        )


def layout(asked: object) -> None:
    """Plain or zigzag. Raises ValueError for any other."""
    if asked not in LAYOUTS:
        raise ValueError(f"the layout {asked!r} was asked for; there are {PLAIN!r} and {ZIGZAG!r}")


def heads(q: int, kv: int) -> None:
    """Each KV head serves as many query heads. Raises ValueError with the nearest that work."""
    if q % kv:
        near = ", ".join(str(n) for n in range(1, q + 1) if q % n == 0)
        raise ValueError(
            f"{q} query heads cannot share {kv} KV heads: {q} % {kv} = {q % kv}; "
            f"KV heads that work: {near}"
        )


def world(n: int) -> None:
    """As many ranks as fit on this machine. Raises ValueError."""
    ranks.place(n)


def lengths(asked: Iterable[int], c: int) -> tuple[int, ...]:
    """Lengths whose memory is measured, each once, in order. Raises ValueError for what is none."""
    if not isinstance(asked, (tuple, list, set, range)) or not asked:
        raise ValueError(f"lengths must be numbers of tokens, as (2048, 4096), got {asked!r}")
    for tokens in asked:
        whole(lengths=tokens)
        length(tokens, c)
    return tuple(sorted(set(asked)))


def budget(size: object) -> None:
    """Bytes a rank for the longest sequence. Raises ValueError below what a kernel takes itself."""
    least = 4 * 2**20
    if isinstance(size, bool) or not isinstance(size, int) or size < least:
        raise ValueError(f"budget must be a whole number of bytes, {least:,} or more, got {size!r}")


def timed(seconds: object, tries: object) -> None:
    """Seconds of a rank's share of a pass, up to one; how often it runs. Raises ValueError."""
    whole(tries=tries)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 1:
        raise ValueError(f"seconds must be above 0 and at most 1, got {seconds!r}")
