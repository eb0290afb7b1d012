"""Which of a student's files counts, and what is said where one could not be read."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.grading import extract, newest
from labs.grading.collect import collect, collected
from labs.grading.records import Submission
from tests import grading_run
from tests.grading_answers import notebook
from tests.grading_run import IMPORTS, OTHER, RIGHT, Judge, book_of, grade

NAME = "causal_block_mask"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    with grading_run.stood_in(monkeypatch) as fake:
        yield fake


@pytest.fixture
def given(tmp_path: Path) -> Path:
    (tmp_path / "given" / "ada").mkdir(parents=True)
    (tmp_path / "given" / "bob.ipynb").write_bytes(notebook([IMPORTS, RIGHT]))
    return tmp_path / "given"


def _lay(folder: Path, files: dict[str, tuple[str, int]]) -> None:
    """{name: (answer, day of November)}"""
    for name, (text, day) in files.items():
        path = folder / name
        path.write_bytes(notebook([IMPORTS, text]))
        when = datetime.datetime(2026, 11, day, tzinfo=datetime.UTC).timestamp()
        os.utime(path, (when, when))


def test_an_extension_changes_no_choice_among_files(given, tmp_path, judged) -> None:
    _lay(given / "ada", {"a_final.ipynb": (RIGHT, 20), "b_first.ipynb": (OTHER, 1)})
    out = tmp_path / "out"
    grade(given, out)
    assert book_of(out)["students"]["ada"]["total"] == 10.0
    (given / "times.csv").write_text("student,submitted\nada,2026-11-25T12:00:00Z\n")
    grade(given, out)
    ada = book_of(out)["students"]["ada"]
    assert ada["total"] == 10.0
    assert ada["submitted"] == datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC).timestamp()


@pytest.mark.parametrize("name", ["lab-1.py", "lab (1).py", "lab_(1).py", "lab-2.py"])
def test_a_copy_with_a_number_is_newer_than_the_file_of_the_same_time(name: str) -> None:
    content = b"def f():\n    return 1\n"
    told = extract.read(content, ".py", ["f"])
    files = [(Submission("ada", one, content, ".py", 1.0), told) for one in ("lab.py", name)]
    for order in (files, files[::-1]):
        assert newest.chosen(order, ["f"])["f"][0].file == name


def test_a_file_that_cannot_be_read_beside_one_that_can(given, tmp_path, judged) -> None:
    _lay(given / "ada", {"v1.ipynb": (OTHER, 1), "v2.ipynb": (RIGHT, 2)})
    whole = (given / "ada" / "v2.ipynb").read_bytes()
    (given / "ada" / "v2.ipynb").write_bytes(whole[:-40])
    out = tmp_path / "out"
    told = grade(given, out)
    ada = book_of(out)["students"]["ada"]
    assert ada["total"] is None and "ada/v2.ipynb could not be read" in ada["says"][0]
    assert "note: ada has no total: ada/v2.ipynb: " in told.output
    assert book_of(out)["students"]["bob"]["total"] == 10.0
    (given / "ada" / "v2.ipynb").write_bytes(whole)
    grade(given, out)
    assert book_of(out)["students"]["ada"]["total"] == 10.0


def test_a_cell_that_cannot_be_read_is_told_and_the_rest_counts(given, tmp_path, judged) -> None:
    cells = [IMPORTS, RIGHT, "def f(:\n    pass"]
    (given / "ada" / "x.ipynb").write_bytes(notebook(cells))
    told = grade(given, tmp_path / "out")
    assert book_of(tmp_path / "out")["students"]["ada"]["total"] == 10.0
    assert "note: ada was graded without it: ada/x.ipynb: " in told.output


STUB = f"def {NAME}(q_places, k_places):\n    ...\n"
MEANT = {
    "an alias": (f"def mine(q, k):\n    return k <= q\n\n{NAME} = mine", "assigned to"),
    "a lambda": (f"{NAME} = lambda q, k: k <= q", "assigned to"),
    "a class": (f"class {NAME}:\n    pass", "a class"),
    "async": (f"async def {NAME}(q, k):\n    return k <= q", "an async function"),
    "in an if": (f"if True:\n    def {NAME}(q, k):\n        return k <= q", "something else"),
    "broken": (f"def {NAME}(q, k):\n    return k <= = q", "cannot be read as Python"),
}


@pytest.mark.parametrize(("cell", "why"), MEANT.values(), ids=MEANT)
def test_beside_the_stub_the_answer_that_cannot_be_graded_is_named(
    cell: str, why: str, given, tmp_path, judged
) -> None:
    (given / "ada" / "x.ipynb").write_bytes(notebook([IMPORTS, STUB, cell]))
    told = grade(given, tmp_path / "out")
    [note] = book_of(tmp_path / "out")["students"]["ada"]["exercises"][NAME]["notes"]
    assert note.startswith(extract.ONLY_THE_STUB) and why in note
    assert f"note: ada, {NAME}: {note}" in told.output


def test_a_stub_that_the_lesson_wraps_is_only_a_stub(given, tmp_path, judged) -> None:
    wraps = f"{NAME} = or_answer({NAME})"
    (given / "ada" / "x.ipynb").write_bytes(notebook([IMPORTS, STUB, wraps]))
    told = grade(given, tmp_path / "out")
    assert book_of(tmp_path / "out")["students"]["ada"]["exercises"][NAME]["notes"] == []
    assert "ada, " not in told.output


def test_another_reason_for_no_answer_is_written_down(given, tmp_path, judged) -> None:
    file = given / "ada" / "x.ipynb"
    file.write_bytes(notebook([IMPORTS, RIGHT.replace(NAME, "causal_block_mak")]))
    grade(given, tmp_path / "out")
    file.write_bytes(notebook([IMPORTS, f"class {NAME}:\n    pass"]))
    grade(given, tmp_path / "out")
    [note] = book_of(tmp_path / "out")["students"]["ada"]["exercises"][NAME]["notes"]
    assert "is a class" in note


def test_a_notebook_with_the_ending_of_a_program_is_a_notebook(given, tmp_path, judged) -> None:
    (given / "ada" / "x.py").write_bytes(
        json.dumps(json.loads(notebook([IMPORTS, RIGHT]))).encode()
    )
    grade(given, tmp_path / "out")
    assert book_of(tmp_path / "out")["students"]["ada"]["total"] == 10.0


def test_results_inside_the_submissions_are_refused(given, judged) -> None:
    told = grade(given, given / "grades")
    assert told.exit_code == 2 and "would be taken for a student" in told.stderr
    assert not (given / "grades").exists()


@pytest.mark.parametrize(
    ("zone", "hour"), [("EDT", 20), ("CEST", 14), ("America/New_York", 20), ("UTC", 16)]
)
def test_nbgrader_s_time_in_a_zone_of_summer(tmp_path, zone: str, hour: int) -> None:
    at = tmp_path / "submitted" / "ada" / "lab"
    at.mkdir(parents=True)
    (at / "x.py").write_text("def f():\n    return 1\n")
    (at / "timestamp.txt").write_text(f"2026-07-02 16:00:00.5 {zone}")
    [one] = collect(tmp_path / "submitted")
    told = datetime.datetime.fromtimestamp(one.submitted, datetime.UTC)
    assert (told.day, told.hour) == (2, hour)


def test_a_time_that_cannot_be_understood_is_no_other_time(tmp_path) -> None:
    at = tmp_path / "submitted" / "ada" / "lab"
    at.mkdir(parents=True)
    (at / "x.py").write_text("def f():\n    return 1\n")
    (at / "timestamp.txt").write_text("2026-07-02 16:00:00 XYZT")
    found = collected(tmp_path / "submitted")
    assert found.submissions[0].submitted is None
    assert "ada/lab/timestamp.txt cannot be understood" in found.notes[0]
