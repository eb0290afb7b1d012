"""What the lab cannot run, said before a launch: which numbers clash, and what would do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from labs import ranks
from labs.context_parallel.jobs import CAUSAL, FULL, PLAIN, ZIGZAG, Job
from labs.formulas.sizes import need_shared, need_whole

MASKS, LAYOUTS = (CAUSAL, FULL), (PLAIN, ZIGZAG)


def length(tokens: int, c: int, layout: str = PLAIN) -> None:
    """A sequence that `c` ranks cannot share. Raises ValueError with the nearest that work."""
    need_shared(tokens, c, chunks=2 if layout == ZIGZAG else 1)


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
        need_whole(lengths=tokens)
        length(tokens, c)
    return tuple(sorted(set(asked)))


def long(asked: object) -> None:
    """Two lengths: of the runs whose error is compared, and of the one on all ranks."""
    if not isinstance(asked, (tuple, list)) or len(asked) != 2:
        raise ValueError(f"long must be two numbers of tokens, as (6144, 8192), got {asked!r}")
    need_whole(long=asked[0])
    need_whole(long=asked[1])


def functions(mine: Mapping[str, object]) -> None:
    """Functions of somebody's own, by name. Raises ValueError for what cannot be called."""
    for name, one in mine.items():
        if one is not None and not callable(one) and not isinstance(one, ranks.Source):
            raise ValueError(f"{name} must be a function, got {one!r}")


def fits(n: int, jobs: Iterable[Job]) -> None:
    """Each of `n` ranks draws q, k, v and the gradient of out of all tokens, in fp64.

    Raises ValueError, with the longest that fits, where the machine has not that much memory.
    """
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for job in jobs:
        token = 8 * 2 * (job.heads + job.kv_heads) * job.batch * job.head_dim * n
        if token * job.length > room:
            most = room // token // (2 * n) * 2 * n
            raise ValueError(
                f"{job.length:,} tokens: {n} ranks would draw {token * job.length / 2**30:,.0f} "
                f"GiB of q, k, v and gradients, this machine has {room / 2**30:,.0f}; at most "
                f"{most:,} tokens would do"
            )


def budget(size: object) -> None:
    """Bytes a rank for the longest sequence. Raises ValueError below what a kernel takes itself."""
    least = 4 * 2**20
    if isinstance(size, bool) or not isinstance(size, int) or size < least:
        raise ValueError(f"budget must be a whole number of bytes, {least:,} or more, got {size!r}")


def seed(asked: object) -> None:
    """What inputs are drawn from. Raises ValueError."""
    if isinstance(asked, bool) or not isinstance(asked, int) or not 0 <= asked < 2**63:
        raise ValueError(f"seed must be a whole number from 0 to 2**63 - 1, got {asked!r}")


def timed(seconds: object, tries: object) -> None:
    """Seconds of a rank's share of a pass, up to one; how often it runs. Raises ValueError."""
    need_whole(tries=tries)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= 1:
        raise ValueError(f"seconds must be above 0 and at most 1, got {seconds!r}")
