"""A queue of a test's own, and other people's processes that stand in it."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from labs.ranks import devices, queue
from tests import leftovers

COURSE = Path(__file__).resolve().parents[1]


def own_queue(monkeypatch):
    """A queue of this test's own, on a machine with two cores. Yields its name."""
    own = f"test-{os.getpid()}-{time.monotonic_ns() % 10**9}"
    monkeypatch.setenv("LABS_QUEUE", own)
    monkeypatch.setattr(devices, "cores", lambda: 2)
    yield own
    assert queue.tickets(own) == []


def another(name, code, *words):
    """Another person's process, which has the two cores and the queue too. Its lines are read."""
    head = (
        "from labs.ranks import devices, queue; devices.cores = lambda: 2\nimport sys, time, os\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, words)],
        cwd=COURSE, env={**os.environ, "LABS_QUEUE": name}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


HOLDS = """
    with queue.turn(int(sys.argv[1])):
        print("turn", flush=True)
        sys.stdin.readline()
"""


def holder(name, n):
    """A process that has its turn and keeps it until a line or its end."""
    process = another(name, HOLDS, n)
    assert process.stdout.readline() == "turn\n"
    return process


def end(process):
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


def wait_for(name, count):
    assert leftovers.wait_until(lambda: len(queue.tickets(name)) == count)
