"""`labs grade --regrade`, broken off: it goes on where it stopped, and ends as if undisturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labs.grading import gradebook, judge, regrade, session
from labs.grading.records import GRADER_ERROR, Grade
from tests import grading_run
from tests.grading_answers import notebook
from tests.grading_run import IMPORTS, NAMES, OTHER, RIGHT, Judge, book_of, grade, lines


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return grading_run.two(tmp_path)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    with grading_run.stood_in(monkeypatch) as fake:
        yield fake


@pytest.fixture
def stopped(judged: Judge, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[judge.Asked]]:
    """stopped(after, given, out, *more): graded until Ctrl-C comes, after so many answers or never.

    A grade tells the round of its inputs. Gives what was judged.
    """
    left: list[int] = []

    def interrupted(asked: judge.Asked, *rest: object) -> Grade:
        if left and not left[0]:
            raise KeyboardInterrupt
        left[:] = [left[0] - 1] if left else []
        made = judged(asked, *rest)
        return replace(made, notes=(*made.notes, f"round {asked.round}"))

    def graded(after: int | None, given: Path, out: Path, *more: str) -> list[judge.Asked]:
        left[:] = [] if after is None else [after]
        judged.asked = []
        told = grade(given, out, "--jobs", "1", *more)
        assert told.exit_code == (0 if after is None else 130), told.output
        return judged.asked

    monkeypatch.setattr(judge, "grade", interrupted)
    return graded


@pytest.fixture
def out(given: Path, tmp_path: Path, stopped: Callable) -> Path:
    """A folder of results, all graded once."""
    stopped(None, given, tmp_path / "out")
    return tmp_path / "out"


def test_it_ends_with_the_same_gradebook(given, out, tmp_path, stopped) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / session.SECRET).write_text((out / session.SECRET).read_text())
    stopped(None, given, whole)
    stopped(None, given, whole, "--regrade")

    judged = [stopped(after, given, out, "--regrade") for after in (5, 0, 4, None)]
    assert [len(asked) for asked in judged] == [5, 0, 4, 5]
    every = [one for asked in judged for one in asked]
    assert len({(one.student, one.exercise.name) for one in every}) == 14
    assert {one.round for one in every} == {1}
    assert (out / gradebook.FILE).read_bytes() == (whole / gradebook.FILE).read_bytes()
    assert len(lines(out)) == 28 and not (out / regrade.FILE).exists()
    assert {one.round for one in stopped(None, given, out, "--regrade")} == {2}
    assert len(lines(out)) == 42


@pytest.mark.parametrize(
    ("other", "many"),
    [
        (("--regrade", "--only", "ada"), 7),
        (("--regrade", "--seconds", "40"), 14),
        (("--regrade", "--isolation", "container"), 14),
        ((), 0),
    ],
)
def test_what_is_asked_for_otherwise_begins_anew(other, many, given, out, stopped) -> None:
    stopped(5, given, out, "--regrade", "--isolation", "namespaces")
    assert len(stopped(None, given, out, *other)) == many
    assert not (out / regrade.FILE).exists()
    assert len(stopped(None, given, out, "--regrade", "--isolation", "namespaces")) == 14


def test_the_order_of_names_is_of_no_account(given, out, stopped) -> None:
    first, second = ("--only", "ada"), ("--only", NAMES[2])
    stopped(3, given, out, "--regrade", *first, *second)
    assert len(stopped(None, given, out, "--regrade", *second, *first, *second)) == 5


def test_what_was_handed_in_meanwhile_is_graded_once(given, out, stopped) -> None:
    stopped(13, given, out, "--regrade")
    (given / "ada.ipynb").write_bytes(notebook([IMPORTS, OTHER]))
    (given / "edsger.ipynb").write_bytes(notebook([IMPORTS, RIGHT]))
    asked = stopped(8, given, out, "--regrade")
    first = asked[0]
    assert (first.student, first.exercise.name, first.round) == ("ada", NAMES[2], 2)
    rest = stopped(None, given, out, "--regrade")
    assert len(asked) + len(rest) == 1 + 7 + 1
    assert not (out / regrade.FILE).exists()


def test_where_the_grader_failed_it_is_tried_again_alone(given, out, judged, stopped) -> None:
    judged.raises = [ZeroDivisionError("a"), ZeroDivisionError("b")]
    told = grade(given, out, "--jobs", "1", "--regrade")
    assert told.exit_code == 1 and (out / regrade.FILE).exists()
    one = book_of(out)["students"]["ada"]["exercises"][NAMES[2]]
    assert one["state"] == GRADER_ERROR
    again = stopped(None, given, out, "--regrade")
    assert [(one.student, one.exercise.name, one.round) for one in again] == [("ada", NAMES[2], 1)]
    assert not (out / regrade.FILE).exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"asked": {}}', '{"rounds": 3, "asked": 1}'])
def test_a_file_that_says_nothing_begins_anew(text, given, out, stopped) -> None:
    (out / regrade.FILE).write_text(text)
    assert len(stopped(None, given, out, "--regrade")) == 14


def test_rounds_that_are_none(tmp_path) -> None:
    file = tmp_path / regrade.FILE
    for rounds in ("3", '{"ada": 3}', '{"ada": {"row": "x"}}', '{"ada": {"row": null}}'):
        file.write_text(f'{{"asked": 1, "rounds": {rounds}}}')
        assert regrade._rounds(file, 1) == {}
