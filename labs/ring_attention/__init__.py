"""Ring attention: each rank holds a part of the sequence, and keys and values go round.

    rank 0  K0 V0 ──►  rank 1  K1 V1 ──►  rank 2  K2 V2 ──►  rank 3  K3 V3 ──►  rank 0

`run(ranks=4)` holds the ring, forward and backward, against one device, counts its bytes, its peak
memory and each rank's work, times it with and without overlap, and does the same for sequence
parallelism, its companion outside of attention.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from labs import ranks, unanswered
from labs.answers import Missing, references
from labs.context_parallel.clock import timed, timed_jobs, timed_on_rank
from labs.context_parallel.on_rank import on_rank
from labs.result import Result
from labs.ring_attention import accounts, longest, memory, model, refuse
from labs.ring_attention.accounts import BYTES, GRID, LONG, LONGEST, MEMORY
from labs.ring_attention.grid import LONG_LENGTHS
from labs.sections import chosen
from labs.sequence_parallel import lab as sequence

TOPIC = "ring_attention"
SECTIONS = (*accounts.SECTIONS, model.SECTION, *timed_jobs.SECTIONS, *sequence.SECTIONS)

PARTS = (
    "merge_partials", "causal_block_mask", "zigzag_positions", "ring_forward", "ring_backward",
    "sequence_scatter_gather",
)  # fmt: skip
__all__ = [
    "BYTES", "GRID", "LONG", "LONGEST", "MEMORY", "PARTS", "SECTIONS", "TOPIC", "Result", "command",
    "run",
]  # fmt: skip


def command(ranks: int = 4) -> str:
    """The plain torchrun command of this lab."""
    return f"torchrun --nproc-per-node {ranks} -m labs.{TOPIC}"


def run(
    ranks: int = 4,
    *,
    only: Iterable[str] | str | None = None,
    length: int | None = None,
    lengths: Iterable[int] | None = None,
    long: tuple[int, int] = LONG_LENGTHS,
    budget: int = longest.BUDGET,
    seconds: float = 0.030,
    tries: int = 3,
    mode: str | None = None,
    status: bool = True,
    **mine: Callable,
) -> Result:
    """The lab on `ranks` real ranks, with rings of 1 up to that many.

    only: some of SECTIONS; length: tokens of the sequences that are held against one device (None:
    768, or the next that the ranks can share); lengths: those whose memory is measured (None:
    2k to 16k); long: the two of "long sequences", one whose error is compared and one on all ranks;
    budget: bytes a rank that "longest" fills; seconds: of a rank's share of a causal forward pass
    on a simulated device; tries: runs of each timed ring, the best counts; mode: "warm" or "cold";
    mine: functions of your own, by the name of the exercise, in place of the course's.

    Raises ValueError, before anything is launched, for what cannot be.
    """
    sections = chosen(TOPIC, SECTIONS, only)
    refuse.world(ranks)
    if length is not None:
        refuse.length(length, ranks, refuse.ZIGZAG)
    asked = refuse.lengths(memory.fitting(ranks) if lengths is None else lengths, ranks)
    refuse.long(long)
    refuse.budget(budget)
    refuse.timed(seconds, tries)
    unknown = [name for name in mine if name not in PARTS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no part of {TOPIC}; its parts are {', '.join(PARTS)}")
    refuse.functions(mine)
    plan = accounts.plan(ranks, sections, length, asked, tuple(long), budget)
    refuse.fits(ranks, (*plan.full, *(job for _, job in plan.jobs)))
    result = Result(TOPIC, dict(ranks=ranks, length=length, lengths=asked))
    try:
        parts = references(dict.fromkeys(PARTS, TOPIC), mine)
    except Missing as missing:
        return unanswered.told(result, missing)
    begun = time.monotonic()
    if ranks == 1:
        out = [name for name in sections if name in (MEMORY, LONGEST, *timed_jobs.SECTIONS)]
        out += [name for name in sections if name in sequence.SECTIONS]
        result.notes += [f"{name} left out: it needs 2 ranks or more" for name in out]
    _launch_sequence(result, ranks, sections, mode, status, mine)
    if plan.full:
        accounts.take_full(
            result, plan, _launch(memory.full_on_rank, 1, (plan.full,), mode, status)
        )
    if model.SECTION in sections:
        steps = model.steps(ranks)
        args = (model.on_rank, ranks, (parts, steps), mode, status)
        result.run = _launch(*args)
        result.checks += model.checks(steps, result.run)
    clocked = timed_jobs.jobs(ranks, sections, seconds, tries, zigzag=parts["zigzag_positions"])
    if clocked:
        args = (timed_on_rank.on_rank, ranks, (parts, clocked), mode, status)
        timed.take(result, clocked, _launch(*args))
    if plan.jobs:
        todo = [job for _, job in plan.jobs]
        accounts.take(result, plan, parts, _launch(on_rank, ranks, (parts, todo), mode, status))
    result.seconds = time.monotonic() - begun
    return result


def _launch(function: Callable, n: int, args: tuple, mode: str | None, status: bool) -> ranks.Run:
    return ranks.launch(function, n, args=args, limit=accounts.LIMIT, mode=mode, status=status)


def _launch_sequence(
    result: Result, n: int, sections: tuple[str, ...], mode: str | None, status: bool,
    mine: dict[str, Callable],
) -> None:  # fmt: skip
    """Sequence parallelism, which has a package and a run of its own."""
    wanted = [name for name in sections if name in sequence.SECTIONS]
    if not wanted or n == 1:
        return
    own = {name: fn for name, fn in mine.items() if name in sequence.PARTS}
    plan = sequence.plan(n, only=wanted)
    run = _launch(sequence.on_rank, n, (plan, sequence.parts(**own)), mode, status)
    result.run = run
    result.checks += sequence.checks(plan, run)
    if "activations" in wanted:
        result.values["activations"] = sequence.activation_points(plan, run)
