"""One run of `labs grade`: taken up again, regraded, refused; one sandbox, two small files."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from labs.cli import main
from labs.grading import gradebook, isolation, judge, points, results, session
from labs.grading.records import GRADER_ERROR, NOT_ATTEMPTED, PASS, Grade
from labs.grading.sandbox.launcher import Sandbox, SandboxError
from tests.grading_answers import notebook

IMPORTS = "import torch\nimport torch.distributed as dist\n"
RIGHT = "def causal_block_mask(q_places, k_places):\n    return k_places <= q_places[:, None]\n"
OTHER = "def causal_block_mask(q_places, k_places):\n    return k_places < q_places[:, None]\n"
ZIGZAG = "def zigzag_positions(rank, ranks, length):\n    ...\n"
NAMES = ("sequence_scatter_gather", "merge_partials", "causal_block_mask", "ring_bytes",
         "ring_forward", "zigzag_positions", "ring_backward")  # fmt: skip


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A class of two: one has the mask, the other as well, and a stub."""
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(notebook([IMPORTS, RIGHT]))
    (folder / "grace.ipynb").write_bytes(notebook([IMPORTS, RIGHT, ZIGZAG]))
    return folder


class Judge:
    """Stands in for the judge: what was asked for, and a grade by the answer's text."""

    def __init__(self) -> None:
        self.asked: list[judge.Asked] = []
        self.raises: list[Exception] = []  # the next ones
        self.points = 10.0

    @property
    def attempted(self) -> list[tuple[str, str]]:
        """Students and exercises whose answers were judged, in any order."""
        return sorted((one.student, one.exercise.name) for one in self.asked if one.source)

    def __call__(self, asked: judge.Asked, sandbox: object, secret: bytes, shares: object) -> Grade:
        self.asked.append(asked)
        if asked.source is not None and self.raises:
            raise self.raises.pop(0)
        one, held = asked.exercise, asked.source is not None
        right = held and "<=" in asked.source.cells[-1].text
        return Grade(
            asked.student, one.topic, one.name, one.kind,
            PASS if right else "FAIL" if held else NOT_ATTEMPTED, self.points if right else 0.0,
            10.0 if one.kind == "graded" else 0.0, "namespaces", notes=asked.notes,
        )  # fmt: skip


class Shut:
    """Stands in for a sandbox: reads files here, as the tests' own."""

    made: list[Shut]

    def __init__(self, name: str, **_: object) -> None:
        self.isolation, self.launched, self.closed = name, [], 0
        self.made.append(self)

    def launch(self, function: object, ranks: int, *, args: tuple, limit: float) -> object:
        """As labs.grading.reading asks for it."""
        return type("Run", (), {"values": [function(*args)]})

    def close(self) -> None:
        """Counted."""
        self.closed += 1


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    fake = Judge()
    monkeypatch.setattr(Shut, "made", [], raising=False)
    monkeypatch.setattr(session, "Sandbox", Shut)
    monkeypatch.setattr(session.probe, "works", lambda sandbox: "")
    monkeypatch.setattr(session.isolation, "unsuitable", lambda name: "")
    monkeypatch.setattr(judge, "grade", fake)
    yield fake
    assert all(one.closed for one in Shut.made)


def grade(given: Path, out: Path, *more: str) -> Result:
    """`labs grade`, here."""
    return CliRunner().invoke(main, ["grade", str(given), "--out", str(out), *more])


def book_of(out: Path) -> dict:
    return json.loads((out / gradebook.FILE).read_bytes())


def lines(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / results.FILE).read_text().splitlines()]


class TestTakenUpAgain:
    def test_the_same_command_grades_nothing_again(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        first = grade(given, out)
        assert first.exit_code == 0, first.output
        assert judged.attempted == [("ada", NAMES[2]), ("grace", NAMES[2])]
        assert len(lines(out)) == 2 * len(NAMES)
        before, judged.asked = (out / gradebook.FILE).read_bytes(), []
        again = grade(given, out)
        assert "0 answers to grade, 14 graded before" in again.output and judged.asked == []
        assert (out / gradebook.FILE).read_bytes() == before

    def test_half_a_line_is_cut_off_and_graded_again(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        whole, book = (out / results.FILE).read_bytes(), (out / gradebook.FILE).read_bytes()
        (out / results.FILE).write_bytes(whole[:-40])
        judged.asked = []
        told = grade(given, out)
        assert "1 answer to grade" in told.output and len(judged.asked) == 1
        assert len(lines(out)) == 14 and (out / gradebook.FILE).read_bytes() == book

    def test_a_changed_file_is_graded_anew_where_it_changed(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        judged.asked = []
        (given / "ada.ipynb").write_bytes(notebook([IMPORTS, OTHER, ZIGZAG]))
        told = grade(given, out, "--diff")
        asked = [(one.student, one.exercise.name, one.round) for one in judged.asked]
        assert asked == [("ada", NAMES[2], 1)]
        assert f"ada: {NAMES[2]}: PASS 10 of 10 → FAIL 0 of 10" in told.output
        changed = [line.split(":")[0] for line in told.output.splitlines() if "→" in line]
        assert set(changed) == {"ada"}

    def test_a_run_that_was_stopped_goes_on(self, given, tmp_path, judged) -> None:
        """KeyboardInterrupt amid it: code 130, what was graded is kept, sandboxes are closed."""
        whole = tmp_path / "whole"
        (secret := tmp_path / "out").mkdir()
        grade(given, whole)
        (secret / session.SECRET).write_text((whole / session.SECRET).read_text())
        stop = threading.Event()
        real, kept = judge.grade, []

        def interrupts(*args: object) -> Grade:
            kept.append(1)
            if len(kept) == 4:
                stop.set()
            return real(*args)

        def said(text: str) -> None:
            if stop.is_set():
                raise KeyboardInterrupt

        wanted = session.Wanted(given, secret, points.load(), jobs=1)
        judge.grade = interrupts
        try:
            with pytest.raises(KeyboardInterrupt):
                session.run(wanted, said)
        finally:
            judge.grade = real
        assert 3 <= len(lines(secret)) < 14 and not (secret / gradebook.FILE).exists()
        assert grade(given, secret).exit_code == 0
        assert (secret / gradebook.FILE).read_bytes() == (whole / gradebook.FILE).read_bytes()

    def test_what_a_killed_run_half_wrote_is_taken_away(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        out.mkdir()
        for name in (gradebook.FILE, session.SUBMISSIONS):
            (out / f".{name}.x1.part").write_text("{")
        (out / "notes.part").write_text("mine")
        grade(given, out)
        assert sorted(p.name for p in out.iterdir()) == sorted(
            [gradebook.FILE, results.FILE, session.SECRET, session.LOCK, session.SUBMISSIONS,
             "notes.part"]
        )  # fmt: skip


class TestRegrade:
    def test_all_with_other_inputs(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        judged.asked = []
        told = grade(given, out, "--regrade", "--diff")
        assert {one.round for one in judged.asked} == {1} and len(judged.asked) == 14
        assert "no grade changed" in told.output

    @pytest.mark.parametrize(
        ("only", "many"),
        [(("ada",), 7), ((NAMES[2],), 2), (("ada", NAMES[2]), 8), (("ring_attention",), 14)],
    )
    def test_only_some(self, only, many, given, tmp_path, judged) -> None:
        """By student, by exercise, either of them, by notebook."""
        out = tmp_path / "out"
        grade(given, out)
        judged.asked = []
        told = grade(given, out, "--regrade", *(part for one in only for part in ("--only", one)))
        assert told.exit_code == 0, told.output
        assert len(judged.asked) == many
        assert all(
            set(only) & {one.student, one.exercise.name, one.exercise.topic} for one in judged.asked
        )

    def test_a_changed_grade_stands_in_the_difference(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        judged.points = 5.0
        told = grade(given, out, "--regrade", "--diff", "--only", "grace")
        assert f"grace: {NAMES[2]}: PASS 10 of 10 → PASS 5 of 10" in told.output
        assert "ada: causal" not in told.output
        assert len(lines(out)) == 14 + 7  # what was is kept

    def test_only_without_regrade(self, given, tmp_path, judged) -> None:
        told = grade(given, tmp_path / "out", "--only", "ada")
        assert told.exit_code == 2 and "--only says what --regrade grades again" in told.output
        assert not (tmp_path / "out").exists() and Shut.made == []


class TestTheGraderFails:
    def test_a_sandbox_that_fails_is_replaced(self, given, tmp_path, judged) -> None:
        judged.raises = [SandboxError("gone")]
        told = grade(given, tmp_path / "out", "--jobs", "1")
        assert told.exit_code == 0, told.output
        assert len(Shut.made) == 2 and Shut.made[0].closed >= 1
        assert book_of(tmp_path / "out")["students"]["ada"]["exercises"][NAMES[2]]["points"] == 10

    def test_twice_is_no_grade_and_is_tried_again(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        judged.raises = [ZeroDivisionError("a"), ZeroDivisionError("b")]
        told = grade(given, out, "--jobs", "1")
        assert told.exit_code == 1 and "the grader failed for 1" in told.output
        one = book_of(out)["students"]["ada"]
        assert (one["exercises"][NAMES[2]]["state"], one["total"]) == (GRADER_ERROR, None)
        assert (out / "errors.log").read_text().count("ZeroDivisionError: ") == 2
        again = grade(given, out)
        assert again.exit_code == 0 and "1 answer to grade" in again.output
        assert book_of(out)["students"]["ada"]["total"] == 10.0


class TestRefused:
    """A sentence and code 2, before any sandbox is started."""

    def refused(self, told: Result, words: str) -> None:
        assert told.exit_code == 2 and words in told.output, told.output
        assert "Traceback" not in told.output and Shut.made == []

    @pytest.mark.parametrize("line", ["{", "[]", "{}", '{"digest": "x", "grade": {}}', "\0"])
    def test_results_that_are_none(self, line, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        grade(given, out)
        before = (out / results.FILE).read_text().splitlines()
        (out / results.FILE).write_text("\n".join([before[0], line, *before[1:]]) + "\n")
        Shut.made.clear()
        self.refused(grade(given, out), "results.jsonl, line 2, is no grade")
        assert (out / results.FILE).read_text().splitlines() == [before[0], line, *before[1:]]

    def test_a_folder_in_use(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        out.mkdir()
        held = os.open(out / session.LOCK, os.O_CREAT | os.O_RDWR)
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            self.refused(grade(given, out), "another `labs grade` is at work in")
        finally:
            os.close(held)
        assert grade(given, out).exit_code == 0

    def test_a_folder_that_cannot_be(self, given, tmp_path, judged) -> None:
        (tmp_path / "file").write_text("")
        for out in (tmp_path / "file", tmp_path / "file" / "out", Path("/proc/labs-grade")):
            self.refused(grade(given, out), "cannot be written to: ")

    def test_a_secret_that_is_none(self, given, tmp_path, judged) -> None:
        out = tmp_path / "out"
        out.mkdir()
        (out / session.SECRET).write_text("what?")
        self.refused(grade(given, out), "holds no secret")

    def test_no_submissions(self, tmp_path, judged) -> None:
        (tmp_path / "given").mkdir()
        for given in (tmp_path / "given", tmp_path / "nothing"):
            told = grade(given, tmp_path / "out")
            assert told.exit_code == 2 and given.name in told.output, told.output
        assert Shut.made == [] and not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (("--isolation", "vault"), "there is no isolation 'vault'; there are auto, container"),
            (("--notebook", "ring_atention"), "did you mean ring_attention"),
            (("--jobs", "0"), "--jobs must be 1 to 16, got 0"),
            (("--jobs", "17"), "--jobs must be 1 to 16, got 17"),
            (("--points", "none.toml"), "none.toml: it cannot be read"),
        ],
    )
    def test_options(self, more, words, given, tmp_path, judged, monkeypatch) -> None:
        monkeypatch.undo()  # the isolation's own words
        monkeypatch.setattr(session, "Sandbox", Shut)
        monkeypatch.setattr(Shut, "made", [], raising=False)
        self.refused(grade(given, tmp_path / "out", *more), words)

    def test_files_without_an_exercise(self, given, tmp_path, judged) -> None:
        for file in given.iterdir():
            file.write_bytes(notebook(["x = 1\n"]))
        told = grade(given, tmp_path / "out")
        assert told.exit_code == 2 and "--notebook 01 grades one all the same" in told.output
        told = grade(given, tmp_path / "out", "--notebook", "ring_attention")
        assert told.exit_code == 0 and judged.attempted == []


def test_a_digest_is_of_the_text_alone() -> None:
    from labs.ranks.ship import Cell, Source

    one = Source("f", [Cell("cell [3]", "def f(): return 1\n")])
    assert results.digest(one) == results.digest(replace(one))
    for other in (
        None,
        Source("f", [Cell("cell [3]", "def f(): return 2\n")]),
        Source("f", [*one.cells, one.cells[0]]),
    ):
        assert results.digest(other) != results.digest(one)


@pytest.mark.ranks
def test_with_a_real_sandbox(given: Path, tmp_path: Path) -> None:
    """Right, with a stub beside: points, states, isolation, what was measured kept out of it."""
    out = tmp_path / "out"
    told = grade(given, out, "--jobs", "1")
    assert told.exit_code == 0, told.output
    book = book_of(out)
    for name in ("ada", "grace"):
        found = book["students"][name]["exercises"]
        assert found[NAMES[2]]["state"] == PASS and found[NAMES[2]]["points"] == 10.0
        assert {found[other]["state"] for other in NAMES if other != NAMES[2]} == {NOT_ATTEMPTED}
        assert "seconds" not in found[NAMES[2]] and "measured" not in found[NAMES[2]]
    assert f"isolation: {isolation.LEVELS[book['isolation']].words}" in told.output
    assert oct(out.stat().st_mode & 0o777) == "0o700"
    assert oct((out / session.SECRET).stat().st_mode & 0o777) == "0o600"


def test_one_thread_judges_at_a_time_and_others_while_ranks_run(
    given: Path, tmp_path: Path, judged: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judges draw from torch's own generator: two at once gave right answers wrong references."""
    judging, running, most, both = [], [], [0], threading.Event()

    def judge_something(asked: judge.Asked) -> None:
        judging.append(asked)
        time.sleep(0.01)
        most[0] = max(most[0], len(judging))
        judging.pop()

    def in_turn(asked: judge.Asked, sandbox: Sandbox, *rest: object) -> Grade:
        judge_something(asked)
        with Sandbox._others_turn(sandbox):  # as `launch` does
            running.append(asked)
            if len(running) > 1:
                both.set()
            both.wait(5)
            running.pop()
        judge_something(asked)
        return judged(asked, sandbox, *rest)

    monkeypatch.setattr(judge, "grade", in_turn)
    grade(given, tmp_path / "out", "--jobs", "2")
    assert most == [1], "two judged at once"
    assert both.is_set(), "nobody judged while another's ranks ran"
