"""`labs hint`: the ladder in a terminal, one rung a call."""

from __future__ import annotations

import pytest

from labs import topics
from labs.exercise import exercises
from tests.test_cli import TOPIC, labs, refused


@pytest.mark.parametrize("name", exercises())
def test_every_rung(name: str) -> None:
    """Each says how to get the next one; the last, where the answer is."""
    one = exercises()[name]
    command = ["hint", name]
    for number, text in enumerate(one.hints, 1):
        told = labs(*command)
        assert told.exit_code == 0
        rung, more = told.output.splitlines()
        assert rung == f"hint {number} of {len(one.hints)}: {text}"
        command = more.partition("labs ")[2].split()
    assert more.endswith(f"the answer is in solutions/{one.topic}.py")


def test_nothing_is_remembered() -> None:
    assert labs("hint", "row_parallel").output == labs("hint", "row_parallel").output


def test_named_as_check_names_it() -> None:
    told = labs("hint", f"{TOPIC}:row_parallel", "2").output
    assert told == labs("hint", "row_parallel", "2").output and told.startswith("hint 2 of")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["row_paralel"], ["no exercise 'row_paralel'", "did you mean row_parallel"]),
        ([""], ["no exercise ''"]),
        (["row_parallel", "0"], ["row_parallel has hints 1 to 3; hint 0 was asked for"]),
        (["row_parallel", "4"], ["row_parallel has hints 1 to 3; hint 4 was asked for"]),
        (["row_parallel", "two"], ["'two' is not a valid integer"]),
        ([], ["name the exercise", "`labs hint row_parallel`", *topics.TOPICS]),
    ],
)
def test_bad_input(arguments: list[str], words: list[str]) -> None:
    refused(labs("hint", *arguments), *words)


def test_the_sentence_without_an_argument_is_one() -> None:
    assert len(labs("hint").stderr.splitlines()) == 1
