"""The gradebook: totals, lateness, what has no total, what changed; the same bytes each time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

import pytest

from labs.grading import gradebook
from labs.grading.late import Policy
from labs.grading.points import Points
from labs.grading.records import CRASH, FAIL, GRADER_ERROR, NOT_ATTEMPTED, PARALLELISM
from labs.grading.words import NOT_FOR_CREDIT
from tests.grading_records import KNOWN, POINTS, book, grade, submission

DUE = datetime.fromisoformat("2026-03-31T12:00:00+02:00")
LATE = Points(KNOWN, policy=Policy("per day", DUE, percent_per_day=10))


class TestTotals:
    def test_practice_is_listed_and_not_counted(self) -> None:
        one = book(grade("ada", "formula"), grade("ada", "row"))["students"]["ada"]
        assert (one["points"], one["of"], one["total"]) == (10.0, 10.0, 10.0)
        assert list(one["exercises"]) == ["formula", "row"]

    def test_partial_credit_is_a_sum_of_hundredths(self) -> None:
        told = book(grade("ada", "row", FAIL, "nyy"), grade("ada", "column", PARALLELISM, "yyn"))
        one = told["students"]["ada"]
        assert (one["points"], one["of"], one["total"]) == (13.33, 20.0, 13.33)
        assert told["order"] == ["column", "row"]  # that of the course

    def test_lateness_is_applied_to_the_total_and_kept_apart(self) -> None:
        late = {"ada": submission("ada.ipynb", DUE.timestamp() + 3 * 3600)}
        told = book(grade("ada", "row", FAIL, "yny"), points=LATE, submissions=late)
        one = told["students"]["ada"]
        assert (one["points"], one["late"]["factor"], one["total"]) == (6.67, 0.9, 6.0)
        assert "3 h after the deadline" in one["late"]["words"]
        assert one["exercises"]["row"]["points"] == 6.67

    def test_halves_of_a_hundredth_go_up(self) -> None:
        half = Points(KNOWN, by_exercise={"row": 0.05}, policy=Policy("per day", DUE, 0, 10))
        late = {"ada": submission("ada.ipynb", DUE.timestamp() + 1)}
        told = book(grade("ada", "row", points=half), points=half, submissions=late)
        assert told["students"]["ada"]["total"] == 0.05  # 0.045
        more = Points(KNOWN, by_exercise={"row": 1.15}, policy=Policy("per day", DUE, 0, 30))
        told = book(grade("ada", "row", points=more), points=more, submissions=late)
        assert told["students"]["ada"]["total"] == 0.81 != round(1.15 * 0.7, 2)  # 0.805

    def test_an_exercise_without_points_is_not_counted(self) -> None:
        none = Points(KNOWN, by_topic={"tp_linear_pair": 0.0})
        told = book(grade("ada", "row", GRADER_ERROR), grade("ada", "order"), points=none)
        one = told["students"]["ada"]
        assert (one["total"], one["of"], one["says"]) == (10.0, 10.0, [])

    def test_the_last_grade_of_several_counts(self) -> None:
        told = book(grade("ada", "row", GRADER_ERROR), grade("ada", "row"))
        assert told["students"]["ada"]["total"] == 10.0


class TestWithoutTotal:
    def test_a_grader_error_is_no_total_and_never_0(self) -> None:
        one = book(grade("ada", "row"), grade("ada", "order", GRADER_ERROR))["students"]["ada"]
        assert one["total"] is None and one["points"] is None and one["of"] == 20.0
        assert one["exercises"]["order"]["points"] is None
        (says,) = one["says"]
        assert says.startswith("no total yet: the grader failed at order") and "not" in says

    def test_also_where_the_record_says_0(self) -> None:
        """The mutant: a grader that writes its own failure down as no points."""
        wrong = replace(grade("ada", "row", GRADER_ERROR), points=0.0)
        one = book(wrong)["students"]["ada"]
        assert one["total"] is None and one["exercises"]["row"]["points"] is None

    def test_of_practice_it_takes_nothing_away(self) -> None:
        one = book(grade("ada", "formula", GRADER_ERROR), grade("ada", "row"))["students"]["ada"]
        assert one["total"] == 10.0

    def test_what_could_not_be_read(self) -> None:
        damaged = {"grace": submission("grace.zip", None, "grace.zip is encrypted")}
        one = book(grade("ada", "row"), submissions=damaged)["students"]["grace"]
        assert one["total"] is None and one["of"] == 10.0
        assert one["problems"] == ["grace.zip is encrypted"]
        assert one["says"] == ["no total: nothing of what was handed in could be graded"]

    def test_a_run_that_is_not_over(self) -> None:
        told = book(grade("ada", "row"), grade("ada", "order"), grade("grace", "row"))
        one = told["students"]["grace"]
        assert one["total"] is None and one["says"] == ["no total yet: there is no grade for order"]

    def test_not_attempted_is_0(self) -> None:
        one = book(grade("ada", "row", NOT_ATTEMPTED))["students"]["ada"]
        assert one["total"] == 0.0 and one["says"] == []


class TestIsolation:
    def test_without_it_nothing_is_for_credit(self) -> None:
        told = book(grade("ada", "row"), grade("grace", "row", isolation="none"))
        assert told["isolation"] == "none" and told["for_credit"] is False
        assert told["says"] == [NOT_FOR_CREDIT]
        assert [one["says"] for one in told["students"].values()] == [[NOT_FOR_CREDIT]] * 2

    @pytest.mark.parametrize(("levels", "whole"), [
        (("container", "container"), "container"), (("", "container"), "none"), ((), "none"),
        (("namespaces", "container"), "container, namespaces"),
    ])  # fmt: skip
    def test_of_the_whole(self, levels: tuple[str, ...], whole: str) -> None:
        told = book(*(grade(f"s{at}", "row", isolation=one) for at, one in enumerate(levels)))
        assert told["isolation"] == whole and told["for_credit"] is (whole != "none")

    def test_where_nothing_ran_nothing_was_open(self) -> None:
        idle = grade("grace", "row", NOT_ATTEMPTED, isolation="none")
        assert book(grade("ada", "row"), idle)["isolation"] == "namespaces"


class TestBytes:
    def test_the_same_whatever_the_order_and_the_machine(self) -> None:
        ones = [
            grade("ada", "row", seconds=1.0, measured={"wire": 7}), grade("ada", "formula"),
            grade("Ödön", "row", CRASH, told="here"), grade("grace", "order", FAIL, "ny"),
        ]  # fmt: skip
        slow = [replace(one, seconds=9.0, measured={"wire": 8}) for one in reversed(ones)]
        assert gradebook.text(book(*ones)) == gradebook.text(book(*slow))
        text = gradebook.text(book(*ones))
        assert text == json.dumps(json.loads(text), sort_keys=True, indent=1) + "\n"
        assert "seconds" not in text and "measured" not in text and text.isascii()
        assert json.loads(text)["students"]["Ödön"]["exercises"]["row"]["told"] == "here"

    def test_written_and_read_again(self, tmp_path) -> None:
        told = book(grade("ada", "row", FAIL, "nyy", detail="a\nb", notes=("one", "two")))
        path = gradebook.write_to(told, tmp_path)
        first = path.read_bytes()
        again = gradebook.read(tmp_path)
        assert again["students"]["ada"]["exercises"]["row"]["points"] == 6.66
        assert gradebook.write_to(told, tmp_path).read_bytes() == first
        assert gradebook.diff(told, again) == ["no grade changed"]
        assert [file.name for file in tmp_path.iterdir()] == ["gradebook.json"]

    def test_a_gradebook_that_cannot_be_written_leaves_the_old_one(self, tmp_path) -> None:
        path = gradebook.write_to(book(grade("ada", "row")), tmp_path)
        before = path.read_bytes()
        with pytest.raises(ValueError):
            gradebook.write_to({"x": float("nan")}, tmp_path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["gradebook.json"]

    def test_nothing_is_left_where_it_cannot_be_put(self, tmp_path) -> None:
        (tmp_path / "gradebook.json").mkdir()
        with pytest.raises(ValueError, match="gradebook.json cannot be written: Is a directory"):
            gradebook.write_to(book(grade("ada", "row")), tmp_path)
        assert [file.name for file in tmp_path.iterdir()] == ["gradebook.json"]


class TestRead:
    def test_no_gradebook(self, tmp_path) -> None:
        with pytest.raises(ValueError, match="has no gradebook.json; give the folder that `labs"):
            gradebook.read(tmp_path)

    @pytest.mark.parametrize(
        "text",
        ["", "[]", "{", "{}", '{"students": {"a": {}}}', "[" * 9999, '{"students": 3}', "\xff"],
    )
    def test_another_file(self, tmp_path, text: str) -> None:
        (tmp_path / "gradebook.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match="is not a gradebook of this version") as found:
            gradebook.read(tmp_path)
        assert len(str(found.value).splitlines()) == 1


class TestDiff:
    def test_what_changed_and_nothing_else(self) -> None:
        same = [grade("ada", "order"), grade("ada", "formula")]
        old = book(*same, grade("ada", "row", FAIL, "nyy"), grade("grace", "row"))
        new = book(*same, grade("ada", "row"), grade("mary", "row"))
        assert gradebook.diff(old, new) == [
            "ada: row: FAIL 6.66 of 10 → PASS 10 of 10",
            "ada: row: forward values: failed, 0 of 2 hidden cases, 0 → "
            "passed, 2 of 2 hidden cases, 3.34",
            "ada: total: 16.66 of 20 → 20 of 20",
            "grace: no longer there",
            "mary: new",
        ]

    def test_from_a_grader_error_to_a_grade(self) -> None:
        old = book(grade("ada", "row", GRADER_ERROR))
        lines = gradebook.diff(old, book(grade("ada", "row", FAIL)))
        assert lines == [
            "ada: row: GRADER_ERROR no points of 10 → FAIL 0 of 10",
            "ada: total: none of 10 → 0 of 10",
        ]

    def test_a_hidden_case_alone(self) -> None:
        old = book(grade("ada", "row", FAIL, hidden=(0, 2)))
        one = grade("ada", "row", FAIL)
        parts = (replace(one.properties[0], hidden_passed=1), *one.properties[1:])
        new = book(replace(one, properties=parts))
        assert gradebook.diff(old, new) == [
            "ada: row: forward values: failed, 0 of 2 hidden cases, 0 → "
            "failed, 1 of 2 hidden cases, 0"
        ]

    def test_late_and_isolation(self) -> None:
        late = {"ada": submission("a.ipynb", DUE.timestamp() + 9)}
        old = book(grade("ada", "row"), points=LATE)
        new = book(grade("ada", "row", isolation="none"), points=LATE, submissions=late)
        lines = gradebook.diff(old, new)
        assert lines[0] == "isolation: namespaces → none" and lines[1].endswith(
            "10 of 10 → 9 of 10"
        )
        assert lines[2].startswith("ada: late: the time of submission is not known")

    def test_an_exercise_more(self) -> None:
        old, new = book(grade("ada", "row")), book(grade("ada", "row"), grade("ada", "order"))
        assert gradebook.diff(old, new)[0] == "ada: order: graded now: PASS 10 of 10"


def test_a_grade_of_no_exercise() -> None:
    with pytest.raises(ValueError, match="there is no exercise 'gone'"):
        gradebook.make([replace(grade("ada", "row"), exercise="gone")], {}, POINTS)
