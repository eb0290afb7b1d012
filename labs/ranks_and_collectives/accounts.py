"""What a run did beside definition and formula: blocks, bytes, steps. No time is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from labs import formulas
from labs.ranks import Run
from labs.ranks_and_collectives import cost, simulator
from labs.ranks_and_collectives.algorithms import blocks_sent, messages
from labs.ranks_and_collectives.collectives import COLLECTIVES, read
from labs.ranks_and_collectives.on_rank import (
    BYTES,
    COUNTED,
    ROUNDS,
    TIMES,
    numbers_a_block,
    repeats,
)
from labs.result import Check, equal, near

_HOCKNEY = "Hockney 1994, Chan et al. 2007"
_HEADERS = 1200
"""Bytes of gloo's own messages for each message of the algorithm, of two or more segments."""


def checks(run: Run, sections: Iterable[str], sizes: tuple[int, ...]) -> list[Check]:
    """All checks of one run."""
    found: list[Check] = []
    if "collectives" in sections:
        found += [_blocks(op, run) for op in COLLECTIVES]
    if BYTES in sections:
        found += [check for op in COLLECTIVES for check in _bytes(op, run)]
    if TIMES in sections and run.world_size > 1:
        found += [check for op in COLLECTIVES for check in _timed_calls(op, run, sizes)]
    if TIMES in sections:
        found += [check for op in COLLECTIVES for check in _steps(op, run.world_size)]
    return found


def _blocks(op: str, run: Run) -> Check:
    """How many blocks are where the definition puts them, of all that are anywhere."""
    t, right, there = run.world_size, 0, 0
    wanted = [COLLECTIVES[op].after(rank, t) for rank in range(t)]
    for rank, value in enumerate(run.values):
        got = read(value["collectives"][op]["after"])
        there += max(len(got), len(wanted[rank]))
        right += sum(a == b for a, b in zip(got, wanted[rank], strict=False))
    return equal(f"{op}, t={t}: blocks where they belong", right, there, "blocks", "definition")


def _by_rank(numbers: list[float]) -> int | str:
    """The number that all ranks have in common, or each rank's."""
    whole = [int(n) for n in numbers]
    return whole[0] if len(set(whole)) == 1 else "by rank " + ", ".join(f"{n:,}" for n in whole)


def _sent(op: str, run: Run, whole: int) -> list[int]:
    """Bytes that each rank sends by the list of messages."""
    t = run.world_size
    blocks = blocks_sent(op, t, run.backend)
    return [count * 4 * numbers_a_block(whole, t) for count in blocks]


def _of_ranks(run: Run, count: Callable[[int], float]) -> int | str:
    return _by_rank([count(rank) for rank in range(run.world_size)])


def _bytes(op: str, run: Run) -> list[Check]:
    """Bytes of one call: the ledger's, and those that left the sockets."""
    t = run.world_size
    wanted = _sent(op, run, COUNTED)
    got = _of_ranks(run, lambda r: run.ledger.wire_bytes(section=BYTES, op=op, rank=r))
    name = f"{op}, t={t}"
    found = [equal(f"{name}: bytes sent", got, _by_rank(wanted), "a rank", _source(op, run))]
    left = [value[BYTES][op] for value in run.values]
    if run.backend == "gloo" and t > 1 and None not in left:
        count = formulas.collective_messages(op, COUNTED, t).count
        slack = round(0.01 * sum(wanted) + _HEADERS * count)
        found.append(
            near(f"{name}: left the sockets", sum(left), sum(wanted), slack, "bytes of all ranks",
                 _source(op, run))
        )  # fmt: skip
    return found


def _source(op: str, run: Run) -> str:
    if run.backend != "gloo":
        return "ring or direct"
    how = {
        "broadcast": "binomial tree", "reduce": "ring, then gather", "all_reduce": "ring, twice",
        "all_gather": "ring", "reduce_scatter": "gloo: an all-reduce",
    }  # fmt: skip
    return how.get(op, "direct")


def _timed_calls(op: str, run: Run, sizes: tuple[int, ...]) -> list[Check]:
    """What was timed is what was meant: calls and bytes of all tries."""
    t = run.world_size
    tries = {size: ROUNDS * (repeats(size) + 1) for size in sizes}
    wanted = [sum(n * _sent(op, run, size)[r] for size, n in tries.items()) for r in range(t)]
    where = dict(section=TIMES, op=op)
    calls = _of_ranks(run, lambda r: run.ledger.count(rank=r, **where))
    got = _of_ranks(run, lambda r: run.ledger.wire_bytes(rank=r, **where))
    return [
        equal(f"{op}, t={t}: timed calls", calls, sum(tries.values()), "a rank", "sizes and tries"),
        equal(f"{op}, t={t}: bytes of the timed calls", got, _by_rank(wanted), "a rank",
              _source(op, run)),
    ]  # fmt: skip


def _steps(op: str, t: int) -> list[Check]:
    """The simulator against the formula in its two limits: all is waiting, or all is work."""
    formula = formulas.collective_messages(op, t, t)  # sizes in blocks
    sent = messages(op, t)
    waiting = simulator.seconds(sent, alpha=1, beta=0, block_bytes=0)
    alone = simulator.seconds(sent, alpha=0, beta=1, block_bytes=1)
    shared = simulator.seconds(sent, alpha=0, beta=1, block_bytes=1, lanes=1)
    return [
        equal(f"{op}, t={t}: simulated steps", waiting, formula.steps, "α", _HOCKNEY),
        equal(f"{op}, t={t}: simulated work, a link a rank", alone, formula.steps * formula.size,
              "blocks", _HOCKNEY),
        equal(f"{op}, t={t}: simulated work, one lane", shared, formula.count * formula.size,
              "blocks", "all messages"),
    ]  # fmt: skip


def timed(run: Run) -> tuple[list[cost.Point], list[cost.Timed]]:
    """The ping-pong's points, and every collective of a run with its times."""
    t = run.world_size
    told = [value[TIMES] for value in run.values]

    def points(op: str, whole: Callable[[int], int], of: list[dict]) -> tuple[cost.Point, ...]:
        spans = zip(*(one[op] for one in of), strict=True)
        return tuple(cost.point(whole(i), by_rank) for i, by_rank in enumerate(spans))

    sizes = run.values[0]["sizes"]
    pings = points("send", lambda i: 4 * -(-sizes[i] // 4), told[:2])
    link, lanes = cost.ping_pong(pings), cost.lanes()
    found = [
        cost.Timed(op, t, points(op, lambda i: 4 * t * numbers_a_block(sizes[i], t), told), link,
                   lanes)
        for op in COLLECTIVES
    ]  # fmt: skip
    return list(pings), found
