"""The exercises of notebook 05: answers and other right ways pass, wrong ones are named."""

from __future__ import annotations

import itertools

import pytest
import torch

import solutions.mesh_3d as answers
from labs.exercise import FAILED, NOT_REACHED, PASSED, Card
from labs.formulas.zero import state_bytes
from labs.mesh.layout import Layout
from labs.mesh_3d.exercises import EXERCISES
from labs.mesh_3d.judging import (
    coordinates,
    groups,
    held,
    hints_broken,
    judge_norm,
    nodes,
    norm,
    rounds,
    shards,
    state,
    step,
)  # fmt: skip
from labs.pipeline.partition import layer_counts
from labs.ranks import Diagnosis
from labs.ranks.ledger import Ledger
from labs.ranks.run import Run, RunFailed
from tests import mesh_batches
from tests.mutants.mesh import MUTANTS, RIGHT, source
from tests.mutants.ring.wrong import Wrong

MESHES = [*coordinates.named_meshes(3), *coordinates.other_meshes(3)]


def _ids(wrong: Wrong) -> str:
    return f"{wrong.exercise}-{wrong.name}"


def _waits(wrong: Wrong) -> bool:
    return wrong.breaks and wrong.exercise in mesh_batches.ON_FOUR


def _card(exercise: str, name: str, text: str, patch: pytest.MonkeyPatch) -> Card:
    if exercise in mesh_batches.ON_FOUR:
        return mesh_batches.launched(exercise)[name]
    return mesh_batches.in_process(exercise, text, patch)


def _named(wrong: Wrong, card: Card) -> None:
    """It fails where it is wrong, holds where it is right, and the card says what is off."""
    failed = {v.name for v in card.verdicts if v.state == FAILED}
    told = repr(card).lower()
    assert not card.ok and set(wrong.fails) <= failed, card
    assert wrong.breaks or any(v.hint for v in card.verdicts if v.state == FAILED), card
    assert all(word.lower() in told for word in wrong.hint), card
    assert {v.name for v in card.verdicts if v.state == PASSED} >= set(wrong.holds), card


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["shard_of", *mesh_batches.ON_FOUR])
def test_answer_passes_on_ranks_of_its_own(name: str) -> None:
    card = mesh_batches.own_launch(getattr(answers, name))
    assert card.ok, card
    assert [v.name for v in card.verdicts] == list(EXERCISES[name].properties)


@pytest.mark.parametrize("name", [name for name in EXERCISES if name not in mesh_batches.ON_FOUR])
def test_answer_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    card = mesh_batches.in_process(name, "", monkeypatch)
    assert card.ok, card
    assert [v.name for v in card.verdicts] == list(EXERCISES[name].properties)


@pytest.mark.ranks
@pytest.mark.parametrize("way", RIGHT)
def test_other_right_ways_pass(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exercise, text = RIGHT[way]
    card = _card(exercise, way, text, monkeypatch)
    assert card.ok, card


@pytest.mark.ranks
@pytest.mark.parametrize("wrong", [w for w in MUTANTS if not _waits(w)], ids=_ids)
def test_wrong_answers_fail_and_are_named(wrong: Wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    _named(wrong, _card(wrong.exercise, wrong.name, wrong.text, monkeypatch))


@pytest.mark.ranks
@pytest.mark.parametrize("wrong", [w for w in MUTANTS if _waits(w)], ids=_ids)
def test_answers_that_break_are_explained(wrong: Wrong) -> None:
    card = mesh_batches.own_launch(source(wrong.exercise, wrong.text))
    _named(wrong, card)
    assert all(v.state == NOT_REACHED for v in card.verdicts[1:])


@pytest.mark.ranks
def test_on_a_rank_of_its_own_a_wrong_answer_goes_before_what_broke() -> None:
    text = """
    def rank_to_coordinate(rank, sizes):
        pp, tp = sizes["pp"], sizes["tp"]
        return {"dp": rank // (pp * tp), "pp": rank // tp, "tp": rank % tp}
    """
    card = mesh_batches.own_launch(source("rank_to_coordinate", text))
    assert card.verdicts[0].state == FAILED, card
    assert "% size" in repr(card) and "KeyError" not in repr(card)


_EMPTY, _PAIRS = norm.norms(1)[-2], step.steps(1)[1]


@pytest.mark.parametrize(
    ("of", "at", "kind", "text", "words"),
    [
        ("step", _PAIRS, "", "Check failed: outputShape[0] * worldSize == inputShape[0] (4 vs. 8)",
         "dist.get_world_size(group)"),
        ("step", _PAIRS, "", "IndexError: tuple index out of range", "dist.get_rank(group)"),
        ("step", step.steps(1)[-1], "groups crossed", "deadlock", "update on every rank"),
        ("step", step.steps(1)[0], "left early", "deadlock", "one that has little to do as well"),
        ("step", step.steps(1)[0], "", "'NoneType' object has no attribute", "written yet"),
        ("step", None, "limit", "the limit of 20 s was reached", "busy"),
        ("norm", _EMPTY, "", "IndexError: list index out of range", "no first one to ask"),
        ("norm", _EMPTY, "", "stack expects a non-empty TensorList", "no gradients at all"),
        ("norm", norm.norms(1)[0], "", "TypeError: the function returned float, not a scalar "
         "tensor", ".item() and float()"),
        ("norm", norm.norms(1)[0], "", "TypeError: the function returned NoneType, not a scalar "
         "tensor", "without a `return`"),
        ("norm", norm.norms(1)[0], "other shape", "", "one number is all-reduced"),
        ("norm", None, "limit", "", "busy"),
    ],
)  # fmt: skip
def test_what_broke_is_named(
    of: str, at: rounds.Round | None, kind: str, text: str, words: str
) -> None:  # fmt: skip
    failed = RunFailed(Run(None, "warm", failure=text, diagnosis=Diagnosis(kind, "")))
    assert words in getattr(hints_broken, f"of_{of}")(failed, at)


def test_a_round_is_that_of_the_rank_that_raised_else_the_first() -> None:
    asked = norm.norms(1)
    kept = [{rounds.ROUND: number} for number in (3, 5, 4, 5)]
    for culprit, number in ((1, 5), (None, 3)):
        failed = RunFailed(Run(None, "warm", failure="", kept=kept, culprit=culprit))
        assert rounds.broken_at(failed, asked) is asked[number]
    assert rounds.broken_at(RunFailed(Run(None, "warm", failure="")), asked) is None


@pytest.mark.parametrize("name", EXERCISES)
def test_each_exercise_has_mutants_and_hints(name: str) -> None:
    assert len([wrong for wrong in MUTANTS if wrong.exercise == name]) >= 8
    assert name in {exercise for exercise, _ in RIGHT.values()}
    assert len(EXERCISES[name].hints) >= 3


class TestAnswersAgreeWithTheCourse:
    """What the judges count out, and what the labs themselves go by, is the same."""

    @pytest.mark.parametrize("sizes", MESHES, ids=str)
    def test_both_directions(self, sizes: dict[str, int]) -> None:
        for rank, at in enumerate(coordinates.places(sizes)):
            assert answers.rank_to_coordinate(rank, sizes) == at
            assert answers.coordinate_to_rank(at, sizes) == rank

    @pytest.mark.parametrize("layout", [Layout(2, 2, 1, 2), Layout(4, 2, 1, 8), Layout(1, 3, 2, 2)])
    def test_the_layout_of_the_labs(self, layout: Layout) -> None:
        for rank in range(layout.ranks):
            assert answers.rank_to_coordinate(rank, layout.sizes) == layout.coordinate(rank)
        for axis in layout.sizes:
            assert groups.groups(axis, layout.sizes) == layout.groups(axis)

    def test_sixty_four_ranks_on_nodes_of_eight(self) -> None:
        sizes = {"dp": 4, "pp": 2, "tp": 8}
        assert answers.place_on_nodes(sizes, 8) == {"dp": 4, "pp": 2, "tp": 1}
        slow = {"tp": 8, "dp": 4, "pp": 2}
        assert answers.place_on_nodes(slow, 8)["tp"] == 8
        assert nodes.on_nodes(sizes, 8)["tp"] == [1] * 8

    @pytest.mark.parametrize("seed", range(4))
    def test_every_number_is_held_once_over_tp(self, seed: int) -> None:
        for model, sizes in shards.models(seed):
            stages = shards.stage_of(model.layers, sizes["pp"])
            counts = [stages.count(stage) for stage in range(sizes["pp"])]
            assert counts == layer_counts(model.layers, sizes["pp"])
            for name, shape in shards.parameters(model).items():
                found = [
                    answers.shard_of(name, shape, model.layers, dict(pp=pp, tp=tp), sizes)
                    for pp, tp in itertools.product(range(sizes["pp"]), range(sizes["tp"]))
                ]
                told = [one for one in found if one is not None]
                assert len(told) == sizes["tp"]  # one stage has it
                held = [i for dim, runs in told for i in shards.numbers(runs) if i < shape[dim]]
                cut = name.endswith((*shards.COLUMN, *shards.ROW)) or name in shards.VOCAB
                copies = 1 if cut else sizes["tp"]
                assert sorted(held) == sorted([*range(shape[told[0][0]])] * copies), name

    def test_bytes_of_the_paper(self) -> None:
        """Rajbhandari et al., figure 1: 7.5e9 parameters on 64 ranks, 120, 31.4, 16.6, 1.9 GB."""
        told = [state_bytes(7_500_000_000, 64, zero) / 1e9 for zero in range(4)]
        assert [round(one, 1) for one in told] == [120.0, 31.4, 16.6, 1.9]
        for point in state.points(5):
            assert answers.state_bytes(*point) == pytest.approx(state_bytes(*point), rel=1e-15)


class TestWhatTheJudgesSee:
    def test_cases_differ_from_seed_to_seed(self) -> None:
        for asked in (coordinates.asked_places, coordinates.asked_ranks, groups.asked_groups,
                      nodes.asked_cases, shards.asked_shards, state.points):  # fmt: skip
            assert asked(1) == asked(1) and len({repr(asked(seed)) for seed in range(6)}) > 1

    def test_sections_of_rounds_differ(self) -> None:
        for make, *_ in mesh_batches.ON_FOUR.values():
            asked = make(2**31 - 1)
            assert len({one.section for one in asked}) == len(asked)
            sizes = {(one.groups, one.ranks) for one in asked}
            assert {groups_ for groups_, _ in sizes} >= {rounds.ALL, rounds.APART, rounds.ONE}

    def test_held_counts_what_lives_at_a_time_and_not_what_was_handed_in(self) -> None:
        given = torch.zeros(100, dtype=torch.float64)
        with held.Held([given]) as seen:
            view = given.view(10, 10)
            for _ in range(3):
                once = view + 1  # 800 bytes, and the old one until it is let go of
            with seen.paused():
                hidden = torch.zeros(10_000)
            also = once.clone()
        assert (seen.peak, seen.largest) == (1600, 800) and hidden.numel() and also.numel()

    def test_an_answer_without_a_group_is_called_without_one(self) -> None:
        assert rounds.arguments(1, 2, group=None) == (1, 2)

    def test_a_norm_without_any_message_is_seen(self) -> None:
        asked = norm.Norm("none sent", rounds.NEXT[:1], parts=(((1,), (0,)),))
        told = [[
            dict(norm=torch.tensor(norm.Reference(asked, 0).norm), after=dict(
                grads=[grad for grad, _ in held], holders=[times for _, times in held]))
            for held in (asked.given(0, member) for member in range(2))
        ]]  # fmt: skip
        seen = rounds.Seen(asked, told, Ledger())
        values, _, traffic = judge_norm.judged([seen])
        assert (values.state, traffic.state) == (PASSED, FAILED) and "adds them up" in traffic.hint
