"""`make lab NOTEBOOK=...`: opens what there is, and names what there is instead of the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from labs.notebooks.opened import opened
from labs.notebooks.problem import NotebookProblem

ROOT = Path(__file__).resolve().parents[1]
FIRST, SECOND = "notebooks/00_ranks_and_collectives.ipynb", "notebooks/01_tp_linear_pair.ipynb"


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        (FIRST, FIRST),
        (str(ROOT / FIRST), FIRST),
        ("solutions/01_tp_linear_pair.ipynb", "solutions/01_tp_linear_pair.ipynb"),
        ("01", SECOND),
        ("01_tp_linear_pair", SECOND),
        ("tp_linear_pair", SECOND),
        ("01_tp_linear_pair.ipynb", SECOND),
    ],
)
def test_by_file_name_and_number(asked: str, path: str) -> None:
    assert opened(asked, ROOT) == path


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("notebooks/01_tp_linear.ipynb", SECOND),
        ("notebooks/00_ranks.ipynb", FIRST),
        ("tp_linear", SECOND),
        ("README.md", ""),
        ("", ""),
        ("9", ""),
    ],
)
def test_one_that_is_not_there(asked: str, nearest: str) -> None:
    with pytest.raises(NotebookProblem) as refused:
        opened(asked, ROOT)
    first, *named = str(refused.value).splitlines()
    assert first == f"There is no notebook {asked!r}. There are, the nearest first:"
    assert sorted(map(str.strip, named)) == sorted(
        f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")
    )
    assert named[0].strip() == nearest or not nearest


def test_one_outside_of_the_clone(tmp_path) -> None:
    there = tmp_path / "mine.ipynb"
    there.write_text("{}")
    with pytest.raises(NotebookProblem, match="lies outside of this clone"):
        opened(str(there), ROOT)


@pytest.fixture
def lab(tmp_path):
    """`scripts/lab.sh` where JupyterLab is a line that says how it was called."""
    place = tmp_path / "mes côurs d’été"
    for folder in ("scripts", ".venv/bin"):
        (place / folder).mkdir(parents=True)
    (place / "scripts" / "lab.sh").write_bytes((ROOT / "scripts" / "lab.sh").read_bytes())
    python = place / ".venv" / "bin" / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *jupyterlab*) echo "$*"; exit;; esac\nexec {sys.executable} "$@"'
    )
    python.chmod(0o755)

    def run(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", str(place / "scripts" / "lab.sh"), *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, encoding="utf-8", timeout=60,
        )  # fmt: skip

    return run


def test_lab_refuses_before_jupyterlab_starts(lab) -> None:
    done = lab("notebooks/01_tp_linear.ipynb")
    assert done.returncode == 2 and "jupyterlab" not in done.stdout
    assert "no notebook 'notebooks/01_tp_linear.ipynb'" in done.stderr and SECOND in done.stderr


@pytest.mark.parametrize(("asked", "path"), [("01", SECOND), (FIRST, FIRST), ("", FIRST)])
def test_lab_opens_the_notebook(lab, asked: str, path: str) -> None:
    done = lab(asked)
    assert done.returncode == 0 and f"default_url=/lab/tree/{path}\n" in done.stdout, done.stderr


@pytest.fixture
def clone(tmp_path):
    """`make` in a clone without .venv, whose setup says that it ran."""
    place = tmp_path / "mes côurs d’été"
    (place / "scripts").mkdir(parents=True)
    for name in ("Makefile", "scripts/lab.sh"):
        (place / name).write_bytes((ROOT / name).read_bytes())
    (place / "scripts" / "setup.sh").write_text("echo installing; exit 3")

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["make", "--no-print-directory", *arguments], cwd=place, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **more}, encoding="utf-8", timeout=60,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("asked", ["7", "notebooks/01_tp_linear.ipynb", "ä b"])
def test_make_lab_refuses_before_it_installs(clone, asked: str) -> None:
    done = clone("lab", f"NOTEBOOK={asked}")
    assert done.returncode != 0 and "installing" not in done.stdout, done.stdout
    assert f"There is no notebook '{asked}'. There are, the nearest first:" in done.stderr


@pytest.mark.parametrize("asked", [[], ["NOTEBOOK="], ["NOTEBOOK=03"], ["NOTEBOOK=" + FIRST]])
def test_make_lab_installs_for_one_that_is_there(clone, asked: list[str]) -> None:
    done = clone("lab", *asked)
    assert "installing" in done.stdout and "no notebook" not in done.stderr, done.stderr


def test_without_a_python_the_installation_has_its_say(clone) -> None:
    done = clone("lab", "NOTEBOOK=7", PYTHON="no-such-python")
    assert "installing" in done.stdout and "no notebook" not in done.stderr, done.stderr
