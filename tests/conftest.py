"""Shared by the tests: a private folder for runs, and the proof that a run left nothing."""

import tempfile

import pytest

from tests import leftovers


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
