"""The planner's bytes: by hand, against Korthikanti et al., and the cases of others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from labs import formulas
from labs.gpt import GPT, Shape
from labs.planner.cluster import Cluster
from labs.planner.cost.memory import (
    METRIC,
    all_stages,
    assumptions,
    difference,
    in_flight,
    layer_bytes,
    rank_parameters,
    recompute_told,
    stage_memory,
    worst_stage,
)
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import TABLES, Software
from labs.planner.units import GB, GIB, both, gb, gib

UNFUSED = Software(table="bf16, fp32 gradients", flash=False)
PLAIN = Software(table="bf16")
FIGURE_1 = [
    # model, layers, d, heads, pp, v, mbs, batch; GiB: nothing recomputed, selective with SP
    ("22B", 48, 6144, 64, 1, 1, 4, 4, 59.25, 9.5625),
    ("175B", 96, 12288, 96, 8, 3, 1, 64, 66.84375, 12.3515625),
    ("530B", 105, 20480, 128, 35, 3, 1, 280, 114.0234375, 23.076171875),
    ("1T", 128, 25600, 160, 64, 1, 1, 512, 131.25, 26.5625),
]


@pytest.mark.parametrize("row", FIGURE_1, ids=lambda row: row[0])
def test_activations_of_korthikanti_figure_1(row):
    """Layers' activations of stage 0 at tp = 8, as the paper's figure has them."""
    _, layers, d, heads, pp, v, mbs, batch, none, selective = row
    model = Model(layers, d, heads, 51200, 2048)
    for recompute, sp, wanted in (("none", False, none), ("selective", True, selective)):
        layout = Layout(1, pp, 1, 8, v, mbs, batch, 0, sp, recompute)
        found = stage_memory(model, layout, 0, UNFUSED)
        assert found.activations / GIB == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize(
    ("tp", "sp", "recompute", "wanted"),
    [
        (1, False, "none", 34 + 5 * 4 * 16 / 32),
        (2, False, "none", 10 + 24 / 2 + 5 * 4 * 16 / 32 / 2),
        (2, True, "none", (34 + 5 * 4 * 16 / 32) / 2),
        (2, True, "selective", 34 / 2),
        (2, False, "full", 2),
    ],
)
def test_equations_1_to_4(tp, sp, recompute, wanted):
    """sbh times: one device, tensor parallel, with SP, selective, full; s=16, a=4, h=32, b=3."""
    model = Model(1, 32, 4, 64, 16)
    assert layer_bytes(model, 1, tp, 3, sp, recompute, False) == 16 * 3 * 32 * wanted


def test_a_gated_layer_with_fewer_kv_heads_by_hand():
    """Bytes an element of sbh, d_ff = 3h, 1 KV head of 4, no dropout, fused attention: norms 4,
    inputs 4, Q 2 and K, V 1, out 2, gate and up 12, product 6; LSE 4 bytes a token and head."""
    model = Model(1, 32, 4, 64, 16, 1, 96, gated=True, bias=False, positions=False)
    wanted = 16 * 32 * (4 + 4 + 2 + 1 + 2 + 12 + 6) + 4 * 16 * 4
    assert layer_bytes(model, 1, 1, 1, False, "none", True) == wanted


def test_fp32_activations_have_4_bytes_and_masks_stay():
    model = Model(1, 32, 4, 64, 16)
    words = (model, 1, 1, 3, False, "none", False)
    elements = 16 * 3 * 32
    masks = 2 * elements + 4 * 16 * 16 * 3
    assert layer_bytes(*words, 4) == 2 * (layer_bytes(*words) - masks) + masks
    assert Software("fp32").element_bytes == 4 and PLAIN.element_bytes == 2


@pytest.mark.parametrize("sizes", [(4, 64, 4, 64, 4), (2, 192, 6, 32, 2), (3, 128, 4, 128, 1)])
def test_what_autograd_keeps_of_the_toy_gpt_to_the_byte(sizes):
    """All that it saves for the backward pass, in fp32 and without dropout, but for mean and rstd
    of each norm: two numbers a token."""
    layers, d, heads, length, batch = sizes
    shape = Shape(layers=layers, d=d, heads=heads, length=length)
    model, tokens = GPT(shape), torch.randint(0, shape.vocab, (batch, length))
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if tensor.is_floating_point() and storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    stats = (2 * layers + 1) * 2 * 4 * batch * length
    plan = Model(layers, d, heads, shape.vocab, length, dropout=False, tied=False)
    at = Layout(mbs=batch, batch=batch)
    found = stage_memory(plan, at, 0, Software("fp32", "fp32"))
    saved = sum(storage.nbytes() for storage in kept.values())
    assert saved == found.activations + found.ends + stats + loss.nbytes


class TestInFlight:
    def test_1f1b_by_stage(self):
        layout = Layout(pp=4, batch=8)
        assert [in_flight(layout, stage) for stage in range(4)] == [4, 3, 2, 1]
        assert [in_flight(Layout(pp=4, batch=2), stage) for stage in range(4)] == [2, 2, 2, 1]

    def test_interleaved_in_whole_stages(self):
        """p = 4, v = 2, m = 8: 11, 9, 7, 5 chunks of half a stage."""
        layout = Layout(pp=4, v=2, batch=8)
        assert [2 * in_flight(layout, stage) for stage in range(4)] == [11, 9, 7, 5]


class TestStages:
    MODEL = Model(8, 256, 8, 5000, 64, tied=False)

    def test_what_stands_where(self):
        """Logits on the last stage alone, a table on both ends, flight on the first."""
        stages = all_stages(self.MODEL, Layout(pp=4, batch=8), PLAIN)
        assert [one.stage for one in stages] == [0, 1, 2, 3]
        assert stages[1].ends == stages[2].ends == 0 < stages[0].ends < stages[3].ends
        table = 5000 * 256
        assert stages[0].parameters - stages[1].parameters == table + 64 * 256
        assert stages[3].parameters - stages[2].parameters == table + 2 * 256
        logits = 4 * 64 * 5000
        assert stages[3].ends == logits + 2 * 2 * 64 * 256

    @pytest.mark.parametrize("pp", [1, 2, 3, 4, 8])
    @pytest.mark.parametrize("batch", [1, 8])
    def test_worst_is_the_worst_of_all(self, pp, batch):
        for zero in (0, 1, 2, 3):
            layout = Layout(2, pp, batch=2 * batch, zero=zero)
            totals = [one.total for one in all_stages(self.MODEL, layout, PLAIN)]
            assert worst_stage(self.MODEL, layout, PLAIN).total == max(totals)

    def test_ends_that_take_a_layers_place(self):
        model = Model(14, 256, 8, 500, 64)
        layout = Layout(pp=4, batch=8, ends=True)
        totals = [one.total for one in all_stages(model, layout, PLAIN)]
        assert worst_stage(model, layout, PLAIN).total == max(totals) == totals[1]

    def test_a_vocabulary_is_padded(self):
        """257 rows on 8 ranks: 33 each."""
        model = Model(2, 64, 8, 257, 32, tied=False)
        whole = rank_parameters(model, 2, 1, 1, False), rank_parameters(model, 2, 1, 8, False)
        block = formulas.block_parameters_on_rank
        assert whole[0] == block(64, 8, 8, 256, 1) + 257 * 64 + 2 * 64
        assert whole[1] == block(64, 8, 8, 256, 8) + 33 * 64 + 2 * 64


class TestOnceAStep:
    """Under a pipeline frameworks reduce and gather once a step: gradients stay whole till then."""

    def test_gradients_and_weights_are_held_whole(self):
        model, layout = Model(8, 256, 8, 500, 64), Layout(4, 2, batch=16, zero=3)
        each = stage_memory(model, layout, 0, PLAIN)
        once = stage_memory(model, layout, 0, replace(PLAIN, each_micro=False))
        assert once.gradients == 4 * each.gradients == 2 * each.parameters
        assert once.weights == 2 * each.parameters
        assert once.optimizer == each.optimizer


class TestCasesOfOthers:
    MODEL = Model(24, 1024, 16, 51200, 1024)

    def test_four_stages_of_zero_and_their_table(self):
        """F05: 16P; 4P + 12P/n; 2P + 14P/n; 16P/n, the table in words; n = 1 all the same."""
        for n in (1, 8):
            wanted = (16, 4 + 12 / n, 2 + 14 / n, 16 / n)
            for zero, each in enumerate(wanted):
                found = stage_memory(self.MODEL, Layout(n, zero=zero, batch=n), 0, PLAIN)
                assert found.state == pytest.approx(each * self.MODEL.parameters, rel=1e-12)
        told = " ".join(assumptions(self.MODEL, Layout(8, zero=2, batch=8), PLAIN))
        assert "2 bytes of weights, 2 of gradients and 12 of optimizer" in told
        assert "ZeRO-2 shares over dp·cp = 8 ranks" in told

    def test_norms_and_row_biases_are_whole_on_every_rank(self):
        """F09: tp 1 to 2: norms and the biases of W_o and of the MLP's end stay, matrices halve."""
        model = Model(1, 64, 4, 128, 1)
        one, two = (rank_parameters(model, 1, 0, tp, False) for tp in (1, 2))
        whole = 6 * 64 + 64 + 2 * 64  # of the block; positions of one token; last norm
        assert two - whole == (one - whole) / 2

    def test_recompute_and_fused_attention(self):
        """F10: selective recompute saves much without fused attention and next to nothing with."""
        model, words = Model(1, 12288, 96, 51200, 2048), (1, 8, 1, True)
        none, selective = (layer_bytes(model, *words, r, False) for r in ("none", "selective"))
        assert selective / none == pytest.approx(34 / (34 + 80), rel=1e-9)
        none, selective = (layer_bytes(model, *words, r, True) for r in ("none", "selective"))
        assert 0 < 1 - selective / none < 0.01
        at, shares = (
            Layout(tp=8, sp=True, recompute="selective"),
            (("70.2%", False), ("0.1%", True)),
        )
        for share, flash in shares:
            told = recompute_told(model, at, Software(table="bf16", flash=flash))
            assert f"saves {share} of what a layer keeps" in told
            assert ("fused attention keeps no scores" in told) == flash
            assert told in assumptions(model, at, Software(table="bf16", flash=flash))

    @pytest.mark.parametrize(
        ("layout", "software"),
        [
            (dict(zero=2), {}),
            (dict(recompute="selective"), {}),
            (dict(recompute="full"), {}),
            (dict(sp=True), {}),
            ({}, dict(flash=True)),
            ({}, dict(table="fp32")),
            ({}, dict(table="bf16")),
            ({}, dict(loss_bytes=14)),
        ],
    )
    def test_every_assumption_is_listed_and_changes_the_total(self, layout, software):
        """F19: and by what is printed: the totals in the two lists differ by `difference`."""
        before = (Layout(4, 1, 1, 2, batch=16, zero=1), UNFUSED)
        after = (replace(before[0], **layout), replace(before[1], **software))
        told = [assumptions(self.MODEL, *one) for one in (before, after)]
        assert told[0][:-1] != told[1][:-1]
        change = difference(self.MODEL, before, after)
        totals = [worst_stage(self.MODEL, *one).total for one in (before, after)]
        assert change == totals[1] - totals[0] != 0
        for lines, total in zip(told, totals, strict=True):
            assert f"{METRIC} bytes of the worst stage: {both(total)}" in lines[-1]


class TestUnits:
    def test_gb_and_gib_are_told_apart(self):
        assert (gb(80e9), gib(80e9)) == ("80.0 GB", "74.5 GiB")
        assert both(2**30) == "1.1 GB (1.0 GiB)"
        assert (GB, GIB) == (10**9, 2**30)

    def test_a_plan_may_fill_less_than_the_card(self):
        cluster = Cluster(8)
        assert cluster.usable == cluster.gpu.memory - 2 * GIB
        told = assumptions(Model(2, 64, 4, 100), Layout(8, batch=8), PLAIN, cluster)[-1]
        assert both(cluster.usable) in told and both(cluster.gpu.memory) in told

    def test_tables_of_bytes(self):
        assert {name: each.total for name, each in TABLES.items()} == {
            "bf16": 16, "bf16, fp32 gradients": 18, "fp32 shards": 16, "fp32": 16,
        }  # fmt: skip
