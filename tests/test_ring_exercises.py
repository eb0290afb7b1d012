"""The exercises of notebook 04: answers and other right ways pass, wrong ones are named."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import solutions.ring_attention as answers
from labs.exercise import FAILED, PASSED, exercises, judged
from labs.ring_attention.judging import hints_broken
from tests import ring_batches
from tests.mutants.ring import MUTANTS, RIGHT, source
from tests.mutants.ring.wrong import Wrong

NAMES = exercises("ring_attention")
OWN = [name for name in NAMES if name != "sequence_scatter_gather"]  # it has a test of its own


@pytest.mark.ranks
@pytest.mark.parametrize("name", OWN)
def test_answer_passes(name: str) -> None:
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
    if wrong.breaks:
        card = judged(source(wrong.exercise, wrong.text))
    else:
        card = ring_batches.cards(wrong.exercise)[wrong.name]
    failed = {v.name for v in card.verdicts if v.state == FAILED}
    told = repr(card).lower()
    assert not card.ok and set(wrong.fails) <= failed, card
    assert all(word.lower() in told for word in wrong.hint), card
    assert {v.name for v in card.verdicts if v.state == PASSED} >= set(wrong.holds), card
    assert "the limit of" not in told, card  # a deadlock is told long before the limit


@pytest.mark.parametrize("name", OWN)
def test_each_exercise_has_mutants_and_hints(name: str) -> None:
    assert len([wrong for wrong in MUTANTS if wrong.exercise == name]) >= 5
    assert len(NAMES[name].hints) >= 2


def test_a_handle_that_is_waited_for_twice_is_named() -> None:
    """On gloo the second wait never ends, and the limit of the run ends it."""

    class Failed(RuntimeError):
        run = SimpleNamespace(diagnosis=SimpleNamespace(kind="limit", cycle=[]), kept=[])

    told = Failed("the limit of 20 s was reached\n  ranks 0–3 wait for a call that was waited for "
                  "before, or that has a time limit of its own")  # fmt: skip
    assert "waited for twice" in hints_broken.of_failure(told, None)
    assert "busy" in hints_broken.of_failure(Failed("the limit of 20 s was reached"), None)
