"""The first cell makes `import labs` work in the kernel and in the ranks, wherever one starts."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from labs.notebooks.bootstrap import BOOTSTRAP, BOOTSTRAP_SOURCE

ROOT = Path(__file__).resolve().parents[1]

# What a rank does: a new process of the same interpreter, with the environment it was given.
# -S leaves site-packages out, so an installed course cannot help.
IN_A_RANK = """
import subprocess
rank = subprocess.run(
    [sys.executable, "-S", "-c", "import labs; print(labs.__file__)"],
    cwd=RANK_FOLDER, capture_output=True, encoding="utf-8",
)
print(labs.__file__, rank.stdout.strip() or rank.stderr, sep="\\n")
"""


@pytest.fixture
def clone(tmp_path):
    """A checkout in little, in a folder with a blank and a letter beyond ASCII."""
    root = tmp_path / "content" / "model parallelism é"
    for package in ("labs", "labs/ranks"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").write_text("")
    (root / "notebooks" / "deeper").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    return root


def run(cwd, *, isolated=True, again=False, **environment):
    """Run the cell as a fresh kernel in `cwd` would; the files of `labs` in kernel and rank."""
    source = BOOTSTRAP * (2 if again else 1)
    source += IN_A_RANK.replace("RANK_FOLDER", repr(str(Path(cwd).anchor)))
    done = subprocess.run(
        [sys.executable, *(["-I"] if isolated else []), "-S", "-c", source],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    return [Path(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.parametrize("start", [".", "notebooks", "notebooks/deeper", ".."])
def test_found_in_kernel_and_rank(clone, start):
    """From the repository, from notebooks/, below it, and (Colab) from above a fresh clone."""
    found, errors = run(clone / start)
    assert found == [clone / "labs" / "__init__.py"] * 2, errors


def test_installed_package_is_used_elsewhere(clone, tmp_path):
    """PYTHONPATH stands for an installation: it, too, reaches kernel and ranks by itself."""
    found, errors = run(tmp_path / "elsewhere", isolated=False, PYTHONPATH=str(clone))
    assert found == [clone / "labs" / "__init__.py"] * 2, errors


def test_checkout_wins_over_a_stranger_of_the_same_name(clone, tmp_path):
    stranger = tmp_path / "site" / "labs"
    stranger.mkdir(parents=True)
    (stranger / "__init__.py").write_text("")
    found, errors = run(clone / "notebooks", isolated=False, PYTHONPATH=str(stranger.parent))
    assert found == [clone / "labs" / "__init__.py"] * 2, errors


def test_running_the_cell_twice_changes_nothing_more(clone):
    found, errors = run(clone, again=True)
    assert found == [clone / "labs" / "__init__.py"] * 2, errors


def test_not_found_says_what_to_do(clone, tmp_path):
    found, errors = run(tmp_path / "elsewhere")
    assert found == []
    assert "No module named 'labs'" in errors
    assert "clone the repository" in BOOTSTRAP.splitlines()[-1]


def test_cell_is_short_and_silent():
    assert len(BOOTSTRAP.splitlines()) <= 11
    assert "print" not in BOOTSTRAP and "pip" not in BOOTSTRAP


def test_the_real_course_can_be_imported_without_its_packages():
    """`import labs` needs no torch and no site-packages: nothing heavy in a kernel's first cell."""
    found, errors = run(ROOT / "tests")
    assert found == [ROOT / "labs" / "__init__.py"] * 2, errors


@pytest.mark.parametrize("folder", ["notebooks", "solutions"])
def test_every_notebook_starts_with_it(folder):
    for path in sorted((ROOT / folder).glob("*.ipynb")):
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        first = next(cell for cell in notebook.cells if cell.cell_type == "code")
        assert first.source == BOOTSTRAP_SOURCE, path.name
