"""What students chose as a name reaches no terminal as a command: notes, lines, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from labs.grading import collect, gradebook
from labs.grading.words import visible_lines
from tests.grading_answers import notebook
from tests.grading_records import book
from tests.grading_records import grade as graded
from tests.grading_run import IMPORTS, RIGHT, grade, stood_in
from tests.handed_in import NB, laid_out
from tests.test_cli import labs, refused

TITLE = "\x1b]0;x\x07"
"""Gives a terminal's window another title."""


def harmless(told: Result, name: str = "") -> None:
    """No control character, and where it stood its number."""
    text = told.stdout + told.stderr
    assert not set(text) & set("\x1b\x07\x9b\r")
    assert f"{name}⟨U+001B⟩]0;x⟨U+0007⟩" in text


def test_grade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "ada/x.ipynb": notebook([IMPORTS, RIGHT]), f"ada/y{TITLE}.pdf": b"x",
        f"eve/{TITLE}.ipynb": b"", f"bob{TITLE}.ipynb": NB, "bob.ipynb": NB,
    }  # fmt: skip
    given = laid_out(tmp_path / "in", files)
    with stood_in(monkeypatch):
        told = grade(given, tmp_path / "out", "--diff")
    assert told.exit_code == 0 and "note: ada: ada/y⟨U+001B⟩" in told.output
    assert "note: eve has no total: ⟨U+001B⟩" in told.output
    harmless(told)


def test_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one zip of a folder is what is refused."""
    given = laid_out(tmp_path / "in", {f"all{TITLE}.zip": b"x"})
    monkeypatch.setattr(collect, "_is_export", lambda _: True)
    with stood_in(monkeypatch):
        told = grade(given, tmp_path / "out")
    assert told.exit_code == 2
    for one in (told, labs("similar", str(given))):
        harmless(one, "all")


def test_similar(tmp_path: Path) -> None:
    files = {"ada.ipynb": notebook([IMPORTS, RIGHT]), f"eve/{TITLE}.ipynb": b""}
    told = labs("similar", str(laid_out(tmp_path / "in", files)))
    assert told.exit_code == 0
    harmless(told, "warning: eve: ")


@pytest.mark.parametrize("command", [["feedback"], ["export", "csv"]])
def test_what_reads_a_gradebook(tmp_path: Path, command: list[str]) -> None:
    name = f"ada{TITLE}"
    told = book(graded(name, "row", state="GRADER_ERROR"))
    folder = tmp_path / f"out{TITLE}"
    gradebook.write_to(told, folder)
    done = labs(*command, str(folder))
    assert done.exit_code == 0
    harmless(done)
    (folder / gradebook.FILE).write_text("{")
    done = labs(*command, str(folder))
    refused(done, "is not a gradebook of this version")
    harmless(done)


def test_release(tmp_path: Path) -> None:
    refused(
        done := labs("release", "--out", str(tmp_path / f"a{TITLE}" / "b")), "cannot be written"
    )
    harmless(done, "a")


def test_lines_stay_lines() -> None:
    assert visible_lines("a\x1b\nb\n") == "a⟨U+001B⟩\nb\n"
