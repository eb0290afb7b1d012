"""A whole class played: released, solved in many ways, graded, told, exported. Every state occurs.

Cases of others that are here: a cell that was copied (G12), one that was deleted or made text
(G13), a loop that ignores signals (G21), an untouched release (G22), credentials in the grader's
environment (G26).
"""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from labs.cli import main
from labs.grading import gradebook, judge, records
from labs.grading.sandbox.launcher import SandboxError
from tests import leftovers
from tests.class_of_thirteen import SOLVED, STUDENTS, id_of

pytestmark = [pytest.mark.ranks, pytest.mark.namespace, pytest.mark.slow]

LESSON = "01_tp_linear_pair.ipynb"
CANARY = "canary-5f1c-not-to-be-seen"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The class's gradebooks and what every command said."""
    folder, run = tmp_path_factory.mktemp("class"), CliRunner()
    said = {"release": run.invoke(main, ["release", "--out", str(folder / "handout")])}
    lesson = json.loads((folder / "handout" / "notebooks" / LESSON).read_text(encoding="utf-8"))
    with zipfile.ZipFile(folder / "submissions.zip", "w") as out:
        for name, solve in SOLVED.items():
            out.writestr(f"{id_of(name)}_7000_{LESSON}", json.dumps(solve(lesson)))
        out.writestr(f"{id_of('katherine')}_7000_{LESSON}", json.dumps(lesson)[:5000])
        out.writestr(f"{id_of('john')}_7000_{LESSON}", "")
    command = ["grade", str(folder / "submissions.zip"), "--out", str(folder / "out"),
               "--isolation", "namespaces", "--notebook", "01", "--seconds", "8"]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", CANARY)
        patch.setenv("JUPYTERHUB_API_TOKEN", CANARY)
        graded = judge.grade

        def fails_for_linus(asked: judge.Asked, *rest: object) -> records.Grade:
            if (asked.student, asked.exercise.name) == (id_of("linus"), "copy_to_ranks"):
                raise SandboxError("the machine has no more processes")
            return graded(asked, *rest)

        patch.setattr(judge, "grade", fails_for_linus)
        said["first"] = run.invoke(main, command)
        if "cannot be had here" in said["first"].output:
            pytest.skip(said["first"].output)
        first = gradebook.read(folder / "out")
        patch.setattr(judge, "grade", graded)
        said["second"] = run.invoke(main, [*command, "--diff"])
        said["feedback"] = run.invoke(main, ["feedback", str(folder / "out")])
        said["canvas"] = run.invoke(
            main, ["export", "canvas", str(folder / "out"), "--assignment", "Labs (42)",
                   "--out", str(folder / "canvas.csv")],
        )  # fmt: skip
    return dict(folder=folder, said=said, first=first, book=gradebook.read(folder / "out"))


def _states(book: dict, student: str) -> dict[str, str]:
    told = book["students"][id_of(student)]["exercises"]
    return {name: one["state"] for name, one in told.items()}


def test_every_command_said_how_it_went(played):
    codes = {name: result.exit_code for name, result in played["said"].items()}
    assert codes == dict(release=0, first=1, second=0, feedback=0, canvas=0), played["said"]
    assert "isolation: namespaces" in played["said"]["first"].output


def test_every_state_occurs(played):
    both = (played["first"], played["book"])
    found = {state for book in both for name in STUDENTS for state in _states(book, name).values()}
    assert found == set(records.STATES)


@pytest.mark.parametrize(
    ("student", "exercise", "state"),
    [
        ("ada", "copy_to_ranks", records.PASS),
        ("ada", "row_parallel", records.PASS),
        ("alan", "copy_to_ranks", records.TIMEOUT),
        ("annie", "copy_to_ranks", records.TIMEOUT),
        ("barbara", "copy_to_ranks", records.LIMIT),
        ("edsger", "copy_to_ranks", records.CRASH),
        ("grace", "row_parallel", records.FAIL),
        ("hedy", "row_parallel", records.PARALLELISM),
        ("margaret", "copy_to_ranks", records.PASS),
        ("tim", "copy_to_ranks", records.PASS),
        ("tim", "reduce_from_ranks", records.NOT_ATTEMPTED),
        ("tim", "row_parallel", records.NOT_ATTEMPTED),
        ("linus", "copy_to_ranks", records.PASS),
    ],
)
def test_each_answer_has_the_state_that_it_earned(played, student, exercise, state):
    assert _states(played["book"], student)[exercise] == state


def test_partial_credit_is_by_property(played):
    """Gathering the weights gives the right values; what it costs is traffic, and gradients."""
    one = played["book"]["students"][id_of("hedy")]["exercises"]["row_parallel"]
    points = {each["name"]: each["points"] for each in one["properties"]}
    assert points["traffic"] == 0.0 and points["forward values"] > 0
    assert 0 < one["points"] < one["of"]


def test_a_copied_cell_is_graded_and_the_note_says_which(played):
    """G12."""
    notes = played["book"]["students"][id_of("margaret")]["exercises"]["copy_to_ranks"]["notes"]
    assert any("counts" in note and "copy_to_ranks" in note for note in notes)


def test_a_cell_that_is_gone_is_named_and_the_others_are_graded(played):
    """G13."""
    told = played["book"]["students"][id_of("tim")]["exercises"]
    assert any("answer not found" in note for note in told["reduce_from_ranks"]["notes"])
    assert any("answer not found" in note for note in told["row_parallel"]["notes"])


def test_an_untouched_release_starts_nothing(played):
    """G22: nothing is launched for a stub."""
    lines = (played["folder"] / "out" / "results.jsonl").read_text().splitlines()
    own = [json.loads(line)["grade"] for line in lines]
    own = [grade for grade in own if grade["student"] == id_of("donald")]
    assert own and {grade["state"] for grade in own} == {records.NOT_ATTEMPTED}
    assert all(grade["measured"]["launches"] == [] for grade in own)


def test_where_the_grader_failed_there_is_no_zero(played):
    before = played["first"]["students"][id_of("linus")]
    assert before["exercises"]["copy_to_ranks"]["points"] is None and before["total"] is None
    assert played["book"]["students"][id_of("linus")]["total"] == 10.0
    assert f"{id_of('linus')}: copy_to_ranks" in played["said"]["second"].output


def test_a_damaged_file_is_told_and_is_nobodys_zero(played):
    for name in ("katherine", "john"):
        student = played["book"]["students"][id_of(name)]
        assert student["problems"] and student["total"] is None, name
        assert f"note: {id_of(name)} has no total: " in played["said"]["first"].output


def test_pages_show_what_happened_and_nothing_of_hidden_cases(played):
    pages = {path.stem: path.read_text() for path in (played["folder"] / "out/feedback").iterdir()}
    assert set(map(id_of, STUDENTS)) <= set(pages)
    assert "answer not found" in pages[id_of("tim")]
    assert "wait" in pages[id_of("alan")]


def test_canvas_gets_a_total_for_each_that_has_one(played):
    with open(played["folder"] / "canvas.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    column = rows[0].index("Labs (42)")
    by_name = {row[0]: row[column] for row in rows[1:]}
    assert float(by_name[id_of("ada")]) == 40.0 and float(by_name[id_of("donald")]) == 0.0
    assert by_name[id_of("katherine")] == by_name[id_of("john")] == ""


def test_no_credential_of_the_grader_is_anywhere(played):
    """G26."""
    texts = [path.read_bytes() for path in Path(played["folder"]).rglob("*") if path.is_file()]
    texts += [result.output.encode() for result in played["said"].values()]
    assert not any(CANARY.encode() in text for text in texts)


def test_nothing_of_the_class_is_left_running(played):
    assert leftovers.of_runs() == []
