"""The proof that tests leave no temporary file is one that can fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHILD = "import subprocess, sys, tempfile\n\ndef test_one():\n    run = 'import tempfile; {}'\n"
CHILD += "    subprocess.run([sys.executable, '-c', run], check=True)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("tempfile.mkstemp('.json')", "1 error"),
        ("tempfile.TemporaryFile()", "1 passed"),
    ],
)
def test_what_a_child_of_a_test_leaves_is_seen(private_tmp, what: str, word: str) -> None:
    """A session over one test, with this folder's conftest, which clears up in either case."""
    file = private_tmp.parent / "test_made.py"
    file.write_text(CHILD.format(what.replace("'", '"')))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider",
         "-c", os.devnull, "--rootdir", str(file.parent), str(file)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, encoding="utf-8", timeout=120,
    )  # fmt: skip
    assert word in done.stdout.splitlines()[-1], done.stdout
    assert list(private_tmp.iterdir()) == []
