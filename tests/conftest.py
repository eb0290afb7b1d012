"""Shared by the tests: private folders for temporary files, and the proof that nothing is left."""

import atexit
import compileall
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests import leftovers, longest

# Two tests at a time do not wait for each other's runs. The tests of the queue name their own.
os.environ["LABS_QUEUE"] = "off"

# The course may lie here as somebody else's, which git does not trust by itself.
if "GIT_CONFIG_COUNT" not in os.environ:
    os.environ.update(
        GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0="*"
    )

# Temporary files of this process, and of all that it starts, go to a folder of its own. pytest's
# folders (tmp_path) stay where it keeps those of the last three times.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
_ROOT = Path(__file__).resolve().parents[1]
_OWN = Path(tempfile.mkdtemp(prefix="course-tests-"))
os.environ["TMPDIR"] = str(_OWN)
tempfile.tempdir = None
atexit.register(shutil.rmtree, _OWN, ignore_errors=True)


def pytest_configure(config):
    """Compile the course where Python is told to keep no bytecode, as in many containers.

    Each rank imports the course after its fork, and would compile it each time: a launch of four
    ranks costs twice the processor time. A worker of xdist finds what its controller made.
    """
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        for folder in ("labs", "solutions", "tests"):
            compileall.compile_dir(_ROOT / folder, quiet=2)


def pytest_collection_modifyitems(items):
    items[:] = longest.first(items, _ROOT)


@pytest.fixture(scope="session", autouse=True)
def no_temporary_file_is_left():
    """After all tests of this process its folder is empty."""
    yield
    leftovers.wait_until(lambda: not leftovers.files(_OWN))  # the last kernel is yet to end
    assert leftovers.files(_OWN) == []


@pytest.fixture
def private_tmp(tmp_path, monkeypatch):
    """Temporary files go to a folder of this test, whose name has a blank and other letters."""
    folder = tmp_path / "temporary ordner äλ"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield folder
    tempfile.tempdir = None


@pytest.fixture
def nothing_left(private_tmp):
    """After the test: no process and no folder of a run."""
    yield private_tmp
    assert leftovers.of_runs() == []
    assert leftovers.folders(private_tmp) == []
