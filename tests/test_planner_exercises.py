"""The exercises of notebook 06: answers and other right ways pass, wrong ones are named."""

from __future__ import annotations

import pytest

import solutions.planner_widget as answers
from labs.exercise import FAILED, NOT_REACHED, PASSED, Card, judged
from labs.planner.lesson import FIXED_M, story_b, story_c, where_c_ends
from labs.planner_widget.exercises import EXERCISES
from labs.planner_widget.judging import best, colour, state, tables, valid
from tests import alone
from tests.mutants.pipeline.wrong import source
from tests.mutants.planner import MUTANTS, RIGHT
from tests.mutants.ring.wrong import Wrong

SEEDS = (alone.SEED, 3)


def _ids(wrong: Wrong) -> str:
    return f"{wrong.exercise}-{wrong.name}"


def _card(name: str, text: str, patch: pytest.MonkeyPatch, seed: int) -> Card:
    return alone.in_process(EXERCISES[name], alone.function(source(name, text)), patch, seed)


def _named(wrong: Wrong, card: Card) -> None:
    """It fails where it is wrong, holds where it is right, and the card says what is off."""
    failed = {v.name for v in card.verdicts if v.state == FAILED}
    told = repr(card).lower()
    assert not card.ok and set(wrong.fails) <= failed, card
    assert wrong.breaks or any(v.hint for v in card.verdicts if v.state == FAILED), card
    assert all(word.lower() in told for word in wrong.hint), card
    assert {v.name for v in card.verdicts if v.state == PASSED} >= set(wrong.holds), card


@pytest.mark.ranks
@pytest.mark.parametrize("name", EXERCISES)
def test_answer_passes_on_a_rank_of_its_own(name: str) -> None:
    card = judged(getattr(answers, name))
    assert card.ok, card
    assert [v.name for v in card.verdicts] == list(EXERCISES[name].properties)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", EXERCISES)
def test_answer_passes(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    card = _card(name, "", monkeypatch, seed)
    assert card.ok, card


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("way", RIGHT)
def test_other_right_ways_pass(way: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    card = _card(*RIGHT[way], monkeypatch, seed)
    assert card.ok, card


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wrong", MUTANTS, ids=_ids)
def test_wrong_answers_fail_and_are_named(
    wrong: Wrong, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = _card(wrong.exercise, wrong.text, monkeypatch, seed)
    _named(wrong, card)
    if wrong.breaks:
        assert all(v.state == NOT_REACHED for v in card.verdicts[1:])


@pytest.mark.parametrize("name", EXERCISES)
def test_each_exercise_has_mutants_ways_and_hints(name: str) -> None:
    assert len([wrong for wrong in MUTANTS if wrong.exercise == name]) >= 6
    assert len([way for way, _ in RIGHT.values() if way == name]) >= 3
    assert len(EXERCISES[name].hints) >= 3


class TestJudgesAgreeWithTheCourse:
    """What the judges count out, and what the planner's own stories say, is the same."""

    @pytest.mark.parametrize("seed", range(6))
    def test_prove_b_is_story_b(self, seed: int) -> None:
        for _, (n, gpus, tp, m, batch) in tables.asked_b(seed):
            told = story_b(gpus, tp, n, 10**6, tp, batch)
            rows = tables.table_b(n, gpus, tp, FIXED_M, batch)
            assert rows == [
                dict(dp=one.ask.dp, pp=one.ask.pp, state=one.state, bubble_fixed=one.bubble,
                     bubble_batch=one.bubble_batch)
                for one in told
            ]  # fmt: skip
            assert len({row["state"] for row in rows}) == 1
            assert answers.prove_b(n, gpus, tp, m, batch) == tables.table_b(n, gpus, tp, m, batch)

    @pytest.mark.parametrize("seed", range(6))
    def test_prove_c_is_story_c_up_to_its_end(self, seed: int) -> None:
        for _, (gpus, tp, layers, batch, mbs) in tables.asked_c(seed):
            told = story_c(gpus, tp, 1e9, layers, tp, batch, mbs)
            can = [one for one in told if one.m is not None]
            rows, word = tables.table_c(gpus, tp, layers, batch, mbs)
            assert rows == [
                dict(dp=one.ask.dp, pp=one.ask.pp, m=one.m, bubble=one.bubble_batch) for one in can
            ]  # fmt: skip
            assert word == ("pp = 1" if len(can) == len(told) else "batch")
            if word == "batch":
                assert told[len(rows)].ask.dp * mbs > batch
            assert answers.prove_c(gpus, tp, layers, batch, mbs) == (rows, word)

    def test_the_end_of_c_is_told_by_where_c_ends(self) -> None:
        rows, word = tables.table_c(64, 8, 80, 4, 1)
        rest = story_c(64, 8, 70e9, 80, 8, 4, 1)[len(rows) :]
        end, told = where_c_ends(rest)
        assert word == "batch" and end is rest[0] and end.ask.dp == 2 * rows[-1]["dp"]
        assert "more than the batch 4" in told


class TestWhatTheJudgesAsk:
    @pytest.mark.parametrize("asked", [valid.asked_cases, colour.asked_cases, tables.asked_b,
                                       tables.asked_c, best.asked_cases, state.points])  # fmt: skip
    def test_cases_differ_from_seed_to_seed(self, asked) -> None:
        assert repr(asked(1)) == repr(asked(1)) and len({repr(asked(n)) for n in range(4)}) > 1

    @pytest.mark.parametrize("seed", range(4))
    def test_each_rule_alone_is_asked_for(self, seed: int) -> None:
        """A layout that cannot be for one reason only, for each rule that the docstring has."""
        against = [valid.against(*args) for _, args in valid.asked_cases(seed)]
        alone_ = {one[0] for one in against if len(one) == 1}
        for words in ("the cluster has", "query heads", "KV heads", "MLP of width", "layers do not",
                      "more than the global batch", "a global batch of"):  # fmt: skip
            assert any(words in one for one in alone_), words
        assert sum(not one for one in against) > 8

    @pytest.mark.parametrize("seed", range(4))
    def test_each_colour_is_asked_for_on_both_sides_of_its_edge(self, seed: int) -> None:
        cases = [args for _, args in colour.asked_cases(seed)]
        assert {colour.seen(*args).regime for args in cases} == {"red", "amber", "green"}
        bubbles = [seen.bubble_batch for seen in (colour.seen(*args) for args in cases)]
        assert 0.2 in bubbles and any(0.2 < one < 0.25 for one in bubbles)
        assert any(at["tp"] == n for n, at, _ in cases)
        for _, at, batch in cases:
            assert batch % (at["dp"] * at["mbs"]) == 0  # as the docstring promises

    @pytest.mark.parametrize("seed", range(8))
    def test_each_plan_that_is_given_can_be_and_fits(self, seed: int) -> None:
        cases = best.asked_cases(seed)
        beaten = 0
        for _, (_, memory, costs, given) in cases:
            seconds, held = costs(**given)
            assert held <= memory
            beaten += any(s < seconds and kept <= memory for _, s, kept in best.every(costs))
        assert 0 < beaten < len(cases)

    def test_the_costs_that_an_answer_gets_hold_no_search(self) -> None:
        costs = best.Costs(8, 8, "H100-80GB", 1.3e9, 24, 64)
        own = {name for name in dir(type(costs)) if not name.startswith("_")} - set(vars(costs))
        assert own == set()

    def test_the_costs_take_no_floats_for_degrees(self) -> None:
        """As a ValueError it would be caught with what cannot be, and every layout left out."""
        costs = best.Costs(8, 8, "H100-80GB", 1.3e9, 24, 64)
        with pytest.raises(TypeError, match="dp must be a whole number, got 2.0: // divides"):
            costs(2.0, 2, 2, 1)
        with pytest.raises(ValueError, match="16, and the cluster has 8 GPUs"):
            costs(4, 2, 2, 1)
