"""Cases of others under the command of continuous integration: see tests/cases.md."""

import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from labs.notebooks.normalise import as_text
from tests import leftovers

COURSE = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.ranks
NAME = "a lesson é.ipynb"

BEGIN = f"""
import os, signal, sys, threading
from pathlib import Path
sys.path.insert(0, {str(COURSE)!r})
import torch.distributed as dist
from labs import ranks, tp_linear_pair
_ = Path("kernel").write_text(str(os.getpid()))
"""
HANGS = """
def row_parallel(x_shard, w_shard, bias=None, group=None):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path({folder!r}, "rank").with_suffix(f".{{dist.get_rank()}}").touch()
    while True:
        pass
"""
LAB = (
    'tp_linear_pair.run(2, only="pair", worlds=(), row_parallel=row_parallel)  # the lab that hangs'
)
DIES = f"""
# the lab that loses its kernel
def kill():
    while len(list(Path().glob("rank.*"))) < 2:
        pass
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=kill).start()
{LAB}
"""


def command(path, seconds):
    """What `make test` runs, on this notebook alone; with another limit for a cell."""
    return [
        sys.executable, "-m", "pytest", "--nbval", "-n", "2", "--dist", "loadfile",
        "-c", "pyproject.toml", "--rootdir", str(path.parent), "-p", "no:cacheprovider",
        "--color=no", f"--nbval-cell-timeout={seconds}", str(path),
    ]  # fmt: skip


def in_ci(folder, *sources, seconds):
    """Exit code, output, seconds, and the processes of the kernel's runs that are left."""
    cells = [nbformat.v4.new_code_cell(source, execution_count=1) for source in sources]
    path = folder / NAME
    path.write_text(as_text(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    begun = time.monotonic()
    done = subprocess.run(
        command(path, seconds), cwd=COURSE, capture_output=True, encoding="utf-8", timeout=150,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    took = time.monotonic() - begun
    assert len(list(folder.glob("rank.*"))) == 2, done.stdout + done.stderr
    kernel = int((folder / "kernel").read_text())
    leftovers.wait_until(lambda: not leftovers.marked(kernel), 5)
    left = [process.pid for process in leftovers.marked(kernel)]
    return done.returncode, done.stdout + done.stderr, took, left + leftovers.folders(folder)


@pytest.mark.slow
def test_a_lab_that_hangs_is_named_and_ends(tmp_path):
    """G02: the cell is named, later cells are not run, it ends in its bound, no rank is left."""
    hangs = HANGS.format(folder=str(tmp_path))
    code, said, took, left = in_ci(tmp_path, BEGIN, hangs, LAB, "print('later')", seconds=15)
    assert code == 1, said
    assert f"{NAME}::Cell 2" in said and "the lab that hangs" in said
    assert "not run: Cell 2" in said and "ran out of time" in said
    assert "1 failed, 2 passed, 1 skipped" in said
    assert took < 100
    assert left == []


@pytest.mark.slow
def test_a_kernel_killed_amid_a_notebook_fails_at_once(tmp_path):
    """G08: no wait for a dead kernel; the notebook is named, and its ranks are gone."""
    hangs = HANGS.format(folder=str(tmp_path))
    code, said, took, left = in_ci(tmp_path, BEGIN, hangs, DIES, "print('later')", seconds=90)
    assert code == 1, said
    assert f"{NAME}::Cell 2" in said and "the kernel died while it ran this cell" in said
    assert "# the lab that loses its kernel" in said
    assert "1 failed, 2 passed, 1 skipped" in said
    assert took < 80
    assert left == []
