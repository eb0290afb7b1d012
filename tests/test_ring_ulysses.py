"""Attention by all-to-all: values on every rank, bytes, what it refuses, and faults in it."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from labs import formulas, ranks
from labs.context_parallel import places
from labs.context_parallel.jobs import CAUSAL, FULL, PLAIN, ULYSSES, ZIGZAG, Job
from labs.context_parallel.on_rank import on_rank
from labs.context_parallel.ulysses import _all_query_places, check_heads
from labs.ring_attention.parity import Wholes, hold
from tests import ring_ways_on_ranks as on_ranks

pytestmark = pytest.mark.ranks

WORLD = 4
KINDS = ((CAUSAL, PLAIN), (CAUSAL, ZIGZAG), (FULL, PLAIN))
BLOCK = {torch.float64: "tiled", torch.float32: "flash", torch.bfloat16: "matmul"}


def job(c: int, mask: str, layout: str, kv_heads: int, dtype: torch.dtype) -> Job:
    """On the last c ranks of the world."""
    return Job(
        f"c={c} {mask} {layout} 24/{kv_heads} {dtype}", tuple(range(WORLD - c, WORLD)), 48,
        batch=2, heads=24, kv_heads=kv_heads, head_dim=4, dtype=dtype, mask=mask, layout=layout,
        block=BLOCK[dtype], way=ULYSSES,
    )  # fmt: skip


JOBS = [
    job(c, mask, layout, kv_heads, dtype)
    for c in (1, 2, 3, 4)
    for mask, layout in KINDS
    for kv_heads, dtype in ((24, torch.float64), (12, torch.float64), (12, torch.float32))
] + [job(c, CAUSAL, ZIGZAG, 12, torch.bfloat16) for c in (2, 4)]


@pytest.fixture(scope="module")
def run() -> ranks.Run:
    return ranks.launch(on_rank, WORLD, args=(on_ranks.PARTS, JOBS), status=False)


def test_equal_to_one_device(run: ranks.Run) -> None:
    """Output and the gradients of q, k, v of every token, on subgroups too."""
    wholes = Wholes()
    held = [hold(one, at, run, on_ranks.PARTS, wholes) for at, one in enumerate(JOBS)]
    off = [f"{one.job.name}: {gap}" for one in held for gap in one.gaps if not gap.ok]
    assert off == []


def test_bytes_are_those_of_the_formula(run: ranks.Run) -> None:
    """Forward and backward the same: q, k, v there, out back; d_out there, dq, dk, dv back."""
    for one in JOBS:
        want = formulas.ulysses_bytes(
            one.batch, one.length, one.heads, one.kv_heads, one.head_dim, one.dtype.itemsize,
            one.ranks,
        )  # fmt: skip
        for rank in one.members:
            booked = run.ledger.where(section=one.name, rank=rank)
            assert {row.op for row in booked.rows} == {"all_to_all"}
            for phase in ("forward", "backward"):
                assert booked.count(phase=phase) == 2
                assert booked.ideal_bytes(phase=phase) == booked.wire_bytes(phase=phase) == want


@pytest.mark.parametrize("heads", [8, 24])
@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_the_ring_sends_less_where_the_formula_says(heads: int, kv_heads: int) -> None:
    for c in range(1, 13):
        length = 8 * c
        ring = formulas.ring_forward_bytes(1, length, kv_heads, 16, 4, c)
        dealt = 8 * 16 * 4 * (c - 1) / c * (2 * heads + 2 * kv_heads)
        assert formulas.ring_moves_less(heads, kv_heads, c) == (ring < dealt)
        if heads % c == 0 and kv_heads % c == 0:
            assert formulas.ulysses_bytes(1, length, heads, kv_heads, 16, 4, c) == dealt


@pytest.mark.parametrize("all_of_them", [False, True])
def test_queries_that_see_nothing(all_of_them: bool) -> None:
    """Zeros out, and gradients equal to the ring's: told of all queries' places, it sorts them."""
    run = ranks.launch(on_ranks.unseeing_queries, 2, args=(all_of_them,), status=False)
    for told in run.values:
        assert told.pop("there") == 0
        assert all(difference < 1e-14 for difference in told.values())  # False for not a number


FAULTS = {
    "heads in another order": (
        ("part.transpose(0, 1).flatten(1, 2)", "part.permute(1, 2, 0, 3, 4).flatten(1, 2)"),
    ),
    "tokens left as they came": (
        ("q, k, v = q[:, :, q_order], k[:, :, k_order], v[:, :, k_order]\n", "pass\n"),
        ("_deal_tokens(out[:, :, q_order.argsort()],", "_deal_tokens(out,"),
        ("_deal_heads([d_out], ctx.group)[:, :, q_order]", "_deal_heads([d_out], ctx.group)"),
        ("g[:, :, order].to", "g.to"),
    ),
    "not put back": (("_deal_tokens(out[:, :, q_order.argsort()],", "_deal_tokens(out,"),),
    "no all-to-all of d_out": (
        (
            "_deal_heads([d_out], ctx.group)[",
            "d_out.unflatten(1, (k_places.shape[0] // d_out.shape[2], -1))"
            ".permute(1, 3, 0, 2, 4).flatten(0, 1).permute(1, 2, 0, 3)[",
        ),
    ),
    "everything to everyone": (
        (
            "dist.all_to_all_single(arrived, sent, group=group)\n    return arrived.flatten",
            "every = [torch.empty_like(sent) for _ in range(ranks)]\n"
            "    dist.all_gather(every, sent, group=group)\n"
            "    arrived = torch.stack([one[dist.get_rank(group)] for one in every])\n"
            "    return arrived.flatten",
        ),
    ),
}
"""everything to everyone: right values, too many bytes."""

GRADIENTS = {"dq", "dk", "dv"}
OFF = {
    "heads in another order": ({"out"} | GRADIENTS, {"out"} | GRADIENTS),
    "tokens left as they came": (set(), {"out"} | GRADIENTS),
    "not put back": (set(), {"out"}),
    "no all-to-all of d_out": (GRADIENTS, GRADIENTS),
    "everything to everyone": (set(), set()),
}
"""What each fault turns wrong: of tokens in consecutive runs, and in zigzag."""

WRONG_BYTES = {"no all-to-all of d_out": {"backward"}, "everything to everyone": {"forward",
               "backward"}}  # fmt: skip


@pytest.fixture(scope="module")
def faulty() -> ranks.Run:
    return ranks.launch(on_ranks.with_fault, WORLD, args=("ulysses", FAULTS, PAIR), status=False)


PAIR = [job(4, CAUSAL, layout, 12, torch.float64) for layout in (PLAIN, ZIGZAG)]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(faulty: ranks.Run, fault: str) -> None:
    of_fault = dataclasses.replace(faulty, values=[value[fault] for value in faulty.values])
    wholes = Wholes()
    off = tuple(
        {gap.name for gap in hold(one, at, of_fault, on_ranks.PARTS, wholes).gaps if not gap.ok}
        for at, one in enumerate(PAIR)
    )
    assert off == OFF[fault]
    one = PAIR[0]
    booked = faulty.ledger.where(section=f"{fault}: {one.name}", rank=0)
    want = formulas.ulysses_bytes(2, 48, 24, 12, 4, 8, 4)
    wrong = {p for p in ("forward", "backward") if booked.ideal_bytes(phase=p) != want}
    assert wrong == WRONG_BYTES.get(fault, set())


@pytest.mark.parametrize(
    ("heads", "kv_heads", "c", "words"),
    [
        (8, 2, 4, ["4 ranks", "8 query heads", "2 KV heads", "2 % 4 = 2", "1 or 2 ranks work"]),
        (8, 8, 3, ["8 % 3 = 2 and 8 % 3 = 2", "1 or 2 or 4 or 8 ranks work"]),
        (5, 1, 2, ["5 % 2 = 1 and 1 % 2 = 1", "1 rank works"]),
    ],
)
def test_heads_that_cannot_be_dealt_out(heads: int, kv_heads: int, c: int, words: list) -> None:
    with pytest.raises(ValueError, match="a ring takes any number of ranks") as refused:
        check_heads(heads, kv_heads, c)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize(("heads", "kv_heads", "c"), [(8, 8, 8), (8, 2, 2), (5, 1, 1), (12, 6, 3)])
def test_heads_that_can(heads: int, kv_heads: int, c: int) -> None:
    check_heads(heads, kv_heads, c)


def test_whose_queries_stand_where_is_told_from_ones_own() -> None:
    held = places.plain(3, 12)
    for rank in range(3):
        assert torch.equal(_all_query_places(held[rank], held, rank), held)
        behind = places.at_the_end(held[rank], 12)
        assert torch.equal(_all_query_places(behind, held, rank), torch.full((3, 4), 12))
    padded = held.clone()
    padded[2, 2:] = places.NEVER  # behind all keys that anybody sees
    assert torch.equal(_all_query_places(behind, padded, 0), torch.full((3, 4), 12))
    other = held - 1
    assert torch.equal(_all_query_places(other, held, 1), other)
    with pytest.raises(ValueError, match=r"Rank 1 .* all 3 ranks.* \(3, 4\)"):
        _all_query_places(other[1], held, 1)
