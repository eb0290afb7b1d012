"""torch's own ring on the same tokens: equal to one device and to ours, its switches put back."""

from __future__ import annotations

import dataclasses
import types

import pytest
import torch

from labs import formulas, ranks
from labs.context_parallel import places, torch_native
from labs.context_parallel.jobs import CAUSAL, FULL, PLAIN, RING, TORCH, ZIGZAG, Job
from labs.context_parallel.on_rank import on_rank
from labs.ring_attention.parity import TENSORS, Wholes, hold
from solutions.ring_attention import zigzag_positions
from tests import ring_ways_on_ranks as on_ranks

WORLD = 4
EPS = {torch.float64: 1e-14, torch.float32: 5e-6}
KINDS = ((CAUSAL, PLAIN), (CAUSAL, ZIGZAG), (FULL, PLAIN))


def job(way: str, c: int, mask: str, layout: str, dtype: torch.dtype, kv_heads: int = 2) -> Job:
    """On the last c ranks of the world."""
    return Job(
        f"{way} c={c} {mask} {layout} {dtype}", tuple(range(WORLD - c, WORLD)), 48, batch=2,
        heads=4, kv_heads=kv_heads, head_dim=8, dtype=dtype, mask=mask, layout=layout,
        block="flash", way=way,
    )  # fmt: skip


CASES = [(c, mask, layout, dtype) for c in (2, 3, 4) for mask, layout in KINDS for dtype in EPS]
JOBS = [job(way, *case) for way in (TORCH, RING) for case in CASES]


@pytest.fixture(scope="module")
def run() -> ranks.Run:
    return ranks.launch(on_rank, WORLD, args=(on_ranks.PARTS, JOBS), status=False)


@pytest.mark.ranks
def test_both_are_equal_to_one_device(run: ranks.Run) -> None:
    wholes = Wholes()
    held = [hold(one, at, run, on_ranks.PARTS, wholes) for at, one in enumerate(JOBS)]
    off = [f"{one.job.name}: {gap}" for one in held for gap in one.gaps if not gap.ok]
    assert off == []


@pytest.mark.ranks
def test_torchs_is_equal_to_ours(run: ranks.Run) -> None:
    for at, case in enumerate(CASES):
        for rank in JOBS[at].members:
            by_torch, ours = run.values[rank][at], run.values[rank][at + len(CASES)]
            for name in TENSORS:
                far = (by_torch[name] - ours[name]).abs().max().item()
                assert far <= EPS[case[-1]], f"{name}, {JOBS[at].name}: {far}"


@pytest.mark.ranks
def test_it_gathers_all_keys_at_once(run: ranks.Run) -> None:
    """As many bytes as a ring, in one call: each rank then holds all keys and values."""
    for one in JOBS[: len(CASES)]:
        booked = run.ledger.where(section=one.name, rank=3, phase="forward")
        assert {(row.op, row.count) for row in booked.rows} == {("all_gather", 1)}
        assert booked.ideal_bytes() == formulas.ring_forward_bytes(*one.place)


FAULTS = {
    "merged in fp32": (("dtype != torch.float64", "True"),),
    "zigzag taken for runs": (("            return True, True", "            return True, False"),),
    "another's log-sum-exp": (("out, logsumexp, 0.0", "out, logsumexp.flip(1), 0.0"),),
}
GRADIENTS = {"dq", "dk", "dv"}
OFF = {  # of tokens in consecutive runs, in zigzag
    "merged in fp32": ({"out"} | GRADIENTS, {"out"} | GRADIENTS),
    "zigzag taken for runs": (set(), {"out"} | GRADIENTS),
    "another's log-sum-exp": (GRADIENTS, GRADIENTS),
}
PAIR = [job(TORCH, 4, CAUSAL, layout, torch.float64) for layout in (PLAIN, ZIGZAG)]


@pytest.fixture(scope="module")
def faulty() -> ranks.Run:
    return ranks.launch(
        on_ranks.with_fault, WORLD, args=("torch_native", FAULTS, PAIR), status=False
    )


@pytest.mark.ranks
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_seen(faulty: ranks.Run, fault: str) -> None:
    of_fault = dataclasses.replace(faulty, values=[value[fault] for value in faulty.values])
    wholes = Wholes()
    off = tuple(
        {gap.name for gap in hold(one, at, of_fault, on_ranks.PARTS, wholes).gaps if not gap.ok}
        for at, one in enumerate(PAIR)
    )
    assert off == OFF[fault]


def test_the_layouts_it_knows() -> None:
    zigzag = torch.stack([zigzag_positions(rank, 3, 12) for rank in range(3)])
    plain = places.plain(3, 12)
    for rank in range(3):
        for layout in (plain, zigzag):
            behind = places.at_the_end(layout[rank], 12)
            assert torch_native._kind(behind, layout, rank) == (False, False)
        assert torch_native._kind(plain[rank], plain, rank) == (True, False)
        assert torch_native._kind(zigzag[rank], zigzag, rank) == (True, True)


def test_one_token_a_rank_is_causal_on_the_last_rank_too() -> None:
    """Its query stands at the largest key, not behind it."""
    held = places.plain(3, 3)
    assert [torch_native._kind(held[r], held, r) for r in range(3)] == [(True, False)] * 3


def test_on_one_rank_runs_and_zigzag_are_the_same() -> None:
    held = places.plain(1, 8)
    assert torch.equal(held[0], zigzag_positions(0, 1, 8))
    assert torch_native._kind(held[0], held, 0) == (True, False)


@pytest.mark.parametrize("queries", [places.plain(3, 12)[1] - 1, places.plain(3, 12)[0]])
def test_other_places_are_refused(queries: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="12 tokens held as 3 consecutive runs or as the zigzag"):
        torch_native._kind(queries, places.plain(3, 12), 1)


def test_another_layout_is_refused() -> None:
    dealt = torch.arange(12).view(4, 3).T.contiguous()  # 0 3 6 9, 1 4 7 10, …
    with pytest.raises(ValueError, match="are none of these"):
        torch_native._kind(dealt[1], dealt, 1)


def test_torchs_switches_are_put_back() -> None:
    options = types.SimpleNamespace(enable_load_balance="a", convert_to_f32="b")
    module = types.SimpleNamespace(_cp_options=options)
    with pytest.raises(KeyError), torch_native._options(module, True, torch.float64):
        assert (options.enable_load_balance, options.convert_to_f32) == (True, False)
        raise KeyError
    assert (options.enable_load_balance, options.convert_to_f32) == ("a", "b")


@pytest.mark.parametrize(
    ("home", "lacks"), [("torch.no_such_place", "the module"), ("torch", "_templated_ring")]
)
def test_a_torch_without_templates_is_said(
    monkeypatch: pytest.MonkeyPatch, home: str, lacks: str
) -> None:
    monkeypatch.setattr(torch_native, "_HOME", home)
    with pytest.raises(ImportError, match=f"no ring templates .*{home}: {lacks}"):
        torch_native.templates()
