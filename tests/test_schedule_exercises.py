"""The exercises of notebooks 02 and 03: answers and other right ways pass, wrong ones are named."""

from __future__ import annotations

import importlib

import pytest

from labs.exercise import FAILED, PASSED, exercises, judged
from tests.mutants.pipeline import MUTANTS, RIGHT, Wrong, source

NAMES = {**exercises("bubble_math"), **exercises("one_f_one_b")}


@pytest.mark.ranks
@pytest.mark.parametrize("name", NAMES)
def test_answer_passes(name: str) -> None:
    answers = importlib.import_module(f"solutions.{NAMES[name].topic}")
    card = judged(getattr(answers, name))
    assert card.ok, card
    assert {v.name for v in card.verdicts} == set(NAMES[name].properties)


@pytest.mark.ranks
@pytest.mark.parametrize("way", RIGHT)
def test_other_right_ways_pass(way: str) -> None:
    card = judged(source(*RIGHT[way]))
    assert card.ok, card


@pytest.mark.ranks
@pytest.mark.parametrize("wrong", MUTANTS, ids=lambda w: f"{w.exercise}-{w.name}")
def test_wrong_answers_fail_and_are_named(wrong: Wrong) -> None:
    card = judged(source(wrong.exercise, wrong.text))
    failed = {v.name for v in card.verdicts if v.state == FAILED}
    told = repr(card).lower()
    assert not card.ok and set(wrong.fails) <= failed, card
    assert all(word.lower() in told for word in wrong.hint), card
    assert {v.name for v in card.verdicts if v.state == PASSED} >= set(wrong.holds), card


@pytest.mark.parametrize("name", NAMES)
def test_each_exercise_has_mutants_and_hints(name: str) -> None:
    assert len([wrong for wrong in MUTANTS if wrong.exercise == name]) >= 2
    assert len(NAMES[name].hints) >= 2
