"""Cases of others that ring attention must stand: see tests/cases.md."""

from __future__ import annotations

from functools import cache

import pytest
import torch

import solutions.ring_attention as answers
from labs import ranks
from labs.context_parallel.places import at_the_end, plain
from labs.exercise import FAILED, PASSED, Card, Verdict, judged
from labs.ring_attention.judging import ring as judge_ring
from labs.ring_attention.judging import trial, trial_jobs
from labs.ring_attention.judging.trial import Job, Seen
from tests import ring_cases_on_ranks
from tests.mutants.ring import MUTANTS, source

_RINGS = {c: (tuple(range(c)),) for c in (1, 2, 3, 4)}


def _job(name: str, rings: tuple, length: int, *, full: bool = False, **more: object) -> Job:
    c = len(rings[0])
    keys = plain(c, length)
    queries = at_the_end(keys, length) if full else keys
    return Job(name, rings, queries, keys, **more)


def _large(c: int) -> Job:
    """Blocks of 8 MiB, and one rank that is late with everything."""
    return _job(
        f"large {c}", _RINGS[c], 32 * c, full=True, heads=1, kv_heads=1, batch=1, width=16384,
        plain=True, slow=1, seed=40 + c,
    )  # fmt: skip


JOBS = [
    *(_job(f"D01 {c}", _RINGS[c], 16, dtype=torch.float32, seed=c) for c in (1, 2, 4)),
    Job("D03", _RINGS[3], *trial_jobs.hidden_places(), seed=10),
    _job("D07", _RINGS[4], 16, heads=8, kv_heads=2, seed=11),
    *(_job(f"D14 {c}", _RINGS[c], 4 * c, seed=20 + c) for c in (3, 1)),
    _job("D15", ((1, 3), (0, 2)), 8, seed=30),
    *(_large(c) for c in (2, 3, 4)),
]


@cache
def _ran(name: str) -> dict[str, tuple[Seen, list[Verdict]]]:
    """By job: what the course's answer did, and the verdicts on it."""
    backward = name == "ring_backward"
    jobs = [job for job in JOBS if not (backward and job.name in ("large 2", "large 3"))]
    references, given = judge_ring.referred(jobs, backward)
    seen = trial.run(getattr(answers, name), jobs, given)
    return {
        one.job.name: (one, judge_ring.judged(name, [one], [rings]))
        for one, rings in zip(seen, references, strict=True)
    }


def _card(exercise: str, name: str) -> Card:
    """The card of a wrong answer."""
    wrong = next(w for w in MUTANTS if (w.exercise, w.name) == (exercise, name))
    return judged(source(exercise, wrong.text))


def _holds(case: str) -> None:
    for name in ("ring_forward", "ring_backward"):
        for job, (_, verdicts) in _ran(name).items():
            if job.split()[0] == case:
                assert [v for v in verdicts if v.state != PASSED] == []


@pytest.mark.ranks
def test_causal_by_global_positions():
    """D01: 16 tokens on 1, 2 and 4 ranks, fp32; a lower triangle on every chunk is named."""
    _holds("D01")
    for name in ("local_mask", "own_places_for_all"):
        card = _card("ring_forward", name)
        assert not card.ok and "global positions" in repr(card), card


@pytest.mark.ranks
def test_rows_that_see_no_key():
    """D03: masked first, masked last, masked everywhere: zeros, finite gradients."""
    _holds("D03")
    queries, keys = trial_jobs.hidden_places()
    empty = [~(keys.flatten() <= row.unsqueeze(-1)).any(1) for row in queries]
    assert sum(int(rows.sum()) for rows in empty) == 3
    (forward, _), (backward, _) = (_ran(f"ring_{way}")["D03"] for way in ("forward", "backward"))
    for rows, out, grads in zip(empty, forward.told[0], backward.told[0], strict=True):
        assert not out["out"][:, :, rows].any() and not grads["dq"][:, :, rows].any()
        assert (out["lse"][:, :, rows] == -torch.inf).all()
        assert all(grads[name].isfinite().all() for name in ("dq", "dk", "dv"))


def test_merge_with_nothing_and_with_large_scores():
    """D04: merge(nothing, x) = x = merge(x, nothing); ±1e4; and the merge that starts at -inf."""
    draw = torch.Generator().manual_seed(4)
    out = torch.randn(2, 5, 4, generator=draw, dtype=torch.float64)
    lse = torch.randn(2, 5, generator=draw, dtype=torch.float64)
    nothing = torch.zeros_like(out), torch.full_like(lse, -torch.inf)
    for large in (0.0, 1e4, -1e4):
        one = (out, lse + large)
        for merged in (
            answers.merge_partials(*nothing, *one),
            answers.merge_partials(*one, *nothing),
        ):
            torch.testing.assert_close(merged, one, rtol=1e-14, atol=0)
        both = answers.merge_partials(*one, out + 1, lse + large)
        torch.testing.assert_close(both[0], out + 0.5, rtol=1e-13, atol=1e-13)
    assert not answers.merge_partials(*nothing, *nothing)[0].any()
    wrong = next(w for w in MUTANTS if w.name == "max_starts_at_minus_inf")
    scope = {"torch": torch}
    exec(source(wrong.exercise, wrong.text).cells[-1].text, scope)
    assert scope["merge_partials"](*nothing, *nothing)[0].isnan().all()


@pytest.mark.ranks
def test_fewer_kv_heads_than_ranks():
    """D07: 8 query heads, 2 KV heads, 4 ranks; a message has the size of KV heads."""
    _holds("D07")
    seen, _ = _ran("ring_forward")["D07"]
    for member in range(4):
        assert seen.messages(0, member) == [("send", 3, 3 * 2 * (2 * 2 * 4 * 4 * 8))]
    card = _card("ring_forward", "query_heads_sent")
    assert "KV heads" in " ".join(card.advice), card


@pytest.mark.ranks
def test_a_blocks_own_lse_in_backward_is_named():
    """D10: the check says which of dq, dk, dv is off, and why."""
    card = _card("ring_backward", "lse_of_the_block")
    failed = {v.name for v in card.verdicts if v.state == FAILED}
    assert failed >= {"dq", "dk", "dv"}
    assert "dq, dk and dv are off: with a block's own lse" in " ".join(card.advice), card
    card = _card("ring_backward", "out_of_the_block")
    assert "dq and dk are off: with a block's own out" in " ".join(card.advice), card


@pytest.mark.ranks
def test_no_warning_of_a_collective_without_a_gradient():
    """D11: not one warning; a collective in the graph does warn."""
    parts = {name: getattr(answers, name) for name in ("ring_forward", "ring_backward")}
    run = ranks.launch(ring_cases_on_ranks.ring, 3, args=(parts,), limit=30, status=False)
    assert run.values == [([], True)] * 3
    told = ranks.launch(
        ring_cases_on_ranks.collective_in_the_graph, 2, limit=30, status=False
    ).values
    assert all("autograd kernel was not registered" in " ".join(one) for one in told), told


@pytest.mark.ranks
def test_large_blocks_at_2_3_and_4_ranks():
    """D13: 8 MiB a block, no hang, and every token that arrives says whose it is."""
    assert all(_large(c).block_bytes == 2**23 for c in (2, 3, 4))
    _holds("large")
    for way, worlds in (("forward", (2, 3, 4)), ("backward", (4,))):
        for c in worlds:
            seen, _ = _ran(f"ring_{way}")[f"large {c}"]
            assert all(len(told["calls"]) == c and not told["faults"] for told in seen.told[0])


@pytest.mark.ranks
def test_odd_rings_and_a_ring_of_one():
    """D14: 3 ranks and 1, values and gradients."""
    _holds("D14")


@pytest.mark.ranks
def test_a_ring_on_ranks_1_and_3():
    """D15: two rings at once in a world of 4, as in a mesh of dp=2 and cp=2."""
    _holds("D15")
    seen, _ = _ran("ring_forward")["D15"]
    assert {row.axis for row in seen.ledger.where(rank=3).rows} == {"ranks 1,3"}
