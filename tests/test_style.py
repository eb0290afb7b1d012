"""The form of the code, notebooks included, is what ruff makes of it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("how", [["check"], ["format", "--check"]], ids=["check", "format"])
def test_ruff_has_no_complaint(how):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *how, "--no-cache", "."],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
