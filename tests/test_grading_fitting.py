"""What `labs grade` says of names and folders that do not fit, before anything is graded."""

from __future__ import annotations

from pathlib import Path

import pytest

from labs.grading import fitting
from tests.grading_records import book, grade

PLACES = Path("grades"), Path("week-2.zip")


def before() -> dict:
    return book(grade("ada", "row"), grade("grace", "row"))


def test_another_class_is_not_written_over() -> None:
    with pytest.raises(ValueError, match="grades has the grades of another class") as refused:
        fitting.gone(before(), ["eve"], *PLACES)
    assert "nobody of its 2 students, as ada, is in week-2.zip" in str(refused.value)


def test_who_is_gone_is_named() -> None:
    assert fitting.gone(before(), ["ada", "eve"], *PLACES) == [
        "was in the gradebook, handed in nothing now: grace"
    ]


def test_the_same_class_or_none_before_is_no_news() -> None:
    assert fitting.gone(before(), ["ada", "grace"], *PLACES) == []
    assert fitting.gone(None, ["eve"], *PLACES) == []


def test_a_name_after_only_that_nothing_has() -> None:
    fitting.refuse_unknown(["ada", "row_parallel"], ["ada", "row_parallel"])
    with pytest.raises(ValueError, match="--only row_paralel: .*did you mean row_parallel"):
        fitting.refuse_unknown(["ada", "row_paralel"], ["ada", "row_parallel"])
