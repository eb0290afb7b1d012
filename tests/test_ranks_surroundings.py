"""Runs amid trouble: what learners leave running, odd folders, a machine short of much."""

import errno
import importlib
import multiprocessing.synchronize
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from labs import ranks
from labs.cli import doctor
from labs.ranks import environment, supervised
from tests import leftovers, on_ranks

COURSE = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


def run(function, n=2, *args, **options):
    return ranks.launch(function, ranks=n, args=args, status=False, **options)


def failed(function, n, *args, **options):
    with pytest.raises(ranks.RunFailed) as caught:
        run(function, n, *args, **options)
    return caught.value.run


@pytest.mark.parametrize(
    ("what", "note"),
    [
        ("thread", "rank 1 had returned but still ran (a thread that does not end?)"),
        ("child", "all ranks had returned but 2 process(es) that they started still ran"),
    ],
)
def test_a_run_whose_ranks_have_returned_is_not_lost(what, note):
    begun = time.monotonic()
    done = run(on_ranks.leave_behind, 2, what)
    assert (done.values, done.note) == ([0, 1], f"{note}; ended after 1.5 s")
    assert time.monotonic() - begun < 8
    again = run(on_ranks.total, 2)
    assert (again.values[0][0], again.note) == (3, None)


def test_the_kernel_killed_while_its_supervisor_starts(nothing_left):
    code = """
        from labs import ranks
        from tests import on_ranks
        ranks.launch(on_ranks.total, ranks=2, status=False, mode="warm")
    """
    kernel = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=COURSE)
    assert leftovers.wait_until(lambda: leftovers.folders(nothing_left), 60, 0.001)
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.wait()
    assert leftovers.marked(kernel.pid)  # it had not read a word of the kernel's yet
    assert leftovers.wait_until(lambda: not leftovers.marked(kernel.pid), 60)
    assert leftovers.folders(nothing_left) == []


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_files_beside_the_notebook_that_are_named_like_pythons_own(mode, tmp_path, monkeypatch):
    names = ("random", "json", "queue", "numbers", "signal", "copy")
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('the learner's {name}')\n")
    (tmp_path / f"beside_{mode}_too.py").write_text(
        "import json, random\ndef found():\n    return random.__file__\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    beside = importlib.import_module(f"beside_{mode}_too")
    monkeypatch.setenv("PYTHONPATH", os.pathsep + os.environ.get("PYTHONPATH", ""))
    assert run(beside.found, 1, mode=mode).values == [beside.found()]


@pytest.mark.parametrize("error", [FileNotFoundError(2, "gone"), OSError(30, "read-only")])
def test_without_semaphores_ranks_start_cold_and_the_doctor_says_so(error, monkeypatch):
    def refused(*args):
        raise error

    monkeypatch.delenv("LABS_MODE", raising=False)
    monkeypatch.setattr(multiprocessing.synchronize._multiprocessing, "SemLock", refused)
    environment.can_make_semaphores.cache_clear()
    try:
        mode, why = environment.default_mode()
        finding = doctor._shared_memory()
    finally:
        environment.can_make_semaphores.cache_clear()
    assert (mode, finding.ok, finding.needed) == ("cold", False, False)
    assert why == "no semaphore can be made (/dev/shm is missing, full or read-only)"
    assert "no semaphore can be made; warm mode and NCCL need it" in finding.told


def test_with_semaphores_ranks_start_warm(monkeypatch):
    monkeypatch.delenv("LABS_MODE", raising=False)
    assert environment.default_mode() == ("warm", "fork is safe on Linux")
    assert doctor._shared_memory().ok


def test_a_kernel_with_more_than_1024_open_files():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 1200 > limits[1] != resource.RLIM_INFINITY:
        pytest.skip("this system allows fewer than 1200 open files")
    opened = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(1200, limits[0]), limits[1]))
        while not opened or opened[-1] < 1030:
            opened.append(os.dup(0))
        distant = supervised.Supervised("cold")
        distant.wait_ready()
        assert distant._line.fileno() > 1023
        distant.close()
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("how", ["descriptor", "stream"])
def test_a_rank_that_closed_its_output_still_reports(how):
    """And temporary files, torch's of a rank's end among them, go into the run's folder."""
    assert run(on_ranks.close_output, 1, how, mode="warm").values == [True]


@pytest.mark.parametrize("mode", ["warm", "cold"])
def test_the_current_folder_was_removed(mode, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.syspath_prepend("")
    gone.rmdir()
    assert run(on_ranks.total, 1, mode=mode).values[0][0] == 1


def test_the_folder_of_the_run_was_removed():
    done = failed(on_ranks.raise_odd, 2, "folder")
    first = done.failure.partition("\n")[0]
    assert first == "the temporary folder of the run was removed while it ran"
    assert done.values == [None, None]


def test_no_control_characters_in_what_is_shown():
    done = failed(on_ranks.raise_odd, 1, "control")
    assert done.failure.startswith("rank 0: ValueError: red: no one\n  two\ttab\n")
    assert done.output == "rank 0: abbold"


def test_a_message_of_megabytes_is_cut_on_the_rank():
    begun = time.monotonic()
    done = failed(on_ranks.raise_odd, 1, "long")
    assert time.monotonic() - begun < 6
    assert done.failure.startswith("rank 0: ValueError: beginslong/")
    assert "long/ ends\n" in done.failure
    assert "[… 11,998,210 characters left out …]" in done.failure
    assert len(done.failure) < 3000


class FullDisk:
    f_bavail, f_frsize, f_files, f_favail = 3, 4096, 100, 50


def test_a_full_disk_is_named_first(monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda folder: FullDisk())
    done = failed(on_ranks.fail, 1, 0, "exit")
    assert done.failure.startswith("the disk of the temporary folder is full")
    assert "\nrank 0 ended without a word: exit code 7" in done.failure


def test_no_room_for_the_arguments(monkeypatch):
    def refused(self, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refused)
    done = failed(on_ranks.total, 1)
    assert done.failure == (
        "the ranks' function and arguments could not be written to a file: No space left on device"
    )
