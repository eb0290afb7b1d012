"""What a rank executes: every collective on stamped blocks, counted once, timed over sizes.

A time is taken after a barrier, several times. A collective is over when its last rank is done, and
it cannot begin before its last rank has come; so each rank reports when it came and when it left,
by the clock that all processes of a machine share, and the slowest counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks_and_collectives.collectives import COLLECTIVES, Collective, stamped

BYTES = "bytes"
TIMES = "times"
COUNTED = 2**20
"""Bytes of the whole tensor whose traffic is counted."""
Span = tuple[float, float]


ROUNDS = 2
"""All sizes are gone through that often: what else the machine does comes and goes in waves."""


def repeats(whole: int) -> int:
    """How often a call is timed in a round; one more goes before, to touch the memory."""
    return 4 if whole <= 2**16 else 2


def numbers_a_block(whole: int, t: int) -> int:
    """fp32 numbers in each of t blocks, so that together they have `whole` bytes or a few more."""
    return -(-whole // (4 * t))


def on_rank(sections: tuple[str, ...], sizes: tuple[int, ...]) -> dict[str, object]:
    """By section: before and after of each collective; bytes sent by each; times of each."""
    found: dict[str, object] = dict(sizes=list(sizes))
    if "collectives" in sections:
        found["collectives"] = {op: _stamped(one) for op, one in COLLECTIVES.items()}
    if BYTES in sections:
        found[BYTES] = {op: _counted(one) for op, one in COLLECTIVES.items()}
    if TIMES in sections and dist.get_world_size() > 1:
        found[TIMES] = _rounds(sizes)
    return found


def _rounds(sizes: tuple[int, ...]) -> dict[str, list[list[Span]]]:
    """By operation, for each size the spans of all rounds. A ping-pong goes before each size."""
    spans = {op: [[] for _ in sizes] for op in ("send", *COLLECTIVES)}
    for done in range(ROUNDS):
        ranks.step(done + 1, ROUNDS)
        for place, size in enumerate(sizes):
            spans["send"][place] += _ping_pong(size)
            for op, one in COLLECTIVES.items():
                spans[op][place] += _timed(one, size)
    return spans


def _stamped(one: Collective) -> dict[str, torch.Tensor | None]:
    rank, t, here = dist.get_rank(), dist.get_world_size(), ranks.device()
    before = stamped(one.before(rank, t))
    x = None if before is None else before.to(here, copy=True)
    with ranks.section("collectives", timeline=True):
        after = one.call(x, torch.zeros(t, t, dtype=torch.float64, device=here))
    return dict(before=before, after=after)


def _made(one: Collective, whole: int) -> Callable[[], object]:
    """The call, its memory already there."""
    rank, t, here = dist.get_rank(), dist.get_world_size(), ranks.device()
    numbers = numbers_a_block(whole, t)
    x, room = one.holds(rank, t, numbers), torch.zeros(t, numbers, device=here)
    x = None if x is None else x.to(here)
    return lambda: one.call(x, room)


def _counted(one: Collective) -> int | None:
    """Bytes that left this rank's sockets; None where the system does not tell."""
    call = _made(one, COUNTED)
    dist.barrier()  # nobody's earlier messages are under way
    before = ranks.sockets_sent()
    with ranks.section(BYTES):
        call()
    dist.barrier()  # nothing of this call is left in a socket's buffer
    after = ranks.sockets_sent()
    return None if before is None or after is None else after - before


def _now() -> float:
    if torch.cuda.is_available() and ranks.device().type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def _timed(one: Collective, whole: int) -> list[Span]:
    """When this rank came and when it was done, each time."""
    call = _made(one, whole)
    alone = os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
    spans = []
    with ranks.section(TIMES):
        call()
        for _ in range(repeats(whole)):
            dist.barrier()
            came = _now()
            call()
            left = _now()
            # Ranks on other machines have other clocks: there only the length can be told.
            spans.append((came, left) if alone else (0.0, left - came))
    return spans


def _ping_pong(whole: int) -> list[Span]:
    """Half of the way from rank 0 to rank 1 and back; the other ranks wait."""
    rank = dist.get_rank()
    x = torch.zeros(-(-whole // 4), device=ranks.device())
    spans = []
    with ranks.section(TIMES):
        for _ in range(2 * repeats(whole) + 1):  # it is quick, and much rests on it
            came = _now()
            if rank == 0:
                dist.send(x, 1)
                dist.recv(x, 1)
            elif rank == 1:
                dist.recv(x, 0)
                dist.send(x, 0)
            spans.append((0.0, (_now() - came) / 2))
        dist.barrier()
    return spans[1:]
