"""Wrong formulas, each of which a named check must notice: what a planner gets wrong most often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from labs import formulas
from labs.planner import legal, units
from labs.planner.cluster import GPUS, Cluster
from labs.planner.cost import kernels, layer, memory, time
from labs.planner.cost.constants import Constants
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import MEGATRON_2021, TODAY, Software

GPT = Model(8, 256, 8, 5000, 64, tied=False)
GQA = Model(1, 256, 8, 100, 64, 2, bias=False, positions=False)
PLAIN = Software(table="bf16")
CLUSTER = Cluster(16, 8, GPUS["A100-80GB"])
IDEAL = Constants(1, 1, 1, 1, 1, 1, 0)


def clear() -> None:
    """Nothing kept from before a formula was replaced."""
    for kept in (memory.layer_bytes, memory.rank_parameters, memory.stage_counts, memory._state):
        kept.cache_clear()
    time.forget()


def last_stage_holds_one() -> None:
    assert memory.in_flight(Layout(pp=4, batch=8), 3) == 1


def gradients_are_shared_at_zero_2() -> None:
    found = memory.stage_memory(GPT, Layout(4, zero=2, batch=4), 0, PLAIN)
    assert found.gradients == 2 * found.parameters / 4


def replicated_parts_are_not_cut() -> None:
    one, two = (memory.rank_parameters(GPT, 4, 1, tp, False) for tp in (1, 2))
    assert two - 2 * 6 * 256 == (one - 2 * 6 * 256) / 2


def kv_heads_are_copied() -> None:
    block = 2 * 256 + 256 * (256 // 8 + 2 * 32) + 32 * 256 + 2 * 256 * 1024 // 8
    assert memory.rank_parameters(GQA, 1, 0, 8, False) == block + 13 * 256 + 256


def logits_are_on_the_last_stage() -> None:
    stages = memory.all_stages(GPT, Layout(pp=4, batch=8), PLAIN)
    assert [one.ends > 64 * 5000 for one in stages] == [False, False, False, True]


def fused_attention_keeps_no_scores() -> None:
    kept = memory.layer_bytes(GPT.at_length(4096), 1, 1, 1, False, "none", True)
    assert kept < 40 * 4096 * 256


def gib_is_not_gb() -> None:
    assert units.both(2**30) == "1.1 GB (1.0 GiB)"


def a_ring_leaves_out_its_own_share() -> None:
    machine = kernels.Machine(CLUSTER, IDEAL)
    assert machine.ring(8e9, 8, 8) == pytest.approx(7e9 / 300e9)


def the_bubble_is_there() -> None:
    found = time.step_time(GPT, CLUSTER, Layout(pp=4, batch=8), TODAY, IDEAL)
    assert found.bubble > 0.1 * found.total


def interleaving_divides_the_bubble() -> None:
    one, two = (
        time.step_time(GPT, CLUSTER, Layout(pp=4, v=v, batch=8), TODAY, IDEAL).bubble
        for v in (1, 2)
    )
    assert two == pytest.approx(one / 2, rel=0.05)


def causal_attention_is_half() -> None:
    fused = replace(TODAY, flash=True)
    times = layer.layer_times(GPT, kernels.Machine(CLUSTER, IDEAL), fused, 1, 1, 1, False)
    assert times.forward.attention == pytest.approx(2 * 64**2 * 256 / CLUSTER.gpu.flash)


def four_all_reduces_a_layer() -> None:
    times = layer.layer_times(GPT, kernels.Machine(CLUSTER, IDEAL), MEGATRON_2021, 1, 8, 1, False)
    sent = 4 * formulas.ring_all_reduce_bytes(64 * 256 * 2, 8)
    assert (times.forward.messages + times.backward.messages) * 300e9 == pytest.approx(sent)


def a_batch_is_never_cut() -> None:
    assert legal.refusals(GPT, Cluster(4), Layout(4, batch=10))


def kv_heads_are_asked() -> None:
    """12 heads on 2 ranks would do; 3 KV heads are neither shared nor copied."""
    odd = Model(1, 264, 12, 100, 64, 3, 96)
    found = legal.refusals(odd, Cluster(2), Layout(tp=2))
    assert [one.reason for one in found] == ["kv heads and tp"]


def _block(d: int, heads: int, kv: int, d_ff: int, tp: int, gated=False, bias=True) -> float:
    return formulas.block_parameters(d, heads, kv, d_ff, gated, bias) / tp


MUTANTS: dict[str, tuple[Callable[[], None], object, str, object]] = {
    "every stage stores p": (
        last_stage_holds_one, memory, "in_flight", lambda at, stage: at.pp),
    "ZeRO-2 is ZeRO-1": (
        gradients_are_shared_at_zero_2, formulas, "state_on_rank",
        lambda p, n, zero, each, real=formulas.state_on_rank: real(p, n, min(zero, 1), each)),
    "norms are cut by tp": (
        replicated_parts_are_not_cut, memory, "rank_parameters",
        lambda model, pp, stage, tp, ends: _block(*model.decoder.block, tp) * 2),
    "KV heads are never copied": (
        kv_heads_are_copied, memory, "rank_parameters",
        lambda model, pp, stage, tp, ends: model.parameters / tp),
    "logits on every stage": (
        logits_are_on_the_last_stage, memory, "stage_part",
        lambda model, at, stage, software: (1.0, 4.0 * 64 * 5000)),
    "scores kept under fused attention": (
        fused_attention_keeps_no_scores, memory, "layer_bytes",
        lambda model, *words: formulas.activation_bytes(1, model.length, model.d, model.heads)),
    "GiB of a thousand": (gib_is_not_gb, units, "GIB", 10**9),
    "a ring of t shares": (
        a_ring_leaves_out_its_own_share, formulas, "ring_all_gather_bytes", lambda s, t: s),
    "no bubble": (
        the_bubble_is_there, formulas, "uneven_step_time", lambda slow, both, m, v: m * slow),
    "v leaves the bubble": (
        interleaving_divides_the_bubble, formulas, "uneven_step_time",
        lambda slow, both, m, v: m * slow + both - slow),
    "the masked half is worked on": (
        causal_attention_is_half, formulas, "attention_core_flops",
        lambda b, t, d, causal: 4 * b * t**2 * d),
    "an all-reduce is one round": (
        four_all_reduces_a_layer, layer, "_messages",
        lambda model, machine, rows, tp, sp: (
            2 * machine.ring(rows * model.d * 2, tp, 8), 0.0)),
    "the rest of a batch is dropped": (
        a_batch_is_never_cut, legal, "RULES",
        {k: rule for k, rule in legal.RULES.items() if k != "batch % (dp·mbs)"}),
    "only query heads are asked": (
        kv_heads_are_asked, legal, "RULES",
        {k: rule for k, rule in legal.RULES.items() if k != "kv heads and tp"}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_kept():
    """Neither before nor after: a replaced formula's results stay nowhere."""
    clear()
    yield
    clear()


@pytest.mark.parametrize("name", MUTANTS)
def test_the_check_holds_and_notices_the_mutant(name, monkeypatch):
    check, where, what, wrong = MUTANTS[name]
    check()
    real = getattr(where, what)
    if hasattr(real, "cache_clear"):  # what clears the caches asks for it
        wrong.cache_clear = real.cache_clear
    monkeypatch.setattr(where, what, wrong)
    clear()
    with pytest.raises(AssertionError):
        check()
