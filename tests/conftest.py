"""Shared by the tests: a private folder for runs, and the proof that a run left nothing."""

import os
import tempfile

import pytest

from tests import leftovers

# Two tests at a time do not wait for each other's runs. The tests of the queue name their own.
os.environ["LABS_QUEUE"] = "off"


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
