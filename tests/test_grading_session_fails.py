"""A run of `labs grade` that is refused, or whose sandbox or judge fails; its threads."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from labs.grading import judge, results, session
from labs.grading.records import GRADER_ERROR, Grade
from labs.grading.sandbox.launcher import Sandbox, SandboxError
from tests import grading_run
from tests.grading_answers import notebook
from tests.grading_run import (
    NAMES,
    Judge,
    Shut,
    book_of,
    grade,
)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return grading_run.two(tmp_path)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    with grading_run.stood_in(monkeypatch) as fake:
        yield fake


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

    @pytest.mark.parametrize("later", [False, True])
    def test_no_other_sandbox_can_be_made(
        self, later, given, tmp_path, judged, monkeypatch
    ) -> None:
        """For a second thread, or in place of one that failed: a sentence, and it can go on."""
        monkeypatch.setattr(session, "Sandbox", _only_one)
        judged.raises = [SandboxError("gone")] if later else []
        told = grade(given, tmp_path / "out", "--jobs", "1" if later else "2")
        assert told.exit_code == 1, told.output
        assert "the sandbox failed: no more processes; the same command goes on" in told.output
        monkeypatch.setattr(session, "Sandbox", Shut)
        assert grade(given, tmp_path / "out").exit_code == 0
        assert book_of(tmp_path / "out")["students"]["ada"]["total"] == 10.0

    def test_a_new_sandbox_is_closed_where_the_disk_is_full(
        self, given, tmp_path, judged, monkeypatch
    ) -> None:
        def full(kept: results.Results, grade: Grade, text: str) -> None:
            if grade.points:
                raise OSError("No space left on device")

        judged.raises = [SandboxError("gone")]
        monkeypatch.setattr(results.Results, "add", full)
        told = grade(given, tmp_path / "out", "--jobs", "1")
        assert isinstance(told.exception, OSError) and len(Shut.made) == 2
        assert [bool(one.closed) for one in Shut.made] == [True, True]

    def test_reading_what_was_handed_in(self, given, tmp_path, judged, monkeypatch) -> None:
        def gone(*_: object, **__: object) -> None:
            raise SandboxError("the sandbox has gone")

        monkeypatch.setattr(Shut, "launch", gone)
        told = grade(given, tmp_path / "out")
        assert told.exit_code == 1 and "the sandbox failed: the sandbox has gone" in told.output


class TestContainer:
    """A runtime that is there, with an image, and starts nothing all the same."""

    @pytest.fixture(autouse=True)
    def no_container(self, judged, monkeypatch) -> None:
        monkeypatch.setattr(session, "Sandbox", _no_container)

    def test_auto_takes_the_next(self, given, tmp_path) -> None:
        told = grade(given, tmp_path / "out")
        assert told.exit_code == 0, told.output
        assert "note: container: the container did not start" in told.output
        assert [one.isolation for one in Shut.made] == ["namespaces"] * len(Shut.made) != []

    def test_asked_for_it_is_refused(self, given, tmp_path) -> None:
        told = grade(given, tmp_path / "out", "--isolation", "container")
        words = "isolation container cannot be had here: the container did not start: no cgroup"
        assert told.exit_code == 2 and words in told.output, told.output
        assert Shut.made == []


def _no_container(name: str, **more: object) -> Shut:
    if name == "container":
        raise SandboxError("the container did not start: no cgroup")
    return Shut(name, **more)


def _only_one(name: str, **more: object) -> Shut:
    if Shut.made:
        raise SandboxError("no more processes")
    return Shut(name, **more)


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
        self.refused(grade(given, tmp_path / "file"), "cannot be written to: it is a file")
        for out in (tmp_path / "file" / "out", Path("/proc/labs-grade")):
            self.refused(grade(given, out), "cannot be written to: ")

    def test_a_folder_with_other_files(self, given, tmp_path, judged) -> None:
        """The course's own, say: nothing is written there, and its mode stays."""
        out = tmp_path / "notebooks"
        out.mkdir(mode=0o755)
        (out / "01.ipynb").write_text("{}")
        self.refused(grade(given, out), "holds other files than a grader's")
        assert [path.name for path in out.iterdir()] == ["01.ipynb"]
        assert out.stat().st_mode & 0o777 == 0o755

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
