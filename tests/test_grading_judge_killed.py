"""A judge that is killed leaves no rank, not even one that has asked to outlive its parent."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from labs.grading.sandbox import probe
from labs.grading.sandbox.folder import sweep
from labs.grading.sandbox.launcher import Sandbox
from labs.ranks.ship import Cell, Source

pytestmark = [pytest.mark.ranks, pytest.mark.namespace]
_HOLDS = """
import ctypes, time
def hold():
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # PR_SET_PDEATHSIG: none
    print("here", flush=True)
    for _ in range(600):
        time.sleep(0.05)
"""


def _judge() -> None:
    """In a process of its own: say who the zygote is, then judge what does not end."""
    sandbox = Sandbox("namespaces")
    why = probe.works(sandbox)
    print(why or sandbox.zygote, flush=True)
    if not why:
        sandbox.launch(Source("hold", [Cell("cell", _HOLDS)]), 2, limit=60)


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _lives(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _until(what: str, seconds: float, holds) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_killed_judge_leaves_no_rank() -> None:
    judge = subprocess.Popen(
        [sys.executable, "-m", "tests.test_grading_judge_killed"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    ranks: list[int] = []
    try:
        said = judge.stdout.readline().strip()
        if not said.isdecimal():
            pytest.skip(said)
        _until("no rank was started", 30, lambda: len(_children(int(said))) == 2)
        ranks = _children(int(said))
        time.sleep(1.5)  # they have met, and the function runs
        assert all(map(_lives, ranks))
        judge.kill()
        judge.wait()
        _until(f"{ranks} outlive the judge", 10, lambda: not any(map(_lives, ranks)))
        _its_folder_is_swept(judge.pid)
    finally:
        judge.kill()
        judge.wait()
        judge.stdout.close()
        for pid in ranks:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _its_folder_is_swept(judge: int) -> None:
    """By the next judge: not as long as somebody holds it."""
    [folder] = Path(tempfile.gettempdir()).glob(f"labs-grade-{judge}-*")
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    sweep()
    assert folder.exists()
    os.close(held)
    sweep()
    assert not folder.exists()


if __name__ == "__main__":
    _judge()
