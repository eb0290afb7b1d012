"""A whole class played: released, solved in many ways, graded, told, exported. Every state occurs.

Cases of others that are here: a cell that was copied (G12), one that was deleted or made text
(G13), a loop that ignores signals (G21), an untouched release (G22), credentials in the grader's
environment (G26). Who is named here never took part.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from labs.cli import main
from labs.grading import gradebook, judge, records
from labs.grading.sandbox.launcher import SandboxError
from tests import leftovers

pytestmark = [pytest.mark.ranks, pytest.mark.namespace, pytest.mark.slow]

LESSON = "01_tp_linear_pair.ipynb"
CANARY = "canary-5f1c-not-to-be-seen"

F = """
class _F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone()
        dist.all_reduce(total, group=ctx.group)
        return total, None


def copy_to_ranks(x, group=None):
    return _F.apply(x, group)
"""
G = """
class _G(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        total = x.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def reduce_from_ranks(x, group=None):
    return _G.apply(x, group)
"""
COLUMN = """
def column_parallel(x, w_shard, b_shard):
    return copy_to_ranks(x) @ w_shard + b_shard
"""
ROW = """
def row_parallel(x_shard, w_shard, bias):
    return reduce_from_ranks(x_shard @ w_shard) + bias
"""
NOT_SUMMED = """
def row_parallel(x_shard, w_shard, bias):
    return x_shard @ w_shard + bias
"""
GATHERED = """
def _whole(mine, dim):
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine.detach().contiguous())
    parts[dist.get_rank()] = mine
    return torch.cat(parts, dim)


def row_parallel(x_shard, w_shard, bias):
    return _whole(x_shard, -1) @ _whole(w_shard, 0) + bias
"""
WAITS = """
def copy_to_ranks(x, group=None):
    dist.recv(torch.empty(1), src=(dist.get_rank() + 1) % dist.get_world_size())
    return x
"""
RAISES = """
def copy_to_ranks(x, group=None):
    return x.shape[7]
"""
FILLS = """
def copy_to_ranks(x, group=None):
    held = [torch.ones(16 * 2**20 // 8, dtype=torch.float64) for _ in range(100)]
    return x + 0 * held[0][0]
"""
DEAF = """
import signal


def copy_to_ranks(x, group=None):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while dist.get_rank() == 1:
        pass
    return x
"""


STUDENTS = (
    "ada", "alan", "annie", "barbara", "edsger", "grace", "hedy", "donald", "margaret", "tim",
    "linus", "katherine", "john",
)  # fmt: skip


def _id(name: str) -> str:
    """As Canvas tells people apart: by name and number."""
    return f"{name}_{1000 + STUDENTS.index(name)}"


def _solved(lesson: dict, answers: dict[str, str]) -> dict:
    """The lesson with these stubs replaced."""
    made = json.loads(json.dumps(lesson))
    for name, text in answers.items():
        _cell(made, name)["source"] = text.strip() + "\n"
    return made


def _cell(lesson: dict, name: str) -> dict:
    return next(
        cell for cell in lesson["cells"]
        if cell["cell_type"] == "code" and f"def {name}(" in "".join(cell["source"])
    )  # fmt: skip


def _copied(lesson: dict) -> dict:
    """The exercise's cell twice, with one id: the first copy is wrong."""
    made = _solved(lesson, {"copy_to_ranks": F})
    cell = _cell(made, "copy_to_ranks")
    wrong = {**json.loads(json.dumps(cell)), "source": RAISES}
    made["cells"].insert(made["cells"].index(cell), wrong)
    return made


def _made_text(lesson: dict) -> dict:
    """One exercise's cell is text now, another's is deleted, a third is right."""
    made = _solved(lesson, {"copy_to_ranks": F, "reduce_from_ranks": G})
    cell = _cell(made, "reduce_from_ranks")
    cell["cell_type"] = "markdown"
    cell.pop("outputs", None)
    cell.pop("execution_count", None)
    made["cells"].remove(_cell(made, "row_parallel"))
    return made


SOLVED: dict[str, Callable[[dict], dict]] = {
    "ada": lambda it: _solved(it, {
        "copy_to_ranks": F, "reduce_from_ranks": G, "column_parallel": COLUMN, "row_parallel": ROW
    }),
    "alan": lambda it: _solved(it, {"copy_to_ranks": WAITS}),
    "annie": lambda it: _solved(it, {"copy_to_ranks": DEAF}),
    "barbara": lambda it: _solved(it, {"copy_to_ranks": FILLS}),
    "edsger": lambda it: _solved(it, {"copy_to_ranks": RAISES}),
    "grace": lambda it: _solved(it, {"row_parallel": NOT_SUMMED}),
    "hedy": lambda it: _solved(it, {"row_parallel": GATHERED}),
    "donald": lambda it: it,
    "margaret": _copied,
    "tim": _made_text,
    "linus": lambda it: _solved(it, {"copy_to_ranks": F}),
}  # fmt: skip


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The class's gradebooks and what every command said."""
    folder, run = tmp_path_factory.mktemp("class"), CliRunner()
    said = {"release": run.invoke(main, ["release", "--out", str(folder / "handout")])}
    lesson = json.loads((folder / "handout" / "notebooks" / LESSON).read_text(encoding="utf-8"))
    with zipfile.ZipFile(folder / "submissions.zip", "w") as out:
        for name, solve in SOLVED.items():
            out.writestr(f"{_id(name)}_7000_{LESSON}", json.dumps(solve(lesson)))
        out.writestr(f"{_id('katherine')}_7000_{LESSON}", json.dumps(lesson)[:5000])
        out.writestr(f"{_id('john')}_7000_{LESSON}", "")
    command = ["grade", str(folder / "submissions.zip"), "--out", str(folder / "out"),
               "--isolation", "namespaces", "--notebook", "01", "--seconds", "8"]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", CANARY)
        patch.setenv("JUPYTERHUB_API_TOKEN", CANARY)
        graded = judge.grade

        def fails_for_linus(asked: judge.Asked, *rest: object) -> records.Grade:
            if (asked.student, asked.exercise.name) == (_id("linus"), "copy_to_ranks"):
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
    told = book["students"][_id(student)]["exercises"]
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
    one = played["book"]["students"][_id("hedy")]["exercises"]["row_parallel"]
    points = {each["name"]: each["points"] for each in one["properties"]}
    assert points["traffic"] == 0.0 and points["forward values"] > 0
    assert 0 < one["points"] < one["of"]


def test_a_copied_cell_is_graded_and_the_note_says_which(played):
    """G12."""
    notes = played["book"]["students"][_id("margaret")]["exercises"]["copy_to_ranks"]["notes"]
    assert any("counts" in note and "copy_to_ranks" in note for note in notes)


def test_a_cell_that_is_gone_is_named_and_the_others_are_graded(played):
    """G13."""
    told = played["book"]["students"][_id("tim")]["exercises"]
    assert any("answer not found" in note for note in told["reduce_from_ranks"]["notes"])
    assert any("answer not found" in note for note in told["row_parallel"]["notes"])


def test_an_untouched_release_starts_nothing(played):
    """G22: nothing is launched for a stub."""
    lines = (played["folder"] / "out" / "results.jsonl").read_text().splitlines()
    own = [json.loads(line)["grade"] for line in lines]
    own = [grade for grade in own if grade["student"] == _id("donald")]
    assert own and {grade["state"] for grade in own} == {records.NOT_ATTEMPTED}
    assert all(grade["measured"]["launches"] == [] for grade in own)


def test_where_the_grader_failed_there_is_no_zero(played):
    before = played["first"]["students"][_id("linus")]
    assert before["exercises"]["copy_to_ranks"]["points"] is None and before["total"] is None
    assert played["book"]["students"][_id("linus")]["total"] == 10.0
    assert f"{_id('linus')}: copy_to_ranks" in played["said"]["second"].output


def test_a_damaged_file_is_told_and_is_nobodys_zero_in_silence(played):
    for name in ("katherine", "john"):
        student = played["book"]["students"][_id(name)]
        assert student["problems"] or set(_states(played["book"], name).values()) == {
            records.NOT_ATTEMPTED
        }
        assert student["problems"], name


def test_pages_show_what_happened_and_nothing_of_hidden_cases(played):
    pages = {path.stem: path.read_text() for path in (played["folder"] / "out/feedback").iterdir()}
    assert set(map(_id, STUDENTS)) <= set(pages)
    assert "answer not found" in pages[_id("tim")]
    assert "wait" in pages[_id("alan")]


def test_canvas_gets_a_total_for_each(played):
    with open(played["folder"] / "canvas.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    column = rows[0].index("Labs (42)")
    by_name = {row[0]: row[column] for row in rows[1:]}
    assert float(by_name[_id("ada")]) == 40.0 and float(by_name[_id("donald")]) == 0.0


def test_no_credential_of_the_grader_is_anywhere(played):
    """G26."""
    texts = [path.read_bytes() for path in Path(played["folder"]).rglob("*") if path.is_file()]
    texts += [result.output.encode() for result in played["said"].values()]
    assert not any(CANARY.encode() in text for text in texts)


def test_nothing_of_the_class_is_left_running(played):
    assert leftovers.of_runs() == []
