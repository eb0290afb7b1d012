"""A ring seen from outside: the order of events, and what a rank's memory grows by.

Nothing that a rank tells of itself counts here, but for the numbers that it returns.

The order: three ranks. Rank 1 is let in when the others are in their first `attend`: they get there
only if they have posted the next block and not waited for it. They are let out of it when rank 1 is
in its second one, for which it needs the block of rank 0: it gets there only if that was posted
before `attend`, not after. No time is measured: who overlaps comes through, who waits stands.

The memory: blocks of megabytes, of which a ring holds two or three, a gather all five. A ring sends
as many bytes as an all-gather of K and V, so the switch's counters cannot tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from labs import ranks
from labs.context_parallel import blocks
from labs.context_parallel.places import at_the_end, plain
from labs.equality import EPS
from labs.exercise import FAILED, PASSED, Verdict
from labs.ranks.ship import Source
from labs.ring_attention.judging import ring, trial
from labs.ring_attention.judging.trial import Job, Own
from labs.ring_attention.judging.trial_record import stand_in, stand_in_backward
from labs.staying import must_return

_LATE = 1
SECTION = "outside"


def in_order(
    function: Callable, job: Job, own: tuple, counted: ranks.Handed, let_in: ranks.Handed,
    let_out: ranks.Handed,
) -> list[torch.Tensor]:  # fmt: skip
    """On a rank: one call of the answer, with an `attend` that waits for the judge's word."""
    inputs = list(trial.own_inputs(job, Own(*own)).values())
    late, calls = dist.get_rank() == _LATE, 0

    def wait() -> None:
        nonlocal calls
        calls += 1
        if not late and calls == 1:
            let_in.get()
        if calls == 1 + late:
            let_out.get()

    def attend(q, k, v, q_places, k_places):  # noqa: ANN001, ANN202
        wait()
        return blocks.attend(q, k, v, q_places, k_places)

    def attend_backward(d_out, q, k, v, out, lse, q_places, k_places):  # noqa: ANN001, ANN202
        wait()
        return blocks.attend_backward(d_out, q, k, v, out, lse, q_places, k_places)

    counted.get()
    if late:
        let_in.get()
    return _called(function, inputs, attend if len(inputs) == 5 else attend_backward)


def with_large_blocks(
    function: Callable, job: Job, own: tuple, counted: ranks.Handed
) -> list[torch.Tensor]:
    """On a rank: one call of the answer; memory counts from when its inputs are there."""
    inputs = list(trial.own_inputs(job, Own(*own)).values())
    inner = stand_in if len(inputs) == 5 else stand_in_backward
    counted.get()
    return _called(function, inputs, inner)


def _called(function: Callable, inputs: list, attend: Callable) -> list[torch.Tensor]:
    with ranks.section(SECTION), must_return():
        return [x.detach() for x in function(*inputs, attend)]


def judge_order(name: str, function: Callable | Source, seed: int) -> list[Verdict]:
    """One verdict: whether the next block is on its way while one is worked on."""
    job = _job("order", 3, 4, seed=seed)
    return _judged(ring.OVERLAP, in_order, 3, name, function, job)


def judge_large(name: str, function: Callable | Source, seed: int) -> list[Verdict]:
    """One verdict: whether the values are right. The memory is held to the case's bound besides."""
    job = _job("large blocks", 8, 4, heads=1, kv_heads=1, batch=1, width=2**16, plain=True,
               seed=seed)  # fmt: skip
    return _judged(ring.MEMORY, with_large_blocks, 1, name, function, job)


def _job(label: str, c: int, tokens: int, **more: object) -> Job:
    """A ring of all c ranks; every query sees every key."""
    keys = plain(c, tokens * c)
    return Job(label, (tuple(range(c)),), at_the_end(keys, tokens * c), keys, **more)


def _judged(
    judged: str, on_rank: Callable, words: int, name: str, function: Callable | Source, job: Job
) -> list[Verdict]:
    """Launch it, and compare what was returned. words: how often the ranks wait for the judge."""
    references, given = ring.referred([job], name == "ring_backward")
    own = [trial.own_of(job, rank, given and given[0]).plain for rank in range(job.ranks)]
    later = [ranks.Later([None] * job.ranks, "run") for _ in range(words)]
    args = (function, trial.told_job(job, 0), ranks.PerRank(own), *later)
    try:
        run = ranks.launch(on_rank, job.ranks, args=args, limit=trial.LIMIT, status=False)
    except ranks.RunFailed:
        return [Verdict(judged, FAILED)]
    names = trial.BACKWARD if name == "ring_backward" else trial.FORWARD
    right = all(
        _equal(got, references[0][0].expected(rank, what))
        for rank, made in enumerate(run.values)
        for what, got in zip(names, made, strict=True)
    )
    return [Verdict(judged, PASSED if right else FAILED)]


def _equal(got: torch.Tensor, want: torch.Tensor) -> bool:
    if got.shape != want.shape:
        return False
    apart = (got.double() - want).abs().max().item()
    return apart <= EPS[torch.float64] * max(1.0, want.abs().max().item())
