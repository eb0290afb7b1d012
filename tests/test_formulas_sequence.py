"""The formulas of sequence parallelism, against numbers and totals of the paper."""

from __future__ import annotations

import pytest

from labs import formulas
from labs.formulas import sequence

# Korthikanti et al. 2022, table 3: the models they measured. (a, h, s, b, t)
GPT_22B = (64, 6144, 2048, 4, 8)
GPT_175B = (96, 12288, 2048, 1, 8)


def of_table(a: int, h: int, s: int, b: int, t: int, parallel: str, recompute: str) -> float:
    """Table 2, written down as it stands there."""
    sbh, core = s * b * h, 5 * a * s / h
    core = 0 if recompute == "selective" else core
    if recompute == "full":
        return 2 * sbh / (t if parallel == "tp+sp" else 1)
    if parallel == "none":
        return sbh * (34 + core)
    if parallel == "tp":
        return sbh * (10 + 24 / t + core / t)
    return sbh / t * (34 + core)


@pytest.mark.parametrize("model", [GPT_22B, GPT_175B])
@pytest.mark.parametrize("parallel", sequence.PARALLEL)
@pytest.mark.parametrize("recompute", sequence.RECOMPUTE)
def test_totals_are_those_of_the_table(model: tuple, parallel: str, recompute: str) -> None:
    a, h, s, b, t = model
    got = formulas.activation_bytes(b, s, h, a, t, parallel=parallel, recompute=recompute)
    assert got == pytest.approx(of_table(*model, parallel, recompute), rel=1e-12)


def test_the_papers_own_share() -> None:
    """Section 5: 5as/h is 80 for GPT-3, against 34: selective recompute saves 70 %."""
    a, h, s, b, t = GPT_175B
    whole = formulas.activation_bytes(b, s, h, a, t, parallel="tp+sp")
    without = formulas.activation_bytes(b, s, h, a, t, parallel="tp+sp", recompute="selective")
    assert whole / without == pytest.approx((34 + 80) / 34)
    assert round(1 - without / whole, 2) == 0.70


def test_whole_inputs_kept_cost_4sbh() -> None:
    a, h, s, b, t = GPT_22B
    sharded = formulas.activation_bytes(b, s, h, a, t, parallel="tp+sp")
    whole = formulas.activation_bytes(b, s, h, a, t, parallel="tp+sp", kept_sharded=False)
    assert whole - sharded == pytest.approx(4 * s * b * h * (1 - 1 / t))


def test_summands_of_one_device() -> None:
    found = formulas.activation_summands(1, 1, 1, 1)
    assert sum(found.values()) == 34 + 5
    assert sum(sequence.REPLICATED.values()) == 10 and sum(sequence.SHARED.values()) == 24


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_two_collectives_send_what_one_all_reduce_does(ranks: int) -> None:
    payload = formulas.tp_all_reduce_payload(3, 16, 8, 2)
    pair = formulas.sp_pair_bytes(3, 16, 8, 2, ranks)
    assert pair == formulas.ring_all_reduce_bytes(payload, ranks)
    assert formulas.sp_layer_bytes(3, 16, 8, 2, ranks) == formulas.tp_layer_bytes(
        3, 16, 8, 2, ranks
    )
    more = formulas.sp_layer_bytes(3, 16, 8, 2, ranks, kept_sharded=True)
    assert more - 4 * pair == 2 * formulas.ring_all_gather_bytes(payload, ranks)


def test_gloos_own_and_the_rings_at_four_ranks() -> None:
    assert formulas.gloo_reduce_scatter_bytes(1000, 4) == 1500
    assert formulas.ring_reduce_scatter_bytes(1000, 4) == 750


def test_calls_of_a_layer() -> None:
    assert formulas.sp_collectives() == {"all_gather": 4, "reduce_scatter": 4}
    assert formulas.sp_collectives(3, kept_sharded=True) == {
        "all_gather": 18, "reduce_scatter": 12,
    }  # fmt: skip


def test_time_of_recompute() -> None:
    assert formulas.recompute_time(2048, 12288, "none") == 1
    assert formulas.recompute_time(2048, 12288, "full") == pytest.approx(4 / 3)
    selective = formulas.recompute_time(2048, 12288, "selective")
    assert selective == pytest.approx(1 + 2048 / (6 * 12288 + 2048) / 3)
    assert 1.008 < selective < 1.01


@pytest.mark.parametrize("words", [dict(parallel="sp"), dict(recompute="some")])
def test_unknown_words_are_refused_with_those_there_are(words: dict) -> None:
    with pytest.raises(ValueError, match="none, (tp|selective)"):
        formulas.activation_bytes(1, 8, 8, 1, 2, **words)
