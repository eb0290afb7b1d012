"""What a pipeline cannot be, said before a launch: which numbers clash, and what would do."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from numbers import Integral

from labs import ranks
from labs.ranks.ship import Source

MOST = 4096
"""Micro-batches of a step."""
LONGEST = 60.0
"""Seconds that one step on simulated devices may take."""


def micro_batches(asked: Iterable[int]) -> tuple[int, ...]:
    """Numbers of micro-batches, each once, in order. Raises ValueError for what is none."""
    given = list(asked) if isinstance(asked, Iterable) and not isinstance(asked, str) else []
    if not given:
        raise ValueError(f"micro_batches must be numbers, as (4, 8, 32), got {asked!r}")
    for m in given:
        if isinstance(m, bool) or not isinstance(m, Integral) or m < 1:
            raise ValueError(f"micro_batches must be whole numbers from 1 on, got {m!r}")
        if m > MOST:
            raise ValueError(f"{m:,} micro-batches asked for; at most {MOST:,} are run here")
    return tuple(sorted(set(map(int, given))))


def orders(**given: object) -> None:
    """Orders of one's own, by name; None: the course's. Raises ValueError for what is none."""
    for name, order in given.items():
        if order is not None and not callable(order) and not isinstance(order, Source):
            raise ValueError(f"{name} must be a function, got {order!r}")


def step(n: int, m: int, forward: float, tries: int) -> None:
    """Ranks, micro-batches, seconds of a forward pass, tries. Raises ValueError."""
    ranks.place(n)
    if isinstance(forward, bool) or not isinstance(forward, (int, float)) or not 0 < forward < inf:
        raise ValueError(f"forward must be seconds above 0, got {forward!r}")
    if isinstance(tries, bool) or not isinstance(tries, Integral) or tries < 1:
        raise ValueError(f"tries must be a whole number from 1 on, got {tries!r}")
    seconds = (m + n - 1) * 3 * forward
    if seconds > LONGEST:
        fits = int(LONGEST / (3 * forward)) - n + 1
        near = f"at most {fits} micro-batches" if fits > 0 else "a shorter forward pass"
        raise ValueError(
            f"{m} micro-batches of {3 * forward:g} s on {n} ranks take {seconds:.0f} s a step; "
            f"{near} would end within {LONGEST:.0f} s"
        )


def multiple(m: int, p: int) -> None:
    """Interleaved: micro-batches must be a multiple of the ranks. Raises ValueError."""
    told = no_multiple(m, p)
    if told:
        raise ValueError(told)


def no_multiple(m: int, p: int) -> str:
    """Why there is no interleaved order of these, with what would do; "" where there is one."""
    if m % p == 0:
        return ""
    below = m // p * p
    near = f"{below} or {below + p}" if below else f"{p}"
    return (
        f"{m} micro-batches are no multiple of {p} ranks, which the interleaved order needs; "
        f"{near} would do"
    )
