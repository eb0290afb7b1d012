"""Finding, adopting and ending processes, with the system's own lists and without them."""

import os
import subprocess
import sys
import time

import pytest

from labs.ranks import processes
from tests import leftovers

TREE = "import subprocess, sys; subprocess.Popen(['sleep', '30']); sys.stdin.read()"


@pytest.fixture
def tree():
    """A process with one child that sleeps."""
    top = subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE)
    assert leftovers.wait_until(lambda: len(processes.children(top.pid)) == 1)
    (below,) = processes.children(top.pid)
    yield top, below
    os.kill(below, 9)
    top.kill()
    top.wait()
    top.stdin.close()


@pytest.mark.parametrize("files", [True, False])
def test_children_and_descendants(tree, monkeypatch, files):
    """Without /proc's lists of children (some sandboxes) psutil finds the same."""
    if files and not processes._CHILDREN_FILES:
        pytest.skip("this system has no lists of children in /proc")
    monkeypatch.setattr(processes, "_CHILDREN_FILES", files)
    top, below = tree
    assert processes.children(top.pid) == [below]
    assert processes.descendants(top.pid) == [below]
    assert top.pid in processes.children(os.getpid())
    assert processes.children(2**22 + 1) == []


def test_a_zombie_is_not_alive():
    child = os.fork()
    if child == 0:
        time.sleep(0.1)
        os._exit(0)
    assert processes.alive(child)
    assert leftovers.wait_until(lambda: not processes.alive(child))
    os.waitpid(child, 0)
    assert not processes.alive(child)


def test_whoever_outlives_its_parent_is_adopted_and_ended():
    code = """
import os, time
from labs.ranks import processes
processes.adopt_orphans()
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execve("/bin/sleep", ["sleep", "61.3"], {})
time.sleep(0.2)
assert processes.end_descendants()
print(len(processes.descendants(os.getpid())))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n", done.stderr
    sleeping = subprocess.run(["pgrep", "-f", "^sleep 61.3"], capture_output=True, text=True)
    assert sleeping.stdout == ""


def test_a_child_dies_with_its_parent():
    code = """
import os, time
from labs.ranks import processes
parent = os.getpid()
child = os.fork()
if child == 0:
    processes.die_with_parent(parent)
    time.sleep(30)
print(child, flush=True)
time.sleep(0.2)
os.kill(parent, 9)
"""
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert leftovers.wait_until(lambda: not processes.alive(int(done.stdout)), 5)
