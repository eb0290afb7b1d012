"""The attacks' files: each says what it tries and what must come of it, in words that are known."""

from __future__ import annotations

import ast

import pytest

from labs.exercise import exercises
from labs.grading.records import GRADER_ERROR, PASS, STATES
from tests import attacks


def test_there_are_many() -> None:
    every = attacks.every()
    assert len(every) >= 70
    assert len({attack.tries for attack in every}) == len(every)
    assert len({attack.exercise for attack in every}) >= 6


@pytest.mark.parametrize("attack", attacks.every(), ids=lambda attack: attack.name)
def test_its_head(attack: attacks.Attack) -> None:
    exercise = exercises()[attack.exercise]
    assert set(attack.states) <= set(STATES) - {GRADER_ERROR}
    assert set(attack.zero) <= {"all", "none", *exercise.properties}
    if attack.zero == ("none",):  # it looks or does harm, and answers rightly: no more than that
        assert PASS in attack.states
    else:
        assert PASS not in attack.states


@pytest.mark.parametrize("attack", attacks.every(), ids=lambda attack: attack.name)
def test_it_is_handed_in_whole(attack: attacks.Attack) -> None:
    text = attack.source(dict(PORT=1, ABSTRACT="a", CANARY="c", FOLDER="/nowhere", JUDGE=1))
    assert "tests.attacks" not in text
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert names[-1] == attack.exercise
