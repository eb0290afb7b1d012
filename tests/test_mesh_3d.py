"""Notebook 05's lab: every layout against one device, and what such a check is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from labs import answers, ranks
from labs import mesh_3d as lab
from labs.answers import Missing
from labs.equality import Gap
from labs.gpt import GPT
from labs.mesh.assembly import Run, assemble, pack, places, unpack, whole_part
from labs.mesh.config import Config
from labs.mesh.held import Held, cut, label
from labs.mesh.layout import Layout
from labs.mesh_3d import jobs, parity, signature, verdicts
from labs.mesh_3d.parity import COPIES, GRADIENTS, LOSS, WEIGHTS, Compared
from tests import mesh_lets_go_on_ranks
from tests.mesh_parts import PARTS

STEPS = dict(steps=3, status=False)


@pytest.fixture(scope="module")
def result():
    return lab.run(8, only=(lab.ONE, lab.GRID), **STEPS)


def failing(result) -> str:
    return "\n".join(map(str, (check for check in result.checks if not check.ok)))


@pytest.mark.ranks
class TestRun:
    def test_every_check_holds(self, result):
        assert failing(result) == "" and result.notes == []
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names)) > 100

    def test_what_was_held_against_one_device(self, result):
        """Six layouts under every stage of ZeRO, tied and untied; others, and what comes on top."""
        held = result.values[lab.GRID]
        every = {(one.config.layout, one.config.zero, one.config.reshard, one.config.model.tied)
                 for one in held}  # fmt: skip
        for layout in jobs.LAYOUTS:
            ways = {told[1:] for told in every if told[0] == layout}
            stages = jobs.WAYS if layout.dp > 1 else ((1, True), (3, True))
            assert ways >= {(*stage, tied) for stage in stages for tied in (False, True)}
        longest = {layout for layout, *_ in every if 4 in layout.sizes.values()}
        assert {axis for at in longest for axis, n in at.sizes.items() if n == 4} == {
            "dp", "pp", "tp",
        }  # fmt: skip
        assert {one.config.dtype for one in held} == {torch.float64, torch.float32}
        assert all(one.config.clip == jobs.CLIP for one in held)
        assert any(one.config.sequence_parallel for one in held)
        assert any(one.config.layout.cp == 2 for one in held)
        assert any(one.config.dropout for one in held)
        assert any(one.config.overlap for one in held)

    def test_each_was_clipped(self, result):
        """A norm below the largest that is let through would leave clipping untried."""
        for one in result.values[lab.GRID]:
            assert min(parity.reference(one.config, 3).norms) > 4 * jobs.CLIP

    def test_weights_are_compared_in_fp64_alone(self, result):
        for one in result.values[lab.GRID]:
            exact = one.config.dtype == torch.float64
            assert (one.gap(WEIGHTS) is not None) == exact
            assert one.gap(GRADIENTS).ok and one.copies == Gap(one.copies.name, 0.0, 0.0)

    def test_the_whole_model_is_there(self, result):
        """No parameter is left out of a comparison: the names are those of the plain model."""
        (one,) = result.values[lab.ONE]
        told = [value[0] for value in result.run.values]
        names = {run.held.name for each in told for run in unpack(each["weights"])}
        assert names == {name for name, _ in GPT(one.config.model).named_parameters()}

    def test_messages_are_on_the_timeline(self, result):
        """Of the one configuration, on each rank and axis."""
        section = result.values[lab.ONE][0].config.name
        axes = {(event["rank"], event["axis"]) for event in result.timeline}
        assert axes >= {(rank, axis) for rank in range(8) for axis in ("dp", "pp", "tp")}
        assert {event["section"] for event in result.timeline} == {section}


@pytest.mark.ranks
class TestFewerRanks:
    def test_two_ranks(self, monkeypatch):
        """What fits is run; the layout that was taken is said."""
        monkeypatch.setattr(jobs, "WAYS", ((3, True),))
        two = lab.run(2, only=(lab.ONE, lab.GRID), **STEPS)
        assert failing(two) == ""
        assert two.notes == ["2 ranks: dp=2 pp=1 tp=1 (run(layout=...) sets another)"]
        layouts = {one.config.layout for one in two.values[lab.GRID]}
        assert layouts == {Layout(), Layout(dp=2), Layout(pp=2), Layout(tp=2)}

    def test_three_ranks(self):
        three = lab.run(3, **dict(STEPS, steps=None))
        assert failing(three) == "" and three.notes[0].startswith("3 ranks: dp=3 pp=1 tp=1")
        assert three.values[lab.ONE][0].config.batch == 12

    def test_a_layout_that_was_asked_for(self):
        asked = lab.run(2, layout=(1, 2, 1), only=lab.ONE, zero=0, tied=True, **STEPS)
        assert failing(asked) == "" and asked.notes == []
        assert asked.values[lab.ONE][0].config.name == "dp=1 pp=2 tp=1, ZeRO-0, tied"

    def test_one_rank(self):
        assert failing(lab.run(1, only=lab.ONE, **STEPS)) == ""


@pytest.mark.ranks
def test_what_a_configuration_took_is_let_go():
    """Trainers and groups: none is left when the next configuration begins."""
    todo = [
        jobs.config(Layout(dp=2), zero, tied, reshard)
        for zero, reshard in jobs.WAYS for tied in (False, True)
    ]  # fmt: skip
    todo += [jobs.config(Layout(pp=2), 3)]
    run = ranks.launch(mesh_lets_go_on_ranks.left, 2, args=(todo, PARTS), status=False)
    for told in run.values:
        assert told["trainers"] == 0
        assert told["groups"][1] == told["groups"][0]


@pytest.mark.ranks
def test_a_function_of_ones_own_is_run():
    from tests.mesh_mutants_on_ranks import counts_replicas

    wrong = lab.run(2, layout=(1, 1, 2), only=lab.ONE, global_grad_norm=counts_replicas, **STEPS)
    assert "norm of every step" in failing(wrong)


@pytest.mark.ranks
def test_by_hand_with_plain_torchrun(capsys):
    ranks.torchrun("labs.mesh_3d", ranks=2, lines=3)
    told = capsys.readouterr().out
    assert "mesh_3d: 10 of 10 checks ok" in told, told


class TestOnPaper:
    def test_the_evenest_layout(self):
        told = {n: str(jobs.default(n)) for n in (1, 2, 4, 6, 7, 8)}
        assert told == {
            1: "dp=1 pp=1 tp=1", 2: "dp=2 pp=1 tp=1", 4: "dp=2 pp=2 tp=1", 6: "dp=3 pp=2 tp=1",
            7: "dp=7 pp=1 tp=1", 8: "dp=2 pp=2 tp=2",
        }  # fmt: skip

    def test_the_grid_has_one_name_each(self):
        for n in (1, 2, 3, 4, 6, 8):
            names = [config.name for config in jobs.grid(n)]
            assert len(names) == len(set(names))
            assert all(config.layout.ranks <= n for config in jobs.grid(n))

    def test_the_command(self):
        assert lab.command() == "torchrun --nproc-per-node 8 -m labs.mesh_3d"

    def test_without_answers_it_says_so(self, monkeypatch):
        def missing(name, mine=None):
            raise Missing(f"{name} is missing")

        monkeypatch.setattr(answers, "reference", missing)
        assert lab.run(8).notes == ["tp_linear_pair.copy_to_ranks is missing"]


def whole(name: str = "w", shape: tuple[int, ...] = (4, 3), copies: int = 1) -> Held:
    return Held(name, shape, 0, ((0, shape[0]),), copies)


class TestAssembly:
    """Whole tensors from pieces: nothing missing, nothing twice, copies alike."""

    def test_parts_of_a_model(self):
        """Cut along either dimension, in runs, with padding; back through a report."""
        model = label(GPT(Config().model))
        told = []
        for name, parameter in model.named_parameters():
            size = parameter.shape[-1] if parameter.dim() == 2 else parameter.shape[0]
            dim, half = parameter.dim() - 1, -(-size // 2)
            for first in (0, half):
                part = cut(parameter, dim, [(first, first + half)])
                assert part.held.name == name
                numbers = part.detach().flatten()
                third = len(numbers) // 3
                told += [Run(part.held, at, numbers[at : at + third])
                         for at in range(0, len(numbers), third)]  # fmt: skip
        found = assemble(unpack(pack(told)))
        assert (found.missing, found.miscounted, found.padding) == ([], [], 0.0)
        for name, parameter in model.named_parameters():
            assert torch.equal(found.tensors[name], parameter.detach())

    def test_places_of_padding(self):
        held = Held("w", (3, 2), 0, ((2, 4),))
        assert places(held).tolist() == [4, 5, -1, -1]
        assert places(Held("w", (2, 3), 1, ((0, 1), (2, 3)))).tolist() == [0, 2, 3, 5]

    def test_what_is_missing(self):
        one = Run(whole(), 0, torch.ones(11))
        assert assemble([one]).missing == ["w"]
        assert assemble([one, Run(whole(), 11, torch.ones(1))]).missing == []

    def test_what_is_held_twice(self):
        one = whole_part(whole(), torch.ones(4, 3))
        assert assemble([one, one]).miscounted == ["w"]
        assert assemble([one, one], copies=2).miscounted == []
        two = whole_part(whole(copies=2), torch.ones(4, 3))
        assert assemble([two, two]).miscounted == []
        assert assemble([two]).miscounted == ["w"]
        assert assemble([one, two]).miscounted == ["w"]

    @pytest.mark.parametrize("off", [1e-16, torch.nan, torch.inf])
    def test_copies_that_are_apart(self, off):
        values = torch.zeros(12, dtype=torch.float64)
        other = values.clone()
        other[5] = off
        told = assemble([Run(whole(), 0, values), Run(whole(), 0, other)], copies=2)
        assert told.worst == ("w", off if off == 1e-16 else torch.inf)

    def test_padding_that_is_not_zero(self):
        held = Held("w", (3, 2), 0, ((2, 4),))
        assert assemble([Run(held, 0, torch.tensor([1.0, 1, 0, 0]))]).padding == 0.0
        assert assemble([Run(held, 0, torch.tensor([1.0, 1, 0, -2]))]).padding == 2.0

    def test_nothing(self):
        assert assemble([]).tensors == {} and unpack(pack([])) == []


class TestSignature:
    GOT = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[0.0], [4.0]])}

    def times(self, k: float) -> dict[str, torch.Tensor]:
        return {name: k * tensor for name, tensor in self.GOT.items()}

    def test_the_factor(self):
        assert signature.factor(self.times(4), self.GOT) == pytest.approx(4)
        assert signature.factor({**self.times(4), "a": self.GOT["a"]}, self.GOT) is None
        assert signature.factor({"a": self.GOT["a"]}, self.GOT) is None

    def test_the_axis(self):
        told = signature.told(Layout(dp=4, tp=2), 0.25, 1.0)
        assert len(told) == 1 and told[0].startswith("every gradient is off by exactly 1/dp = 1/4")
        assert signature.told(Layout(dp=4, tp=2), 3.0, 1.0) == ()
        assert signature.told(Layout(dp=4, tp=2), 1.0, 1.0) == ()
        told = signature.told(Layout(dp=2, pp=2), None, 2.0)
        assert told == ("the loss is off by exactly dp = pp = 2",)


class TestVerdicts:
    """What the checks make of numbers that a mesh could have given."""

    def one(self, config: Config | None = None, loss: float = 5.0, **more) -> Compared:
        gaps = more.pop("gaps", (Gap(LOSS, 0.0, 1e-12),))
        told = dict(copies=Gap("weights: w", 0.0, 0.0), counted="", samples="") | more
        return Compared(config or Config(), gaps, first_loss=loss, **told)

    def failing(self, *held: Compared) -> list[str]:
        return [check.name for check in verdicts.checks(held) if not check.ok]

    def test_the_worst_of_many_is_shown(self):
        bad = self.one(Config(zero=3), gaps=(Gap(f"{GRADIENTS}: w", 2e-12, 1e-12),))
        good = self.one(gaps=(Gap(f"{GRADIENTS}: v", 1e-9, 1e-8),))
        (name,) = self.failing(good, bad)
        assert name == "dp=2 pp=2 tp=2, fp64: 2 × gradients (worst: ZeRO-3; w)"

    def test_no_number_is_the_worst(self):
        bad = self.one(Config(zero=3), gaps=(Gap(f"{GRADIENTS}: w", float("nan"), 1e-12),))
        good = self.one(gaps=(Gap(f"{GRADIENTS}: v", 1e-13, 1e-12),))
        for held in ((good, bad), (bad, good)):
            (name,) = self.failing(*held)
            assert "ZeRO-3; w" in name

    def test_one_bit_of_a_copy(self):
        (name,) = self.failing(self.one(copies=Gap("weights: w", 1e-300, 0.0)))
        assert COPIES in name and "weights: w" in name

    def test_what_is_missing_and_samples(self):
        (first, second) = self.failing(self.one(counted="nobody holds w", samples="other tokens"))
        assert "counted" in first and "samples" in second

    def test_first_losses(self):
        layouts = [Config(Layout(dp=2)), Config(Layout(tp=2))]
        same = [self.one(config, 5.5) for config in layouts]
        assert verdicts.first_losses(same, "grid").ok
        other = [same[0], self.one(layouts[1], 5.5 + 1e-10)]
        told = verdicts.first_losses(other, "grid")
        assert not told.ok and "2 layouts, seed 0" in told.name
        tied = replace(Config().model, tied=True)
        apart = [same[0], self.one(replace(layouts[1], model=tied), 6.0)]
        assert verdicts.first_losses(apart, "grid").ok  # another model

    def test_groups(self):
        layout = Layout(dp=2, pp=2, tp=2)
        mine = {axis: layout.groups(axis) for axis in ("dp", "pp", "tp")}
        told = [
            {"groups": {axis: next(g for g in of if rank in g) for axis, of in mine.items()}}
            for rank in range(8)
        ]
        assert all(check.ok for check in verdicts.groups(layout, told))
        told[0]["groups"]["tp"] = [0, 4]
        assert [c.name for c in verdicts.groups(layout, told) if not c.ok] == [
            "dp=2 pp=2 tp=2: tp groups"
        ]
