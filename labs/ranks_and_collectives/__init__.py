"""Ranks and collectives: eight ways to move blocks between processes, drawn, counted and timed.

    rank 0: a          all-reduce         rank 0: a + b
    rank 1: b         ───────────►        rank 1: a + b

`run(ranks=4)` runs every collective on real ranks with blocks that say where they come from, holds
the result against the definition and the bytes against the algorithm, and times each over sizes
beside the α–β model with the α and β of this machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from labs import ranks
from labs.ranks import Run
from labs.ranks_and_collectives import accounts
from labs.ranks_and_collectives.collectives import COLLECTIVES, origins, read
from labs.ranks_and_collectives.on_rank import BYTES, TIMES, on_rank
from labs.result import Result
from labs.sections import chosen

TOPIC = "ranks_and_collectives"
SECTIONS = ("collectives", BYTES, TIMES)
SIZES = (2**10, 2**13, 2**16, 2**19, 2**21, 2**23)
"""Bytes of the whole tensor, 1 KiB to 8 MiB."""
LARGEST = 2**28
OPERATIONS = tuple(COLLECTIVES)
__all__ = [
    "OPERATIONS", "SECTIONS", "SIZES", "TOPIC", "Result", "blocks_after", "command", "run", "take",
]  # fmt: skip


def command(ranks: int = 4) -> str:
    """The plain torchrun command of this lab."""
    return f"torchrun --nproc-per-node {ranks} -m labs.{TOPIC}"


def run(
    ranks: int = 4,
    *,
    only: Iterable[str] | str | None = None,
    worlds: Iterable[int] | None = None,
    sizes: Iterable[int] = SIZES,
    mode: str | None = None,
    status: bool = True,
) -> Result:
    """The lab on `ranks` real ranks, and on the smaller worlds of 2 and 4.

    only: some of SECTIONS; worlds: others, () for none; sizes: bytes of the tensors that are
    timed; mode: "warm" or "cold".

    Raises ValueError, before anything is launched, for what cannot be.
    """
    sections, asked = chosen(TOPIC, SECTIONS, only), _sizes(sizes)
    smaller = _worlds(ranks, worlds)
    result = Result(TOPIC, dict(ranks=ranks, sizes=list(asked), sections=list(sections)))
    begun = time.monotonic()
    for world in (*smaller, ranks):  # `ranks` last: its run is the one that the result keeps
        take(result, _launch(world, sections, asked, mode, status, ranks), sections, asked)
    result.seconds = time.monotonic() - begun
    return result


def _launch(
    world: int, sections: tuple[str, ...], sizes: tuple[int, ...], mode: str | None, status: bool,
    largest: int,
) -> Run:  # fmt: skip
    return ranks.launch(
        on_rank, world, args=(sections, sizes), mode=mode, status=status, largest=largest
    )


def take(result: Result, run: Run, sections: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    """Add the checks and the times of one run to a result."""
    result.run = run
    result.checks += accounts.checks(run, sections, sizes)
    if TIMES not in sections:
        return
    if run.world_size == 1:
        result.notes.append("one rank sends nothing, so nothing was timed on it")
        return
    pings, found = accounts.timed(run)
    result.values.setdefault("send", []).append(dict(ranks=run.world_size, points=pings))
    result.values.setdefault("times", []).extend(found)
    result.notes.append(f"ping-pong between 2 of {run.world_size} ranks: {found[0].link}")
    result.notes += map(str, found)
    if run.backend != "gloo":
        result.notes.append("steps as in gloo's algorithms: NCCL chooses its own, by size")


def blocks_after(result: Result, op: str, rank: int) -> list[tuple[int, int]]:
    """(rank, block) of each block that `rank` holds after `op`: where it came from, from 0.

    Read off the tensor that came back. A sum names the first of its ranks.
    """
    held = result.run.values[rank]["collectives"][op]["after"]
    return origins(read(held))


def _sizes(sizes: Iterable[int]) -> tuple[int, ...]:
    if not isinstance(sizes, (tuple, list)) or not sizes:
        raise ValueError(f"sizes must be numbers of bytes, as (1024, 1048576), got {sizes!r}")
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int):
            raise ValueError(f"a size must be a whole number of bytes, got {size!r}")
        if not 4 <= size <= LARGEST:
            raise ValueError(
                f"a size of {size:,} bytes was asked for; from 4 (one number) to {LARGEST:,} work"
            )
    if len(set(sizes)) < 2:
        raise ValueError(
            f"{len(set(sizes))} size was asked for; α and β, two unknowns, need 2 or more"
        )
    return tuple(sorted(set(sizes)))


def _worlds(n: int, asked: Iterable[int] | None) -> list[int]:
    """The worlds besides `n`: as asked, or those of 2 and 4 ranks that are smaller."""
    ranks.place(n)
    if asked is None:
        return [world for world in (2, 4) if world < n]
    if not isinstance(asked, (tuple, list, set)):
        raise ValueError(f"worlds must be numbers of ranks, as (1, 2), got {asked!r}")
    for world in asked:
        ranks.place(world)
    return [world for world in asked if world != n]
