"""A reported case of the ring: a causal sequence in plain runs, whose last rank sets the step."""

from __future__ import annotations

import inspect

import pytest
import torch

from labs import formulas, ranks
from labs.answers import reference
from labs.context_parallel.clock.simulate import Times, simulate
from labs.context_parallel.clock.timed import agreements
from labs.context_parallel.clock.timed_jobs import PLAIN, ZIGZAG, ZIGZAG_SECTION, jobs
from labs.context_parallel.clock.timed_on_rank import on_rank
from labs.context_parallel.places import at_the_end, pairs, plain
from solutions.ring_attention import zigzag_positions

C, LENGTH = 4, 96
ZIGZAG_PLACES = torch.stack([zigzag_positions(rank, C, LENGTH) for rank in range(C)])


def work(queries: torch.Tensor, keys: torch.Tensor) -> list[list[int]]:
    """[rank][step]: visible pairs."""
    return [[pairs(queries[r], keys[(r - i) % C]) for i in range(C)] for r in range(C)]


@pytest.mark.ranks
def test_plain_runs_are_uneven_and_zigzag_is_even_on_ranks():
    """Counted by the places that reach a rank's attention, forward and backward."""
    todo = [one for one in jobs(C, (ZIGZAG_SECTION,), seconds=0.004, tries=1) if one.ranks == C]
    parts = {n: reference(f"ring_attention.{n}") for n in ("ring_forward", "ring_backward")}
    found = agreements(todo, ranks.launch(on_rank, C, args=(parts, todo), status=False))
    for one in found:
        blocks = [len(one.best.blocks(rank)) for rank in range(C)]
        assert blocks == ([1, 2, 3, 4] if one.job.layout == PLAIN else [4] * C)
        for rank in range(C):
            there, back = one.best.blocks(rank), one.best.blocks(rank, "backward")
            assert [b["pairs"] for b in there] == [b["pairs"] for b in back]
        if one.job.layout == ZIGZAG:
            assert len(set(one.by_rank("pairs"))) == len(set(one.by_rank("worked"))) == 1
        else:
            assert one.by_rank("pairs") == sorted(set(one.by_rank("pairs")))


def test_zigzag_pairs_chunks_from_both_ends():
    chunks = [sorted({place // (LENGTH // 8) for place in row.tolist()}) for row in ZIGZAG_PLACES]
    assert chunks == [[0, 7], [1, 6], [2, 5], [3, 4]]


def test_it_is_faster_because_the_slowest_rank_sets_the_step():
    """As much work in all; the step takes as long as its slowest rank."""
    uneven = work(plain(C, LENGTH), plain(C, LENGTH))
    even = work(ZIGZAG_PLACES, ZIGZAG_PLACES)
    totals = [sum(map(sum, table)) for table in (uneven, even)]
    assert totals[0] == totals[1] == LENGTH * (LENGTH + 1) // 2
    steps = [simulate(Times(table)).makespan for table in (uneven, even)]
    assert steps == [max(map(sum, uneven)), totals[1] / C]
    assert steps[0] / steps[1] == pytest.approx(formulas.zigzag_speedup(C), rel=0.02)
    assert "The slowest rank sets the step" in inspect.getdoc(formulas.zigzag_speedup)


def test_full_attention_gains_nothing():
    for keys in (plain(C, LENGTH), ZIGZAG_PLACES):
        table = work(at_the_end(keys, LENGTH), keys)
        assert simulate(Times(table)).makespan == LENGTH * LENGTH // C
