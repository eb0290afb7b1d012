"""The exercises of notebook 06: answers and other right ways pass, wrong ones are named."""

from __future__ import annotations

import pytest

import solutions.planner_widget as answers
from labs import formulas
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
