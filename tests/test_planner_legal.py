"""What the planner refuses: the same as the labs, as data, with numbers that would do."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from labs.gpt import Shape
from labs.mesh import legal as mesh_legal
from labs.mesh.config import Config
from labs.mesh.layout import Layout as MeshLayout
from labs.pipeline.partition import layer_counts
from labs.pipeline.refuse import no_multiple
from labs.planner import legal
from labs.planner.cluster import Cluster
from labs.planner.cost.memory import rank_parameters
from labs.planner.layout import Layout
from labs.planner.legal import RULES, first_refusal, legal_tp, refusals, warnings
from labs.planner.model import Model
from labs.planner.search import search
from labs.schedules.known import KNOWN
from labs.tp_linear_pair import legality, sharding
from solutions.one_f_one_b import interleaved_order


def against(model: Model, layout: Layout, gpus: int | None = None) -> list[str]:
    """Sentences of all refusals."""
    cluster = Cluster(gpus or layout.gpus)
    found = refusals(model, cluster, layout)
    assert (found[0] if found else None) == first_refusal(model, cluster, layout)
    assert all(refusal.reason in RULES for refusal in found)
    return [refusal.sentence for refusal in found]


def refuses(function, *arguments) -> bool:
    try:
        function(*arguments)
    except ValueError:
        return True
    return False


class TestLabsAndPlannerAgree:
    @pytest.mark.parametrize("kv", [1, 2, 3, 4, 8, 32])
    @pytest.mark.parametrize("tp", [1, 2, 3, 4, 5, 8, 16, 32, 64])
    def test_heads_and_kv_heads(self, kv, tp):
        """q = 32 and every kv that divides it; kv = 3 is refused by both before tp is asked."""
        d, width = 128, 64 * 15
        labs = refuses(legality.check_shape, d, 32, kv, width, None, tp)
        if kv == 3:
            assert labs and refuses(Model, 1, d, 32, 100, 2, kv, width)
            return
        model = Model(1, d, 32, 100, 2, kv, width)
        assert bool(against(model, Layout(tp=tp))) == labs
        assert (tp in legal_tp(model)) == (not labs)

    def test_ranks_that_work_are_the_same_list(self):
        for heads, kv, width in ((32, 8, 128), (24, 8, 96), (40, 40, 160), (12, 3, 48)):
            model = Model(1, 8 * heads, heads, 100, 2, kv, width)
            assert list(legal_tp(model)) == legality.legal_ranks(heads, kv, width)

    @pytest.mark.parametrize("layers", [1, 2, 3, 7, 10])
    @pytest.mark.parametrize("pp", [1, 2, 3, 4, 7, 11])
    def test_layers_and_stages(self, layers, pp):
        labs = refuses(mesh_legal.stages, Shape(layers=layers), MeshLayout(pp=pp))
        assert bool(against(Model(layers, 64, 4, 257), Layout(pp=pp))) == labs

    @pytest.mark.parametrize("dp", [1, 2, 3, 4])
    def test_batch_and_replicas(self, dp):
        """The micro-batches that the labs take are those that some mbs gives here."""
        for batch in range(1, 25):
            labs = {
                m for m in range(1, batch + 1)
                if not refuses(mesh_legal.samples, batch, MeshLayout(dp=dp), m)
            }  # fmt: skip
            sizes = [Layout(dp=dp, mbs=mbs, batch=batch) for mbs in range(1, batch + 1)]
            model = Model(1, 64, 4, 257)
            assert {at.micro_batches for at in sizes if not against(model, at)} == labs

    @pytest.mark.parametrize(("cp", "tp", "sp"), list(product((1, 2, 3), (1, 2, 4), (False, True))))
    def test_tokens(self, cp, tp, sp):
        for length in (6, 8, 12, 16, 24, 36):
            shape, mesh = Shape(length=length), MeshLayout(cp=cp, tp=tp)
            labs = refuses(mesh_legal.tokens, shape, mesh, sp)
            assert bool(against(Model(4, 64, 4, 257, length), Layout(cp=cp, tp=tp, sp=sp))) == labs


class TestTables:
    """Exhaustively: what a lab refuses the planner refuses, and the other way round."""

    WIDTH = 720720  # every number up to 16 divides it: heads alone decide

    @pytest.mark.parametrize("kv", [1, 2, 8, 32])
    @pytest.mark.parametrize("tp", range(1, 17))
    def test_32_heads_on_up_to_16_ranks(self, kv, tp):
        model, layout = Model(1, 128, 32, 257, 2, kv, self.WIDTH), Layout(tp=tp)
        labs = refuses(legality.check_shape, 128, 32, kv, self.WIDTH, 257, tp)
        told = against(model, layout)
        assert bool(told) == labs == (tp not in legality.legal_ranks(32, kv, self.WIDTH))
        assert labs == (32 % tp != 0 or (kv % tp != 0 and tp % kv != 0))
        if labs:
            assert f"tp = {tp}" in told[0] and "would do" in told[0]
            return
        weights = dict(qkv_w=torch.zeros(1, (32 + 2 * kv) * 4), up_w=torch.zeros(1, 2 * tp))
        columns = {
            sum(one.numel() for one in sharding.cut_weights(weights, 32, kv, rank, tp).values())
            for rank in range(tp)
        }
        assert columns == {32 // tp * 4 + 2 * max(1, kv // tp) * 4 + 2}  # each rank gets as much

    @pytest.mark.parametrize("v", [1, 2, 3, 4])
    @pytest.mark.parametrize("pp", [1, 2, 3, 4, 5])
    def test_layers_and_chunks(self, pp, v):
        """What labs/pipeline cannot cut is refused. Besides, with v > 1 alone: unequal chunks."""
        for layers in range(1, 25):
            told = against(Model(layers, 64, 4, 257), Layout(pp=pp, v=v, batch=pp))
            labs = refuses(layer_counts, layers, pp * v)
            if labs:
                assert told
                continue
            counts = layer_counts(layers, pp * v)
            assert bool(told) == (v > 1 and (pp == 1 or len(set(counts)) > 1))
            if v > 1 and pp > 1 and told:
                rest = layers % (pp * v)
                assert f"pp·v = {pp}·{v} = {pp * v}" in told[0] and f"= {rest};" in told[0]

    @pytest.mark.parametrize("v", [2, 3])
    @pytest.mark.parametrize("pp", [2, 3, 4, 5])
    def test_rounds(self, pp, v):
        """Micro-batches of an interleaved order: as the order itself refuses them."""
        order, model = interleaved_order, Model(pp * v, 64, 4, 257)
        for m in range(1, 4 * pp + 1):
            labs = refuses(KNOWN["interleaved"].make, order, pp, m, v)
            assert labs == bool(no_multiple(m, pp))
            assert bool(against(model, Layout(pp=pp, v=v, batch=m))) == labs

    @pytest.mark.parametrize("dp", [1, 2, 3, 4])
    @pytest.mark.parametrize("pp", [1, 2, 3, 5])
    @pytest.mark.parametrize("tp", [1, 2, 3, 4])
    def test_whole_configurations(self, dp, pp, tp):
        """Whatever the mesh refuses when a configuration is made, in whichever rule it stands."""
        shapes = product((1, 3, 4), (2, 3, 4), (24, 28), (4, 6, 12), (1, 2, 3))
        for layers, heads, width, batch, m in shapes:
            shape = Shape(layers, 24, heads, 8, d_ff=width)
            labs = refuses(Config, MeshLayout(dp=dp, pp=pp, tp=tp), shape, batch, m)
            model = Model(layers, 24, heads, shape.vocab, 8, d_ff=width)
            if batch % (dp * m):  # no whole number of sequences: there is no such layout
                assert labs
                assert all(Layout(dp, batch=batch, mbs=mbs).batch != dp * m * mbs
                           for mbs in range(1, batch + 1))  # fmt: skip
                continue
            layout = Layout(dp, pp, 1, tp, mbs=batch // dp // m, batch=batch)
            assert layout.micro_batches == m
            assert bool(against(model, layout)) == labs


class TestRulesAreNeeded:
    """Without a rule the planner would offer what a lab refuses."""

    @pytest.mark.parametrize(
        ("rule", "model", "layout"),
        [
            ("heads % tp", Model(1, 64, 4, 257, kv_heads=1, d_ff=240), Layout(tp=3)),
            ("kv heads and tp", Model(1, 96, 12, 257, kv_heads=3, d_ff=96), Layout(tp=2)),
            ("d_ff % tp", Model(1, 64, 4, 257, d_ff=66), Layout(tp=4)),
            ("pp > layers", Model(2, 64, 4, 257), Layout(pp=3)),
            ("layers % (pp·v)", Model(10, 64, 4, 257), Layout(pp=2, v=3, batch=2)),
            ("batch % (dp·mbs)", Model(1, 64, 4, 257), Layout(dp=3, batch=4)),
            ("m % pp with v > 1", Model(8, 64, 4, 257), Layout(pp=4, v=2, batch=6)),
            ("tokens % cp, sp", Model(1, 64, 4, 257, 6), Layout(cp=2)),
        ],
    )  # fmt: skip
    def test_it_alone_speaks_against(self, rule, model, layout, monkeypatch):
        assert [one.reason for one in refusals(model, Cluster(layout.gpus), layout)] == [rule]
        rest = {name: one for name, one in RULES.items() if name != rule}
        monkeypatch.setattr(legal, "RULES", rest)
        assert refusals(model, Cluster(layout.gpus), layout) == []


class TestSentences:
    MODEL = Model(80, 8192, 64, 128256, 4096, 8, 28672)

    @pytest.mark.parametrize(
        ("layout", "gpus", "told"),
        [
            (Layout(8, 2, 1, 8, batch=512), 64, "dp 8·pp 2·tp 8 = 128, and the cluster has 64 GPUs;"
             " dp = 4 would do"),
            (Layout(1, 1, 1, 3), 4, "3 or 6 GPUs would do"),
            (Layout(tp=6), None, "64 % 6 = 4; tp = 1, 2, 4, 8, 16, 32 or 64 would do"),
            (Layout(pp=100), None, "80 layers do not fill pp = 100 stages"),
            (Layout(pp=4, v=3, batch=4), None, "80 % 12 = 8; 72 or 84 would do"),
            (Layout(v=2), None, "v = 2 chunks need a pipeline"),
            (Layout(cp=3), None, "4096 % 6 = 4; 4092 or 4098 tokens would do"),
        ],
    )  # fmt: skip
    def test_numbers_and_the_nearest(self, layout, gpus, told):
        assert any(told in sentence for sentence in against(self.MODEL, layout, gpus))

    def test_uneven_stages_run_and_are_told(self):
        layout = Layout(pp=3)
        assert against(self.MODEL, layout) == []
        assert any("80 layers on 3 stages are uneven: the first holds 27" in told
                   for told in warnings(self.MODEL, Cluster(3), layout))  # fmt: skip

    def test_both_ends_may_take_a_layers_place(self):
        """Llama 3's 126 layers on 16 stages of 8 places."""
        model = Model(126, 16384, 128, 128256, 8192, 8, 53248)
        assert against(model, Layout(pp=16, ends=True)) == []
        held = [rank_parameters(model, 16, stage, 8, True) for stage in (1, 7, 14)]
        assert len(set(held)) == 1

    def test_zero_with_a_pipeline_is_a_warning_not_a_refusal(self):
        layout = Layout(dp=2, pp=2, zero=3, batch=8)
        assert against(self.MODEL, layout) == []
        told = warnings(self.MODEL, Cluster(4), layout)
        assert any("for each of 4 micro-batches: costly, not impossible" in one for one in told)

    @pytest.mark.parametrize("words", [dict(dp=0), dict(tp=1.5), dict(batch=True), dict(zero=4),
                                       dict(recompute="some")])  # fmt: skip
    def test_a_layout_that_is_none(self, words):
        with pytest.raises(ValueError, match="whole number|stages|recompute"):
            Layout(**words)


class TestCasesOfOthers:
    def test_heads_that_three_gpus_cannot_share(self):
        """F12: G = 3, 40 heads: tp = 3 is not offered, with the reason; dp = 3 and pp = 3 are."""
        model = Model(30, 640, 40, 1000, 128)
        found = search(model, Cluster(3), 12, best=99)
        offered = {(p.layout.dp, p.layout.pp, p.layout.tp) for p in found.plans}
        assert offered == {(3, 1, 1), (1, 3, 1)}
        assert "40 % 3 = 1" in found.refused["heads % tp"].example
        for gpus in (5, 7, 13):
            assert all(p.layout.gpus == gpus for p in search(model, Cluster(gpus), 4 * gpus).plans)

    @pytest.mark.parametrize("kv", [1, 2, 8, 32])
    @pytest.mark.parametrize("tp", [1, 2, 4, 8, 16])
    def test_more_ranks_than_kv_heads(self, kv, tp):
        """F13: q = 32: legal in planner and lab alike, marked, and the copies cost memory."""
        model, layout = Model(2, 4096, 32, 1000, 128, kv), Layout(tp=tp)
        assert against(model, layout) == []
        assert not refuses(legality.check_shape, 4096, 32, kv, 16384, None, tp)
        told = any("needs KV copies" in one for one in warnings(model, Cluster(tp), layout))
        assert told == (tp > kv)
        copies = max(1, tp // kv)
        block = 2 * (4096 + 1) * 128 * kv * copies  # K and V with their biases, on all ranks
        q_out = 2 * 4096**2 + 4096  # W_q with bias and W_o
        mlp = 2 * 4096 * 16384 + 16384
        whole = tp * 6 * 4096
        held = tp * (rank_parameters(model, 2, 0, tp, False) - 128 * 4096)
        table = 4096 * 1000 if tp in (1, 2, 4, 8) else 4096 * 1008  # padded to 16
        assert held == block + q_out + mlp + whole + table

    def test_a_batch_that_replicas_cannot_share(self):
        """F14: 10 sequences on dp = 4: 8 and 12 are named; dp·mbs over the batch is refused."""
        model = Model(4, 64, 4, 257)
        (told,) = against(model, Layout(dp=4, batch=10))
        assert "10 % 4 = 2; 8 or 12 would do" in told
        (told,) = against(model, Layout(dp=4, mbs=4, batch=10))
        assert "dp 4·mbs 4 = 16 is more than the global batch of 10" in told
        with pytest.raises(ValueError, match="10 sequences are no multiple of dp·mbs = 4"):
            Layout(dp=4, batch=10).micro_batches  # noqa: B018

    def test_a_batch_is_shared_by_replicas_not_by_gpus(self):
        """F15: 16 GPUs, batch 64: 4 a replica at tp=1, 8 at tp=2, 16 at tp=2 pp=2."""
        for dp, pp, tp, each in ((16, 1, 1, 4), (8, 1, 2, 8), (4, 2, 2, 16)):
            layout = Layout(dp, pp, 1, tp, batch=64)
            assert layout.gpus == 16 and layout.micro_batches * layout.mbs == each

    def test_other_degrees_keep_the_batch(self):
        """F16: dp changes m, never the global batch."""
        seen = [Layout(dp=dp, tp=16 // dp, batch=64) for dp in (1, 2, 4, 8, 16)]
        assert {at.batch for at in seen} == {64}
        assert [at.micro_batches for at in seen] == [64, 32, 16, 8, 4]

    def test_rounds_of_an_interleaved_schedule(self):
        """F20: v = 2, p = 4, m = 6 is refused, and 8 would do."""
        model = Model(16, 64, 4, 257)
        (told,) = against(model, Layout(pp=4, v=2, batch=6))
        assert "6 % 4 = 2; m = 4 or 8 would do, a global batch of 4 or 8" in told
        assert against(model, Layout(pp=4, v=2, batch=8)) == []
