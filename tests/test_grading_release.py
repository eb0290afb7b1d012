"""A release holds no answer in any form, is the same bytes each time, and runs to its end."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner

from labs import topics
from labs.cli import main
from labs.grading import release
from tests import released
from tests.released import ANSWERS, COURSE


@pytest.fixture(scope="module")
def course_files() -> dict[str, bytes]:
    return release.contents(COURSE)[0]


@pytest.fixture(scope="module")
def handout(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("released") / "hand out äλ"
    release.release(folder)
    return folder


@pytest.fixture
def compared(monkeypatch) -> None:
    """The comparison takes seconds, and the fixture `handout` was compared."""
    monkeypatch.setattr(release, "leaks", lambda files, sources: [])


def test_only_answers_are_found(course_files, handout) -> None:
    """Stubs and the formulas of practice pass, as in `handout`; so does code that is much alike."""
    formulas = "labs/formulas/collectives.py"
    assert (handout / formulas).read_bytes() == course_files[formulas]
    assert len(release.leaks({"labs/other.py": course_files[formulas]}, ANSWERS)) == 1
    harmless = b"def f(x, w, b):\n    y = x @ w\n    return y + b if b is not None else y\n"
    assert release.leaks({"labs/x.py": harmless}, ANSWERS) == []


def test_what_goes_out(handout) -> None:
    there = {path.name for path in handout.iterdir()}
    assert there == {
        ".gitignore", "LICENSE", "Makefile", "README.md", "constraints.txt", "environment.yml",
        "labs", "notebooks", "pyproject.toml", "scripts",
    }  # fmt: skip
    assert not (handout / "labs" / "grading").exists()
    assert len(list((handout / "notebooks").glob("*.ipynb"))) == len(topics.TOPICS)
    text = (handout / "README.md").read_text(encoding="utf-8")
    assert "release for students" in text and "| `labs/` |" in text
    for absent in ("Teaching it", "labs grade`", "`solutions/`", "instructor/", "CONTRIBUTING.md"):
        assert absent not in text
    assert os.access(handout / "scripts" / "lab.sh", os.X_OK)
    assert sorted(path.name for path in handout.parent.iterdir()) in (
        ["alone", handout.name], [handout.name],
    )  # fmt: skip


def test_two_releases_are_the_same_bytes(tmp_path, compared) -> None:
    for name in ("a.zip", "b.zip"):
        release.release(tmp_path / name)
    first = (tmp_path / "a.zip").read_bytes()
    assert first == (tmp_path / "b.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.zip") as packed:
        infos = packed.infolist()
        assert packed.testzip() is None
    names = [info.filename for info in infos]
    assert names == sorted(names) and all(n.startswith("model-parallelism-labs/") for n in names)
    assert {info.date_time for info in infos} == {(1980, 1, 1, 0, 0, 0)}
    modes = {info.external_attr >> 16 for info in infos if info.filename.endswith("lab.sh")}
    assert modes == {0o100755}


def test_answers_that_are_handed_over(tmp_path, compared) -> None:
    made = release.release(tmp_path / "out", with_answers=["01", "tp_linear_pair", "bubble_math"])
    assert made.given == ("tp_linear_pair", "bubble_math")
    assert sorted(path.name for path in (tmp_path / "out" / "solutions").iterdir()) == [
        "__init__.py", "bubble_math.py", "tp_linear_pair.py",
    ]  # fmt: skip
    text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "no\nanswers but those of tp_linear_pair, bubble_math, tests" in text
    assert "| `solutions/` |" in text and "instructor/" not in text
    assert made.exercises == 42 - 8 - 4


@pytest.mark.parametrize(
    ("make", "out", "force", "words"),
    [
        (None, "no/such/out.zip", False, "there is no folder"),
        (None, "out.txt", False, "neither a folder nor a zip"),
        (None, "out.tar.gz", False, "neither a folder nor a zip"),
        (None, "out.7z", False, "neither a folder nor a zip"),
        ("out.zip", "out.zip", False, "is there already; --force replaces"),
        ("out/thesis.doc", "out", False, "is there already"),
        ("out/thesis.doc", "out", True, "is no earlier release"),
        ("out", "out", True, "is no earlier release"),
        ("out.zip/x", "out.zip", True, "is no earlier release"),
    ],
)
def test_places_that_are_refused(tmp_path, make: str | None, out: str, force: bool, words) -> None:
    if make:
        file = tmp_path / make
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine", encoding="utf-8")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=words):
        release.release(tmp_path / out, force=force)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_course_is_not_overwritten() -> None:
    for place in (COURSE, COURSE.parent, COURSE / "labs" / "new", COURSE / "solutions" / "new"):
        with pytest.raises(
            ValueError, match="--force|holds the course itself|is inside the course"
        ):
            release.release(place, force=place != COURSE.parent)


def test_force_replaces_an_earlier_release(tmp_path, compared) -> None:
    out = tmp_path / "out"
    release.release(out, with_answers=["tp_linear_pair"])
    (out / ".venv").mkdir()
    release.release(out, force=True)
    assert not (out / "solutions").exists() and not (out / ".venv").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_copy_without_answers_cannot_be_released_from(tmp_path, handout) -> None:
    with pytest.raises(ValueError, match="not in this copy of the course"):
        release.release(tmp_path / "out", course=handout)


def test_a_clone_of_which_git_tells_nothing_is_refused(tmp_path, monkeypatch) -> None:
    """Else notes of the instructor's that were never committed go out, without a word."""
    for name in (*release.FILES, "labs/__init__.py", "labs/exam.py", "notebooks/x", "scripts/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    files, notes = release.contents(tmp_path)  # an archive that was unpacked: as it is
    assert "labs/exam.py" in files and notes == []
    (tmp_path / ".git").mkdir()
    with pytest.raises(ValueError, match="git does not say which files are.*: fatal: "):
        release.contents(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="git does not say which files are.*No such file"):
        release.contents(tmp_path)


def test_the_command(tmp_path, compared) -> None:
    done = CliRunner().invoke(main, ["release", "--out", str(tmp_path / "a.zip")])
    assert done.exit_code == 0 and "none is inside" in done.output
    assert "compared with the answers of 42 exercises" in done.output
    done = CliRunner().invoke(main, ["release", "--out", str(tmp_path / "a.zip")])
    assert done.exit_code == 2 and "--force" in done.output
    asked = ["release", "--out", str(tmp_path / "b"), "--with-answers", "tp_linear_pears"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 2 and "did you mean tp_linear_pair?" in done.output


def test_the_release_says_what_it_lacks(handout) -> None:
    """In a sentence, before anything is done."""
    for target in ("test", "bench", "faults", "notebooks"):
        done = subprocess.run(
            ["make", target], cwd=handout, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 2 and "it is a release for students" in done.stderr
    for asked in (["release", "--out", "x"], ["grade", "notebooks", "--out", "x"]):
        done = released.python(handout, "-m", "labs", *asked)
        assert done.returncode == 2 and "for students and has no grading" in done.stderr
    done = released.python(handout, "-m", "labs", "hint", "row_parallel", "3")
    assert "solutions/" not in done.stdout
    done = released.python(handout, "-m", "labs", "check", "tp_linear_pair:row_parallel")
    assert done.returncode == 2 and "row_parallel is not attempted yet" in done.stderr
    done = released.python(handout, "-m", "labs", "run", "bubble_math")
    assert done.returncode == 1 and "gpipe_order is not attempted yet" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert not (handout / ".venv").exists()


def _told(path: Path) -> list[str]:
    notebook = nbformat.read(path, 4)
    return [
        line
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
        for line in output.text.splitlines()
        if "left out: " in line or "Nothing was run" in line
    ]


@pytest.mark.ranks
def test_a_notebook_of_the_release_runs_to_its_end(handout) -> None:
    """What needs an answer says which; what needs none is run; no cell fails."""
    done = released.executed(handout, "02_bubble_math.ipynb")
    assert done.returncode == 0, done.stderr[-3000:]
    told = _told(handout / "02_bubble_math.ipynb.run")
    (handout / "02_bubble_math.ipynb.run").unlink()
    assert "it needs fill_and_drain (ValueError: a grid is a list for each rank" in told[1]
    assert told[2].startswith("This cell was left out: gpipe_order is not attempted yet")
    assert "Nothing was run for this cell: it needs gpipe_order." in told
    assert len(told) == 13


@pytest.mark.ranks
@pytest.mark.slow
def test_every_other_notebook_of_the_release_runs_to_its_end(handout) -> None:
    rest = [f"{t.lesson}.ipynb" for t in topics.TOPICS.values() if t.name != "bubble_math"]
    done = released.executed(handout, *rest)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == len(rest)
    for name in rest:
        (handout / f"{name}.run").unlink()


@pytest.mark.ranks
def test_with_the_answers_a_lab_needs_it_runs(tmp_path) -> None:
    folder = tmp_path / "out"
    release.release(folder, with_answers=["one_f_one_b"])
    done = released.python(folder, "-m", "labs", "run", "bubble_math", "--only", "formula")
    assert done.returncode == 0 and "not attempted" not in done.stdout
