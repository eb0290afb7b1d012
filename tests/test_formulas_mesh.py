"""The formulas of ZeRO and of the mesh: the paper's numbers, hand counts, and what ties them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs import formulas
from labs.gpt import GPT, Shape
from labs.mesh.held import label
from labs.mesh.tensor_parallel import Place, tensor_parallel
from labs.mesh_3d.sizes import decoder
from labs.pipeline.partition import cut
from solutions import mesh_3d, tp_linear_pair

stages = st.sampled_from(formulas.ZERO_STAGES)
sizes = st.integers(1, 10**9)
ranks = st.integers(1, 64)


class TestState:
    @pytest.mark.parametrize(("zero", "paper"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
    def test_figure_1_of_the_paper(self, zero: int, paper: float) -> None:
        """Rajbhandari et al., 2020, figure 1: 7.5 billion parameters on 64 ranks, in GB."""
        assert round(formulas.state_bytes(7.5e9, 64, zero) / 1e9, 1 if zero else 0) == paper

    @pytest.mark.parametrize(
        ("mixed", "want"),
        [
            (True, (16, 4 + 12 / 8, 2 + 14 / 8, 16 / 8)),
            (False, (16, 8 + 8 / 8, 4 + 12 / 8, 16 / 8)),
        ],
    )
    def test_both_tables(self, mixed: bool, want: tuple) -> None:
        got = tuple(formulas.state_bytes(1000, 8, zero, mixed) for zero in formulas.ZERO_STAGES)
        assert got == tuple(1000 * each for each in want)

    @given(p=sizes, n=ranks, zero=stages)
    def test_each_stage_holds_less_and_one_rank_all(self, p: int, n: int, zero: int) -> None:
        assert formulas.state_bytes(p, 1, zero) == 16 * p
        held = [formulas.state_bytes(p, n, z) for z in formulas.ZERO_STAGES]
        assert held == sorted(held, reverse=True) and held[3] == pytest.approx(held[0] / n)
        assert all(a > b for a, b in zip(held, held[1:], strict=False)) or n == 1

    def test_what_is_shared_out_first(self) -> None:
        held = formulas.state_on_rank(10, 5, 1)
        assert (held.weights, held.gradients, held.optimizer) == (20, 20, 24)
        held = formulas.state_on_rank(10, 5, 2, formulas.FP32)
        assert (held.weights, held.gradients, held.optimizer, held.total) == (40, 8, 16, 64)

    @given(units=st.lists(st.integers(1, 10**6), min_size=1, max_size=9), n=ranks)
    def test_padding_is_the_least(self, units: list[int], n: int) -> None:
        padded = formulas.padded_parameters(units, n)
        assert padded % n == 0 and 0 <= padded - sum(units) <= len(units) * (n - 1)

    def test_the_peak_does_not_fall_with_more_ranks(self) -> None:
        assert formulas.zero3_peak(100, 1) == 300 and formulas.zero3_peak(100, 2) == 250
        assert formulas.zero3_peak(100, 10**6) == pytest.approx(200, rel=1e-5)
        assert formulas.zero3_peak(100, 2, copied=False) == 200

    @pytest.mark.parametrize("zero", [4, -1, "1", True, 1.5])
    def test_no_such_stage(self, zero: object) -> None:
        with pytest.raises(ValueError, match="stages 0, 1, 2 and 3; got"):
            formulas.state_bytes(10, 2, zero)

    def test_no_ranks(self) -> None:
        with pytest.raises(ValueError, match="0 ranks"):
            formulas.state_bytes(10, 0, 1)
        with pytest.raises(ValueError, match="0 ranks"):
            formulas.padded_parameters([1], 0)


shapes = st.builds(
    lambda layers, heads, each, d_ff, length, vocab, tied: Shape(
        layers, heads * each, heads, length, vocab, d_ff, tied
    ),
    st.integers(1, 5), st.just(4), st.integers(1, 3), st.sampled_from([4, 12, 20]),
    st.integers(1, 5), st.integers(4, 19), st.booleans(),
)  # fmt: skip


few = settings(max_examples=20, deadline=None)
"""A model is made for each."""


class TestParameters:
    @few
    @given(shape=shapes)
    def test_the_model_has_as_many(self, shape: Shape) -> None:
        assert decoder(shape).parameters == sum(p.numel() for p in GPT(shape).parameters())

    @few
    @given(shape=shapes, tp=st.sampled_from([1, 2, 4]), pp=st.integers(1, 5))
    def test_each_rank_holds_as_many(self, shape: Shape, tp: int, pp: int) -> None:
        """The model cut by the course's own passes, rank by rank."""
        pp, model = min(pp, shape.layers), decoder(shape)
        for stage in range(pp):
            for rank in range(tp):
                at, on = dict(pp=stage, tp=rank), dict(pp=pp, tp=tp)

                def which(name: str, of: tuple, at: dict = at, on: dict = on) -> tuple:
                    first = {**at, "pp": 0} if shape.tied and "tokens" in name else at
                    return mesh_3d.shard_of(name, of, shape.layers, first, on)

                whole = cut(label(GPT(shape)), pp)[stage]
                parts = vars(tp_linear_pair)
                held = list(tensor_parallel(whole, Place(rank, tp), parts, which).parameters())
                want = formulas.stage_parameters(model, pp, stage, tp)
                assert sum(p.numel() for p in held) == want
                if tp > 1:
                    same = sum(p.numel() for p in held if p.shape == p.held.shape)
                    assert same == formulas.stage_whole(model, pp, stage)

    @given(shape=shapes, tp=st.sampled_from([1, 2, 4]), pp=st.integers(1, 5))
    def test_all_ranks_together_hold_the_model(self, shape: Shape, tp: int, pp: int) -> None:
        """N, with copies of what is whole, the vocabulary's padding, and a tied table twice."""
        pp, model = min(pp, shape.layers), decoder(shape)
        held = sum(tp * formulas.stage_parameters(model, pp, s, tp) for s in range(pp))
        copies = sum((tp - 1) * formulas.stage_whole(model, pp, s) for s in range(pp))
        table = formulas.table_on_rank(model.d, model.vocab, tp) * tp
        padding = (table - model.vocab * model.d) * (1 if model.tied else 2)
        twice = table if model.tied and pp > 1 else 0
        assert held == model.parameters + copies + padding + twice

    def test_a_gpt_by_hand(self) -> None:
        """d=2, h=1, d_ff=8, T=3, V=5, two layers: 24d²/2 + 13d a block."""
        model = formulas.Decoder(2, 2, 1, 8, 3, 5)
        block = 12 * 4 + 13 * 2
        assert model.parameters == 2 * block + 2 * 5 * 2 + 3 * 2 + 2 * 2
        assert formulas.block_whole(2) == 12
        units = formulas.stage_units(model, 2, 1, 1)
        assert [(u.name, u.parameters, u.uses) for u in units] == [
            ("block", block, 1), ("head", 14, 1),
        ]  # fmt: skip

    def test_a_tied_table_is_a_unit_that_one_rank_may_use_twice(self) -> None:
        model = formulas.Decoder(2, 2, 1, 8, 3, 5, tied=True)
        assert formulas.stage_units(model, 1, 0, 1)[-1] == formulas.Unit("tied", 10, 2)
        assert formulas.stage_units(model, 2, 1, 1)[-1] == formulas.Unit("tied", 10, 1)

    def test_stages_that_cannot_be(self) -> None:
        model = formulas.Decoder(2, 2, 1, 8, 3, 5)
        with pytest.raises(ValueError, match="2 layers do not fill 3 stages; 2 stages would do"):
            formulas.stage_parameters(model, 3, 0, 1)
        with pytest.raises(ValueError, match="stages 0 to 1; got 2"):
            formulas.stage_parameters(model, 2, 2, 1)


MODEL = formulas.Decoder(4, 16, 4, 64, 8, 257)


def bytes_on(axis: str, zero: int, m: int = 2, reshard: bool = True, **sizes: int) -> float:
    """Ideal bytes of all ranks on an axis in a step."""
    sizes = dict(dp=1, pp=1, tp=1) | sizes
    return sum(
        one.ideal
        for dp in range(sizes["dp"]) for pp in range(sizes["pp"]) for tp in range(sizes["tp"])
        for one in formulas.step_traffic(
            MODEL, sizes, dict(dp=dp, pp=pp, tp=tp), 2, m, zero, 8, reshard
        )
        if one.axis == axis
    )  # fmt: skip


class TestTraffic:
    @given(layers=st.integers(0, 9), m=st.integers(1, 9), t=st.integers(2, 8))
    def test_four_all_reduces_a_layer_and_micro_batch(self, layers: int, m: int, t: int) -> None:
        sent = formulas.tp_traffic(layers, False, False, 2, 8, 16, 4, t, m)
        assert sum(one.count for one in sent) == m * formulas.tp_all_reduces(layers)
        ideal = m * layers * formulas.tp_layer_bytes(2, 8, 16, 4, t)
        assert sum(one.ideal for one in sent) == pytest.approx(ideal)

    def test_ends_of_the_pipeline_reduce_more(self) -> None:
        """Embedding one forward; loss three of (B, T) forward; head one backward."""
        first = formulas.tp_traffic(1, True, False, 2, 8, 16, 4, 2, 1)
        last = formulas.tp_traffic(1, False, True, 2, 8, 16, 4, 2, 1)
        assert [(s.phase, s.count, s.payload) for s in first] == [
            ("forward", 3, 3 * 1024), ("backward", 2, 2 * 1024),
        ]  # fmt: skip
        assert [(s.phase, s.count, s.payload) for s in last] == [
            ("forward", 5, 2 * 1024 + 3 * 64), ("backward", 3, 3 * 1024),
        ]  # fmt: skip

    @given(pp=st.integers(1, 8), m=st.integers(1, 9))
    def test_sends_are_those_of_the_pipeline(self, pp: int, m: int) -> None:
        sent = [s for stage in range(pp) for s in formulas.pp_traffic(stage, pp, 2, 8, 16, 4, m)]
        assert sum(one.count for one in sent) == formulas.pipeline_sends(pp, m)
        each = formulas.pipeline_send_bytes(2 * m, m, 8, 16, 4)
        assert sum(one.payload for one in sent) == formulas.pipeline_sends(pp, m) * each

    def test_zero_1_sends_what_zero_0_does_and_zero_3_half_as_much_again(self) -> None:
        """Rajbhandari et al., 2020, section 7: 2, 2, 2 and 3 times the parameters, m = 1."""
        sent = [bytes_on("dp", zero, m=1, dp=4) for zero in formulas.ZERO_STAGES]
        assert sent[0] == sent[1] == pytest.approx(sent[2], rel=1e-3)
        assert sent[3] == pytest.approx(1.5 * sent[0], rel=1e-3)

    def test_micro_batches_cost_zero_2_and_3_more(self) -> None:
        one, many = (
            [bytes_on("dp", zero, m=m, dp=2, pp=2) for zero in formulas.ZERO_STAGES] for m in (1, 4)
        )
        assert many[:2] == one[:2]
        assert many[2] == pytest.approx(one[2] * 5 / 2) and many[3] == 4 * one[3]
        kept = bytes_on("dp", 3, m=4, reshard=False, dp=2, pp=2)
        assert kept == pytest.approx(many[2])

    def test_gathers(self) -> None:
        assert formulas.zero_gathers(1, 4) == (4, 4)
        assert formulas.zero_gathers(2, 4) == (8, 4)
        assert formulas.zero_gathers(2, 4, reshard=False) == (1, 0)

    def test_groups_of_one_send_nothing(self) -> None:
        assert formulas.step_traffic(MODEL, dict(dp=1, pp=1, tp=1), dict(dp=0, pp=0, tp=0),
                                     2, 2, 3, 8) == []  # fmt: skip
        axes = {a for a in ("dp", "pp", "tp", "ends", "mesh") if bytes_on(a, 3, dp=2)}
        assert axes == {"dp", "mesh"}

    def test_a_share_of_a_tied_table_that_is_all_padding_is_not_sent(self) -> None:
        shares = [formulas.ends_traffic(5, 4, place, 2, 8) for place in range(4)]
        assert [sum(s.payload for s in sent) for sent in shares] == [16, 16, 8, 0]
        assert shares[3] == []
        assert formulas.ends_traffic(5, 4, 3, 1, 8)[0].payload == 40
