"""A release as a student has it: in a folder of its own, with the course installed nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parents[1]
ANSWERS = {
    f"solutions/{path.name}": path.read_text(encoding="utf-8")
    for path in sorted((COURSE / "solutions").glob("*.py"))
}
"""What must not go out: the text of every file of answers."""
# An installation of the course that can be edited finds `solutions` wherever a program runs.
_ALONE = """
import sys
sys.meta_path[:] = [one for one in sys.meta_path if "__editable__" not in repr(one)]
sys.path[:] = [one for one in sys.path if one != {course!r}]
"""
_EXECUTE = """
import sys
from pathlib import Path
import nbformat
from labs.notebooks.execute import execute
for name in sys.argv[1:]:
    path = Path("notebooks", name).resolve()
    notebook = nbformat.read(path, 4)
    execute(notebook, path, cell_seconds=120)
    print(name, sum(cell.cell_type == "code" for cell in notebook.cells))
    nbformat.write(notebook, f"{name}.run")
"""


def environment(folder: Path) -> dict[str, str]:
    """Variables with which Python knows of this copy of the course alone."""
    alone = folder.parent / "alone"
    alone.mkdir(exist_ok=True)
    text = _ALONE.format(course=str(COURSE))
    (alone / "sitecustomize.py").write_text(text, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(alone), str(folder)])}


def python(folder: Path, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess:
    """Run this interpreter in the release."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment(folder), capture_output=True,
        text=True, timeout=seconds,
    )  # fmt: skip


def executed(folder: Path, *notebooks: str, seconds: float = 500) -> subprocess.CompletedProcess:
    """Run notebooks from the top; each is written, as run, beside the folder `notebooks`."""
    return python(folder, "-c", _EXECUTE, *notebooks, seconds=seconds)
