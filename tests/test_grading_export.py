"""Exports: safe for spreadsheets, in the platforms' formats, and never a 0 for a grader error."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from labs.grading import export, gradebook, gradescope, roster, sheet
from labs.grading.records import FAIL, GRADER_ERROR
from labs.grading.words import NOT_FOR_CREDIT
from tests.grading_records import book, grade, submission
from tests.test_cli import labs, refused

FORMULA = "=HYPERLINK(\"http://x\",'y')"
CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,Old (7)
    Points Possible,,,,,10
"Lovelace, Ada",101,s1,ada@uni,Group A,3
"Hopper, Grace",102,s2,grace@uni,Group B,4
,,,,,
"Curie, Marie",103,s3,marie@uni,Group B,5
"""


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def people(tmp_path: Path, text: str = CANVAS, name: str = "people.csv") -> str:
    (tmp_path / name).write_bytes(text.encode())
    return str(tmp_path / name)


def three() -> dict:
    return book(
        grade("ada@uni", "row", FAIL, "nyy"), grade("grace@uni", "row", GRADER_ERROR),
        grade("eve", "row"), submissions={"eve": submission("eve.ipynb", 1774958400.0)},
    )  # fmt: skip


class TestSheet:
    @pytest.mark.parametrize("text", [
        FORMULA, "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "  =1", "\u00a0=1", "\u3000+1", "＝1",
        "＋1", "－1", "＠x", "\u2212 1", "\ufeff=1", "\u200b=1", "\0=1", " \t-2", "﹣1", "﹦1",
    ])  # fmt: skip
    def test_what_could_be_a_formula_gets_an_apostrophe(self, text: str) -> None:
        ((cell,),) = rows(sheet.text([[text]]))
        assert cell.startswith("'") and sheet.safe(cell) == cell

    @pytest.mark.parametrize("text", [
        "x;=1+1;.ipynb", 'x;=1+1;", y', "x\t=1\t", "x; -1", 'x;"=1;', 'x;" "=1;', "x,\n=1;",
        "x\r+1", "x;\u200b=1", "x;\0=1", "x；＝1", "x;;@y", "=1;=2", "\t=1;=2", "x;y;+1",
        "x;\u2212 1",
    ])  # fmt: skip
    @pytest.mark.parametrize("kind", [";", "\t", ","])
    def test_also_where_another_mark_parts_cells(self, text: str, kind: str) -> None:
        """As Excel does where ; parts cells: quotes hold together only what begins with one."""
        told = sheet.text([["ada", text, -1.5], ["eve", text, sheet.NOTHING]])
        for line in csv.reader(io.StringIO(told, newline=""), delimiter=kind):
            for cell in line:
                parts = [part.strip(' "\u200b\ufffd') for part in re.split("[\r\n；]", cell)]
                assert not [part for part in parts if part[:1] in tuple("=+@−＝")], line
                assert not any(part.startswith("-") for part in parts if part not in ("-1.5", "-"))
        assert sheet.safe(sheet.safe(text)) == sheet.safe(text)

    def test_a_file_name_in_the_export(self) -> None:
        name, why = "x;=1+1;.ipynb", "y\t=1 is empty"
        told = book(grade("ada", "row"), submissions={"ada": submission(name, None, why)})
        for text in (export.csv(told), export.moodle(told)):
            assert "=1" in text and not re.search('[;\\t][\\s"]*=', text)

    @pytest.mark.parametrize(
        "text", ["ada", "a=b", "Ödön", "1-2", "", " ", "'=1", "(=1)", "#x", "a@b.c", "a; b=1; c-"]
    )
    def test_other_text_stays(self, text: str) -> None:
        assert rows(sheet.text([[text, "end"]])) == [[text, "end"]]

    def test_numbers_stay_numbers(self) -> None:
        assert sheet.text([[-1.5, 10.0, 3.33, 0.0, None, ""]]) == "-1.5,10,3.33,0,,\r\n"

    def test_lines_quotes_and_odd_characters(self) -> None:
        text = sheet.text([['a "b", c\nd', "\ud800", "x\0y"]])
        assert text == '"a ""b"", c\nd",?,x\ufffdy\r\n'


class TestCsv:
    def test_a_row_a_student(self) -> None:
        told = book(
            grade("ada", "formula"), grade("ada", "row", FAIL, "nyy"), grade("ada", "order"),
            submissions={"ada": submission("a.ipynb", 1774958400.0, "cell [3] cannot be read")},
        )  # fmt: skip
        (one,) = table(export.csv(told))
        assert list(one) == [
            "student", "file", "submitted", "formula (practice)", "row (10)", "order (10)",
            "points", "of", "late factor", "late", "total", "isolation", "remarks",
        ]  # fmt: skip
        assert list(one.values()) == [
            "ada", "a.ipynb", "2026-03-31 12:00:00 UTC", "PASS", "6.66", "10", "16.66", "20", "1",
            "there is no deadline", "16.66", "namespaces", "cell [3] cannot be read",
        ]  # fmt: skip

    def test_cells_of_a_student_are_no_formulas(self) -> None:
        told = book(
            grade(FORMULA, "row"), submissions={FORMULA: submission(FORMULA, None, FORMULA)}
        )
        for kind in (export.csv, export.canvas, export.moodle):
            cells = [cell for row in rows(kind(told)) for cell in row]
            assert any("HYPERLINK" in cell for cell in cells)
            assert not any(cell.lstrip().startswith(("=", "+", "@")) for cell in cells)

    def test_a_mutant_without_the_apostrophe_is_seen(self, monkeypatch) -> None:
        monkeypatch.setattr(sheet, "safe", str)
        cells = [cell for row in rows(export.csv(book(grade(FORMULA, "row")))) for cell in row]
        assert any(cell.startswith("=") for cell in cells)


@pytest.mark.parametrize("kind", ["csv", "canvas", "moodle", "gradescope"])
def test_a_grader_error_is_never_0(kind: str) -> None:
    told = book(grade("ada", "row", GRADER_ERROR), grade("ada", "order"))
    if kind == "gradescope":
        found = gradescope.result(told, "ada")
        assert "score" not in found and not any("score" in test for test in found["tests"])
        assert "max_score" not in json.dumps(found) and "no total yet" in found["output"]
        assert [test.get("status") for test in found["tests"][:1]] == [None]
        return
    last = table(getattr(export, kind)(told))[-1]
    column = {"csv": "total", "canvas": export.ASSIGNMENT, "moodle": "grade"}[kind]
    assert last[column] == ("-" if kind == "moodle" else "")
    assert "0" not in (last[column], last.get("points"), last.get("row (10)"))


@pytest.mark.parametrize("kind", ["csv", "canvas", "moodle", "gradescope"])
def test_without_isolation_each_export_says_so(kind: str) -> None:
    for level, said in (("none", True), ("namespaces", False)):
        told = book(grade("ada", "row", isolation=level))
        text = (
            "".join(gradescope.results(told).values())
            if kind == "gradescope"
            else getattr(export, kind)(told)
        )
        assert (NOT_FOR_CREDIT in text) is said


class TestCanvas:
    def test_the_head_that_its_importer_asks_for(self) -> None:
        head, most, *rest = rows(export.canvas(three(), assignment="Labs (1234)"))
        assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Labs (1234)"]
        assert most == ["    Points Possible", "", "", "", "", "10"]
        assert rest == [["ada@uni", "", "", "", "", "6.66"], ["eve", "", "", "", "", "10"],
                        ["grace@uni", "", "", "", "", ""]]  # fmt: skip

    def test_with_a_roster(self, tmp_path) -> None:
        told = three()
        found = roster.read(people(tmp_path), told["students"])
        rest = rows(export.canvas(told, found))[2:]
        assert rest == [
            ["Lovelace, Ada", "101", "s1", "ada@uni", "Group A", "6.66"],
            ["eve", "", "", "", "", "10"],
            ["Hopper, Grace", "102", "s2", "grace@uni", "Group B", ""],
            ["Curie, Marie", "103", "s3", "marie@uni", "Group B", ""],
        ]

    def test_practice_keeps_the_number_at_the_end(self) -> None:
        told = book(grade("ada", "row", isolation="none"))
        assert (
            rows(export.canvas(told, assignment="Labs (12)"))[0][5]
            == f"Labs - {NOT_FOR_CREDIT} (12)"
        )

    @pytest.mark.parametrize(
        "name", ["Final Score", "my current grade", "Override Status (x)", " "]
    )
    def test_names_that_it_does_not_import(self, name: str) -> None:
        with pytest.raises(ValueError, match="Canvas does not import a column named"):
            export.canvas(three(), assignment=name)

    def test_a_student_named_like_its_second_row(self) -> None:
        told = book(grade("Points Possible", "row"))
        assert [row[0] for row in rows(export.canvas(told))[2:]] == ["Points-Possible"]


class TestMoodle:
    def test_identifier_grade_feedback(self) -> None:
        head, ada, eve, grace = rows(export.moodle(three()))
        assert head == ["identifier", "grade", "feedback"]
        assert ada[:2] == ["ada@uni", "6.66"] and eve[:2] == ["eve", "10"]
        assert ada[2] == "row: FAIL, 6.66 of 10; total 6.66 of 10; there is no deadline"
        assert grace[:2] == ["grace@uni", "-"] and "the grader failed at row" in grace[2]

    def test_with_a_roster_only_whom_it_knows(self, tmp_path) -> None:
        """One name that Moodle does not know stops all of its import."""
        text = "First name;Last name;ID number;Email address\nA;L;77;ada@uni\nG;H;;grace@uni\n"
        found = roster.read(people(tmp_path, text), three()["students"])
        told = rows(export.moodle(three(), found))
        assert [row[:2] for row in told[1:]] == [["ada@uni", "6.66"], ["grace@uni", "-"]]


class TestGradescope:
    def test_tests_of_a_property(self) -> None:
        one = grade("ada", "row", FAIL, "nyy", detail="expected 1", hint="look", hidden=(1, 2))
        found = gradescope.result(book(one), "ada")
        assert (found["score"], found["max_score"]) == (6.66, 10.0)
        first, hidden = found["tests"][:2]
        assert first == {
            "name": "row: forward values", "score": 0.0, "max_score": 3.34, "status": "failed",
            "visibility": "visible", "output": first["output"],
        }  # fmt: skip
        for text in ("FAIL: a value", "public checks: failed", "expected 1", "hint: look"):
            assert text in first["output"]
        assert hidden == {
            "name": "row: forward values (hidden cases)", "status": "failed",
            "visibility": "hidden", "output": "0 of 2 hidden cases passed",
        }  # fmt: skip
        assert len(found["tests"]) == 6
        bare = book(grade("ada", "row", FAIL, "nyy", hidden=(0, 0)))["students"]["ada"]
        without = gradescope._tests({**bare["exercises"]["row"]}, True)
        assert [test["status"] for test in without] == ["failed", "passed", "passed"]
        cents = [round(100 * test.get("score", 0)) for test in found["tests"]]
        assert sum(cents) == 666

    def test_a_file_a_student(self) -> None:
        told = book(grade("Ada", "row"), grade("ada", "row"), grade("../x", "formula"))
        files = gradescope.results(told)
        assert len({name.casefold() for name in files}) == 3
        assert all(name.count("/") == 1 and ".." not in name for name in files)
        assert all(json.loads(text)["stdout_visibility"] == "hidden" for text in files.values())


class TestCommand:
    def test_each_kind(self, tmp_path) -> None:
        told = three()
        gradebook.write_to(told, tmp_path)
        for kind, name in (
            ("csv", "grades.csv"),
            ("canvas", "canvas.csv"),
            ("moodle", "moodle.csv"),
        ):
            done = labs("export", kind, str(tmp_path))
            assert done.exit_code == 0 and done.stdout == f"3 students: {tmp_path / name}\n"
            assert (tmp_path / name).read_bytes() == getattr(export, kind)(told).encode()
            assert done.stderr.startswith("warning: grace@uni gets no grade: no total yet")
        done = labs("export", "gradescope", str(tmp_path))
        assert done.exit_code == 0
        found = json.loads((tmp_path / "gradescope/eve/results.json").read_text())
        assert found == gradescope.result(told, "eve")

    def test_a_roster_warns_and_ends_well(self, tmp_path) -> None:
        gradebook.write_to(three(), tmp_path)
        out = tmp_path / "new" / "m.csv"
        done = labs(
            "export", "moodle", str(tmp_path), "--roster", people(tmp_path), "--out", str(out)
        )
        assert done.exit_code == 0 and out.is_file()
        assert done.stderr.splitlines()[1:] == [
            "warning: not in the roster: eve",
            "warning: in the roster, but without a submission: Curie, Marie",
            "warning: left out of the file: eve",
        ]

    def test_what_it_is_made_from_is_not_overwritten(self, tmp_path) -> None:
        path = gradebook.write_to(three(), tmp_path)
        before, who = path.read_bytes(), people(tmp_path)
        refused(labs("export", "csv", str(tmp_path), "--out", str(path)), "name another")
        refused(labs("export", "csv", str(tmp_path), "--roster", who, "--out", who), "name another")
        assert path.read_bytes() == before and Path(who).read_text() == CANVAS
        refused(labs("export", "csv", str(tmp_path), "--out", str(tmp_path)), "is a folder")
        refused(
            labs("export", "gradescope", str(tmp_path), "--out", who), "gradescope needs a folder"
        )
        refused(labs("export", "gradescope", str(tmp_path), "--roster", who), "says nothing for")
        refused(labs("export", "excel", str(tmp_path)), "'excel' is not one of")
        refused(labs("export", "csv", str(tmp_path / "none")), "has no gradebook.json")
