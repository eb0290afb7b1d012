"""The planner against the course's own ranks: parameters, state, peak, bytes sent, the bubble.

What ranks told is kept, and compared again with a wrong planner: each row has a mutant.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labs import formulas, ranks
from labs.gpt import GPT, Shape
from labs.mesh import accounted, programs
from labs.mesh.held import label
from labs.mesh.tensor_parallel import Place, tensor_parallel
from labs.mesh_3d import training
from labs.pipeline.partition import cut
from labs.planner.cost import eager, eager_passes, memory
from labs.planner.cost.memory import all_stages, rank_parameters, worst_stage
from labs.planner.exports.shrink import TOY, Shrunk
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.search import search
from labs.planner.software import COURSE
from labs.planner_widget import tiny
from labs.tp_linear_pair import sharding
from solutions import mesh_3d
from tests.mesh_parts import PARTS

MESHES = [(1, 2, 2), (2, 1, 2), (1, 1, 4), (1, 4, 1), (2, 2, 1)]
PLANS = [
    Shrunk(tiny.tiny_layout(*sizes, zero), model, ())
    for sizes, zero, model in [
        ((2, 2, 2), 1, TOY),
        ((2, 2, 2), 3, replace(TOY, layers=5, tied=True)),  # uneven stages
        *[(sizes, zero, TOY) for sizes in MESHES for zero in (1, 2, 3)],
    ]
]
NAMES = [f"{plan.layout}{' tied, uneven' if plan.model.tied else ''}" for plan in PLANS]
CLOCKED = Shrunk(tiny.tiny_layout(1, 4, 2), TOY, ())


class TestParameters:
    @pytest.mark.parametrize("tied", [False, True])
    @pytest.mark.parametrize("layers", [4, 7])
    @pytest.mark.parametrize("pp", [1, 2, 4])
    @pytest.mark.parametrize("tp", [1, 2, 4])
    def test_of_every_rank(self, tied, layers, pp, tp):
        """sum(p.numel()) of the toy GPT, cut by the lab's own passes; 7 layers are uneven."""
        shape = Shape(layers=layers, d=32, heads=4, length=16, tied=tied)
        model = Model(layers, 32, 4, shape.vocab, 16, tied=tied)
        for stage in range(pp):
            held = {self.held(shape, pp, stage, tp, rank) for rank in range(tp)}
            assert held == {rank_parameters(model, pp, stage, tp, False)}

    def held(self, shape: Shape, pp: int, stage: int, tp: int, rank: int) -> int:
        def which(name: str, of: tuple) -> tuple:
            shared = shape.tied and "tokens" in name
            at = dict(pp=0 if shared else stage, tp=rank)
            return mesh_3d.shard_of(name, of, shape.layers, at, dict(pp=pp, tp=tp))

        part = cut(label(GPT(shape)), pp)[stage]
        part = tensor_parallel(part, Place(rank, tp), PARTS, which)
        return sum(p.numel() for p in part.parameters())

    @pytest.mark.parametrize("kv", [1, 2, 4, 8])
    @pytest.mark.parametrize("tp", [1, 2, 4, 8])
    @pytest.mark.parametrize("gated", [False, True])
    def test_of_a_block_with_fewer_kv_heads(self, kv, tp, gated):
        """As labs/tp_linear_pair cuts it; the mesh's toy GPT has as many KV heads as heads."""
        d, heads, width = 32, 8, 64
        inner = dict(gate_up_w=(d, 2 * width), gate_up_b=(2 * width,)) if gated else dict(
            up_w=(d, width), up_b=(width,))  # fmt: skip
        columns = (heads + 2 * kv) * d // heads
        shapes = dict(
            norm1_w=(d,), norm1_b=(d,), norm2_w=(d,), norm2_b=(d,), qkv_w=(d, columns),
            qkv_b=(columns,), out_w=(d, d), out_b=(d,), **inner, down_w=(width, d), down_b=(d,),
        )  # fmt: skip
        weights = {name: torch.zeros(shape) for name, shape in shapes.items()}
        plan = Model(3, d, heads, 64, 4, kv, width, gated=gated)
        want = rank_parameters(plan, 3, 1, tp, False)
        for rank in range(tp):
            shards = sharding.cut_weights(weights, heads, kv, rank, tp)
            assert sum(shard.numel() for shard in shards.values()) == want


class TestToy:
    def test_it_is_the_one_that_the_lab_trains(self):
        assert tiny.config_of(PLANS[0].layout, TOY).model == replace(training.MODEL, d_ff=256)
        assert GPT(training.MODEL).embedding.tokens.num_embeddings == TOY.vocab

    def test_the_configuration_is_the_plan(self):
        config = tiny.config_of(Layout(2, 2, 1, 2, mbs=2, batch=16, zero=2), TOY)
        assert (config.micro_batches, config.rows, config.zero) == (4, 2, 2)
        assert config.dtype == torch.float32


@pytest.fixture(scope="module")
def run() -> ranks.Run:
    """All plans, one after the other, on 8 ranks."""
    configs = [tiny.config_of(plan.layout, plan.model) for plan in PLANS]
    clocked = [tiny.timed(tiny.config_of(CLOCKED.layout, TOY))]
    return ranks.launch(accounted.on_rank, 8, args=(configs, PARTS, clocked), limit=500)


def measured(run: ranks.Run, number: int) -> tiny.Measured:
    """Without the bubble, which one plan of its own has."""
    config = tiny.config_of(PLANS[number].layout, PLANS[number].model)
    return replace(tiny.taken(config, run, number), bubble=None)


def bubble(share: float) -> list[tiny.Row]:
    """The row of a bubble of that share."""
    empty = tiny.Measured([0] * 8, [0] * 8, [0] * 8, [0] * 8, dict(dp=0, pp=0, tp=0), share)
    return [row for row in tiny.compare(CLOCKED, empty) if "bubble" in row.what]


def simulated() -> float:
    """The bubble of the programs that the ranks follow, on devices that nothing disturbs."""
    job = tiny.timed(tiny.config_of(CLOCKED.layout, TOY))
    ran = programs.simulate(job.programs(PARTS["one_f_one_b_order"]))
    wall = programs.end(ran)
    return tiny.bubble_of([[dict(wall=wall, spans=[tuple(s) for s in spans])] for spans in ran])


def wrong(number: int, run: ranks.Run) -> set[str]:
    """What of a plan does not agree: first words of the rows."""
    rows = tiny.compare(PLANS[number], measured(run, number))
    return {row.what.split(",")[0] for row in rows if not row.ok}


@pytest.mark.ranks
class TestOnRanks:
    @pytest.mark.parametrize("number", range(len(PLANS)), ids=NAMES)
    def test_every_row_agrees(self, number, run):
        """Parameters, state and bytes sent exactly; the peak of the worst stage within 2 %."""
        assert wrong(number, run) == set()

    @pytest.mark.parametrize("number", range(len(PLANS)), ids=NAMES)
    def test_every_stage_of_every_rank(self, number, run):
        """Not the worst alone. A rank whose account did not close may tell too much, by what is
        left: gloo's thread let go of it unseen."""
        plan, seen = PLANS[number], measured(run, number)
        mesh = tiny.config_of(plan.layout, plan.model).layout
        stages = all_stages(plan.model, plan.layout, COURSE)
        for rank in range(mesh.ranks):
            stage = stages[mesh.coordinate(rank)["pp"]]
            assert seen.state[rank] == stage.state
            assert seen.peak[rank] - seen.left[rank] <= 1.02 * stage.total
            assert seen.peak[rank] >= 0.98 * stage.total

    def test_the_bubble_on_device_clocks(self, run):
        """No less than the formula has, whatever else the machine does: that only adds to it."""
        share = tiny.bubble_of([value["clock"][0] for value in run.values])
        (row,) = bubble(share)
        assert row.predicted == 3 / 7 and row.apart > -0.02 and row.clock

    def test_each_rank_did_on_its_clock_what_its_program_says(self, run):
        job = tiny.timed(tiny.config_of(CLOCKED.layout, TOY))
        for rank, program in enumerate(job.programs(PARTS["one_f_one_b_order"])):
            wanted = [act.label for act in program if act.what == programs.COMPUTE]
            for one in run.values[rank]["clock"][0]:
                assert [label for axis, label, *_ in one["spans"] if not axis] == wanted

    def test_what_a_row_says(self, run):
        rows = tiny.compare(PLANS[0], measured(run, 0))
        assert [row.what.split(",")[0] for row in rows] == [
            "parameters of a rank", "parameters of a rank", "state at rest", "peak of a step",
            "sent in a step along dp", "sent in a step along pp", "sent in a step along tp",
        ]  # fmt: skip
        peak = rows[3]
        assert str(peak).count(f"{peak.measured:,.0f}") == 1 and "ok" in str(peak)
        assert peak.measured != peak.predicted  # measured, not the formula once more


def _norms_cut(model, pp, stage, tp, ends, real=rank_parameters):
    """LayerNorms divided by tp."""
    norms = 4 * model.d * model.layers // pp
    return real(model, pp, stage, tp, ends) - norms + norms // tp


def _halved(axis: str, real=formulas.step_traffic):
    """Half of the payload along one axis is forgotten."""

    def wrong(*words):
        return [
            replace(one, payload=one.payload // (2 if one.axis == axis else 1))
            for one in real(*words)
        ]

    return wrong


def _everything_kept(self, i, grad, real=eager_passes.Passes.backward):
    """Every stage stores as many micro-batches as the first: nothing is let go of before."""
    self.account.make(self.S * 14 * self.layers)
    return real(self, i, grad)


MUTANTS = {
    "norms are cut by tp": (
        memory, "rank_parameters", _norms_cut, "parameters of a rank"),
    "ZeRO-1 shares nothing": (
        formulas, "state_on_rank",
        lambda p, n, zero, each, real=formulas.state_on_rank: real(p, n, 0, each),
        "state at rest"),
    "nothing is let go of in the backward pass": (
        eager_passes.Passes, "backward", _everything_kept, "peak of a step"),
    "dp sends once, not twice": (formulas, "step_traffic", _halved("dp"),
        "sent in a step along dp"),
    "pp sends forward alone": (formulas, "step_traffic", _halved("pp"),
        "sent in a step along pp"),
    "tp sends in the forward pass alone": (formulas, "step_traffic", _halved("tp"),
        "sent in a step along tp"),
}  # fmt: skip


@pytest.mark.ranks
class TestMutants:
    @pytest.mark.parametrize("name", MUTANTS)
    def test_its_row_fails(self, name, run, monkeypatch):
        where, what, mutant, row = MUTANTS[name]
        monkeypatch.setattr(where, what, mutant)
        assert row in wrong(0, run)

    @pytest.mark.parametrize(
        ("number", "what", "mutant"),
        [
            ("dp=2 pp=2 tp=1 mbs=2 zero=3", "gather", lambda self, part: None),
            ("dp=1 pp=1 tp=4 mbs=2 zero=1", "normed",
             lambda self, kept, name, kind="kept": kept.update(
                 {name: self.make(0), name + " stats": self.make(0)})),
            ("dp=1 pp=4 tp=1 mbs=2 zero=1", "block",
             lambda self, kept, k, x, real=eager_passes.Passes.block: (
                 y := real(self, kept, k, x), self.drop(kept[f"{k} up"]))[0]),
        ],
    )  # fmt: skip
    def test_a_term_that_is_forgotten_moves_the_peak(self, number, what, mutant, run, monkeypatch):
        """Gathered weights, what norms hand on, GELU's input."""
        at = NAMES.index(number)
        assert "peak of a step" not in wrong(at, run)
        monkeypatch.setattr(eager_passes.Passes, what, mutant)
        assert "peak of a step" in wrong(at, run)


class TestBubble:
    def test_the_ranks_programs_have_the_formulas(self):
        (row,) = bubble(simulated())
        assert row.predicted == 3 / 7 and row.measured == pytest.approx(3 / 7) and row.ok

    @pytest.mark.parametrize(
        "mutant", [lambda p, m: (p - 1) / m, lambda p, m: p / (m + p), lambda p, m: 1 / (m + 1)]
    )
    def test_wrong_bubbles_fail(self, mutant, monkeypatch):
        """Over m instead of m + p - 1; p stages' worth of it; one stage's."""
        monkeypatch.setattr(formulas, "bubble_share", mutant)
        assert not bubble(simulated())[0].ok


class TestEager:
    def test_worst_stage_is_the_worst_of_all(self):
        for plan in PLANS:
            totals = [one.total for one in all_stages(plan.model, plan.layout, COURSE)]
            assert worst_stage(plan.model, plan.layout, COURSE).total == max(totals)

    def test_programs_are_1f1b(self):
        assert eager.programs(2, 2) == [
            [("F", 0), ("SF", 0), ("F", 1), ("SF", 1), ("RB", 0), ("B", 0), ("RB", 1), ("B", 1)],
            [("RF", 0), ("F", 0), ("B", 0), ("SB", 0), ("RF", 1), ("F", 1), ("B", 1), ("SB", 1)],
        ]

    def test_units_are_those_of_the_formulas(self):
        for tied in (False, True):
            model = replace(TOY, tied=tied)
            for pp, stage, tp in ((1, 0, 2), (2, 0, 4), (2, 1, 1), (4, 2, 2)):
                wanted = formulas.stage_units(model.decoder, pp, stage, tp)
                got = eager.parameters(model, pp, stage, tp)
                assert [sum(unit) for unit in got] == [unit.parameters for unit in wanted]

    def test_pieces_of_a_share(self):
        assert eager.largest_piece([4, 10, 2], 1) == 10
        assert eager.largest_piece([4, 10, 2], 2) == 6
        assert eager.largest_piece([3], 4) == 1

    @pytest.mark.parametrize(
        ("layout", "model", "told"),
        [
            (dict(cp=2), {}, "cp = 2"), (dict(recompute="full"), {}, "recompute = full"),
            (dict(tp=2, sp=True), {}, "sp = True"), ({}, dict(gated=True), "gated = True"),
            ({}, dict(dropout=True), "dropout = True"), ({}, dict(kv_heads=1), "KV heads = 1"),
        ],
    )  # fmt: skip
    def test_what_the_lab_does_not_train_is_refused(self, layout, model, told):
        with pytest.raises(ValueError, match=f"toy GPT .*{told} was asked for"):
            eager.peak(replace(TOY, **model), Layout(**layout), 0, 4)

    def test_a_search_is_refused(self):
        from labs.planner.cluster import Cluster

        with pytest.raises(ValueError, match="a layout at a time"):
            search(TOY, Cluster(1), 1, COURSE)
