"""nbgrader's marks on the exercise cells, and scores into its gradebook.

nbgrader itself is not installed for the tests: its rules for metadata are written down here as its
validator has them (schema 3), its gradebook is one that notes what it is told.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from labs import exercise, topics
from labs.grading import collect, extract
from labs.grading.records import FAIL, GRADER_ERROR, PASS, Grade
from labs.notebooks.fill import is_exercise
from labs.notebooks.normalise import as_text, normalise

COURSE = Path(__file__).resolve().parents[1]
_SCRIPT = COURSE / "instructor" / "nbgrader_scores.py"
_FILES = sorted((COURSE / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def scores() -> object:
    spec = importlib.util.spec_from_file_location("nbgrader_scores", _SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", _FILES, ids=lambda path: path.stem)
def test_every_exercise_cell_is_marked_and_no_other(file: Path) -> None:
    topic = topics.find(file.name)
    notebook = nbformat.read(file, 4)
    marked = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert marked == [cell for cell in notebook.cells if is_exercise(cell)]
    for cell in marked:
        told = dict(cell.metadata.nbgrader)
        name = told.pop("grade_id")
        assert re.fullmatch(r"[a-zA-Z0-9_\-]+", name) and cell.id == f"exercise-{name}"
        assert told == dict(grade=False, locked=False, schema_version=3, solution=True, task=False)
    names = [cell.metadata.nbgrader.grade_id for cell in marked]
    assert len(set(names)) == len(names) and set(names) == set(topic.exercises())


def test_solved_notebooks_have_the_same_marks() -> None:
    for file in _FILES:
        pair = [
            nbformat.read(COURSE / folder / file.name, 4) for folder in ("notebooks", "solutions")
        ]
        lesson, solved = ([c.metadata.get("nbgrader") for c in nb.cells] for nb in pair)
        assert lesson == solved


def test_making_a_notebook_keeps_the_marks() -> None:
    """Also where an editor lost them, and where a cell was copied with another's mark."""
    text = _FILES[0].read_text(encoding="utf-8")
    notebook = nbformat.reads(text, 4)
    cells = [cell for cell in notebook.cells if is_exercise(cell)]
    del cells[0].metadata["nbgrader"]
    cells[1].metadata.nbgrader.grade_id = cells[2].metadata.nbgrader.grade_id
    assert as_text(normalise(notebook, COURSE)) == text


def test_an_nbgrader_course_is_read_as_it_is(tmp_path) -> None:
    for student, when in (("ada", "2026-03-01 10:00:00 UTC"), ("grace", "2026-03-02 10:00:00 UTC")):
        folder = tmp_path / "course" / "submitted" / student / "labs"
        folder.mkdir(parents=True)
        (folder / _FILES[0].name).write_bytes(_FILES[0].read_bytes())
        (folder / "timestamp.txt").write_text(when, encoding="utf-8")
    (tmp_path / "course" / "source" / "labs").mkdir(parents=True)
    (tmp_path / "course" / "source" / "labs" / "x.ipynb").write_text("{}", encoding="utf-8")
    for path in (tmp_path / "course", tmp_path / "course" / "submitted"):
        found = collect.collect(path)
        assert [one.student for one in found] == ["ada", "grace"]
        assert found[1].submitted - found[0].submitted == 24 * 3600
    told = extract.read(found[0].text, ".ipynb", list(exercise.exercises()))
    assert sum(entry is not None for entry in told["exercises"].values()) == 3


class _Gradebook:
    """Notes what it is told, as nbgrader.api.Gradebook would keep it."""

    def __init__(self) -> None:
        self.students, self.cells, self.grades = [], {}, {}
        self.db = SimpleNamespace(commit=lambda: setattr(self, "committed", True))

    def update_or_create_assignment(self, name: str) -> None:
        self.assignment = name

    def update_or_create_notebook(self, name: str, assignment: str) -> None:
        assert assignment == self.assignment

    def update_or_create_student(self, name: str) -> None:
        self.students.append(name)

    def update_or_create_submission(self, assignment: str, student: str) -> None:
        assert student in self.students and assignment == self.assignment

    def update_or_create_grade_cell(self, name, notebook, assignment, *, max_score, cell_type):
        self.cells[notebook, name] = max_score

    def find_grade(self, name: str, notebook: str, assignment: str, student: str):
        assert (notebook, name) in self.cells
        return self.grades.setdefault(
            (student, name), SimpleNamespace(manual_score=None, needs_manual_grade=True)
        )


def _grade(student: str, name: str, state: str, points: float | None, of: float) -> dict:
    found = exercise.find(name)
    return Grade(student, found.topic, name, found.kind, state, points, of, "none").to_json()


def _students() -> dict:
    return {
        "ada": {
            "exercises": {
                "row_parallel": _grade("ada", "row_parallel", PASS, 3.0, 3.0),
                "ring_shift": _grade("ada", "ring_shift", FAIL, 1.5, 2.0),
                "allreduce_bytes": _grade("ada", "allreduce_bytes", PASS, 0.0, 0.0),
            }
        },
        "grace": {
            "exercises": {
                "row_parallel": _grade("grace", "row_parallel", GRADER_ERROR, None, 3.0),
                "ring_shift": _grade("grace", "ring_shift", FAIL, 0.0, 2.0),
            }
        },
    }


def test_scores_are_written_and_a_failed_grader_is_no_zero(scores) -> None:
    book = _Gradebook()
    left = scores.write(book, _students(), "labs")
    assert left == ["grace, row_parallel: not graded (GRADER_ERROR); grade it again"]
    assert book.cells == {
        ("ranks_and_collectives", "ring_shift"): 2.0,
        ("tp_linear_pair", "row_parallel"): 3.0,
    }
    told = {key: (one.manual_score, one.needs_manual_grade) for key, one in book.grades.items()}
    assert told == {
        ("ada", "ring_shift"): (1.5, False),
        ("ada", "row_parallel"): (3.0, False),
        ("grace", "ring_shift"): (0.0, False),
    }
    assert book.committed
    assert scores.write(book, _students(), "labs") == left


@pytest.mark.parametrize(
    ("grades", "words"),
    [
        (None, "is no gradebook of `labs grade`"),
        ("[]", "is no gradebook of `labs grade`"),
        (json.dumps({"students": {}}), "is no gradebook of `labs grade`"),
        (json.dumps({"students": {}, "for_credit": False}), "is practice, not for credit"),
        (json.dumps({"students": {}, "for_credit": True}), "there is no gradebook none.db"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(tmp_path, grades: str | None, words: str) -> None:
    if grades is not None:
        (tmp_path / "g.json").write_text(grades, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(_SCRIPT), "g.json", "none.db", "--assignment", "labs"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_the_page_names_what_there_is() -> None:
    text = (COURSE / "instructor" / "nbgrader.md").read_text(encoding="utf-8")
    for named in re.findall(r"instructor/[\w.]+", text):
        assert (COURSE / named).is_file()
    assert "labs release --out handout" in text and "labs grade COURSE/submitted" in text
