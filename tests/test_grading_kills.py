"""`labs grade` killed or interrupted; twenty random moments: python -m tests.grading_kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from labs.grading import gradebook, results
from labs.grading.sandbox.folder import Folder
from tests import grading_kills
from tests.grading_kills import Grader

CLASS = ("ada", "john", "niklaus")


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A class of three, and in `whole` a run that nobody broke off."""
    where = tmp_path_factory.mktemp("course")
    grading_kills.lay_out(where, CLASS)
    grading_kills.undisturbed(where / "given", where / "whole")
    return where


@pytest.fixture
def book(course: Path) -> bytes:
    return (course / "whole" / "out" / gradebook.FILE).read_bytes()


@pytest.mark.ranks
def test_killed_twice_and_taken_up_again(course: Path, tmp_path: Path, book: bytes) -> None:
    """As the first grade is on the disk, and amid the rest: the same gradebook, nothing left."""
    found = grading_kills.killed(course / "given", tmp_path, [1, 14], book)
    assert found.wrong == []
    assert 1 <= found.kept[0] < 24 and 14 <= found.kept[1] < 24


@pytest.mark.ranks
def test_interrupted(course: Path, tmp_path: Path, book: bytes) -> None:
    """Ctrl-C: code 130, a sentence, no traceback, no process and no folder; then it goes on."""
    out = grading_kills.prepared(tmp_path / "out")
    (temporary := tmp_path / "temporary").mkdir()
    grader = Grader(course / "given", out, temporary)
    code, said = grader.until(2, signal.SIGINT)
    assert code == 130 and "interrupted: what was graded is kept" in said, said
    assert "Traceback" not in said
    assert grader.left() == [] and list(temporary.iterdir()) == []
    kept, half = grading_kills.lines(out)
    assert len(kept) >= 2 and half == b"" and not (out / gradebook.FILE).exists()
    assert Grader(course / "given", out, temporary).end()[0] == 0
    assert grading_kills.compared(out, book, kept) == []


@pytest.mark.ranks
def test_what_would_be_wrong(course: Path, tmp_path: Path, book: bytes) -> None:
    """Another gradebook, a grade that is gone, half a line, a file: each is told."""
    whole = course / "whole" / "out"
    kept, _ = grading_kills.lines(whole)
    assert grading_kills.compared(whole, book, kept) == []

    def broken(name: str, change: object) -> list[str]:
        (out := tmp_path / name).mkdir()
        for file in whole.iterdir():
            (out / file.name).write_bytes(file.read_bytes())
        change(out)
        return grading_kills.compared(out, book, kept)

    def rows(out: Path, change: object) -> None:
        content = (out / results.FILE).read_bytes().splitlines(keepends=True)
        (out / results.FILE).write_bytes(b"".join(change(content)))

    told = json.loads(book)
    told["students"]["ada"]["total"] += 1
    assert "another gradebook" in broken(
        "book", lambda out: (out / gradebook.FILE).write_text(gradebook.text(told))
    )
    gone = broken("gone", lambda out: rows(out, lambda lines: lines[1:]))
    assert "grades that were on the disk are gone" in gone
    assert "results.jsonl does not hold each grade" in gone
    assert broken("half", lambda out: rows(out, lambda lines: [*lines, lines[0][:9]])) == [
        "results.jsonl ends in half a line"
    ]
    assert broken("file", lambda out: (out / ".x.part").write_text("")) == [
        "left in its folder: .x.part"
    ]


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path


class TestFolders:
    """Those of dead graders are taken away, and no others."""

    def dead(self) -> int:
        """The number of a process that has ended."""
        return int(subprocess.check_output([sys.executable, "-c", "import os; print(os.getpid())"]))

    def test_of_a_dead_grader(self, temporary: Path) -> None:
        left = temporary / f"labs-grade-{self.dead()}-x"
        (left / "3.0").mkdir(parents=True)
        (left / "3.0" / "job").write_text("")
        own = Folder()
        assert [path.name for path in temporary.iterdir()] == [Path(own.path).name]
        own.remove()
        own.remove()
        assert list(temporary.iterdir()) == []

    def test_of_a_living_one(self, temporary: Path) -> None:
        (temporary / f"labs-grade-{os.getppid()}-x").mkdir()
        first, second = Folder(), Folder()
        assert len(list(temporary.iterdir())) == 3
        first.remove()
        second.remove()

    def test_of_one_that_is_numbered_otherwise_where_it_runs(self, temporary: Path) -> None:
        """In a container: its number says nothing here, its lock does."""
        first = Folder()
        other = temporary / f"labs-grade-{self.dead()}-x"
        os.rename(first.path, other)
        second = Folder()
        assert other.exists()
        first.path = str(other)
        first.remove()
        second.remove()
        assert list(temporary.iterdir()) == []

    def test_links_and_other_names_stay(self, temporary: Path) -> None:
        (target := temporary / "target").mkdir()
        dead = self.dead()
        os.symlink(target, temporary / f"labs-grade-{dead}-link")
        for name in ("labs-grade-x-1", f"labs-grade-{dead}", f"labs-{dead}-1"):
            (temporary / name).mkdir()
        Folder().remove()
        assert len(list(temporary.iterdir())) == 5
