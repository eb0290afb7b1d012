"""Runs that end badly: what is reported, that nothing is left, that the next run works."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from labs import ranks
from labs.ranks import supervised
from tests import leftovers, on_ranks

COURSE = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


def run(function, n=2, *args, **options):
    return ranks.launch(function, ranks=n, args=args, status=False, **options)


def failed(function, n, *args, **options):
    with pytest.raises(ranks.RunFailed) as caught:
        run(function, n, *args, **options)
    assert str(caught.value) == caught.value.run.failure
    return caught.value.run


def works():
    assert run(on_ranks.total, 2).values[0][0] == 3


def when_spinning(folder, n, then):
    """Call `then` in a thread once `n` ranks spin."""

    def wait():
        assert leftovers.wait_until(lambda: len(list(folder.glob("spins.*"))) == n)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def ports(folder):
    return {int(file.read_text()) for file in folder.glob("spins.*")}


def test_a_rank_that_raises_is_named_with_its_line():
    """A17: the rank, the error and the failing line; torchrun's own summary is not in the way."""
    done = failed(on_ranks.fail, 2, 1, "raise")
    lines = done.failure.splitlines()
    assert lines[0] == "rank 1: ValueError: boom-1"
    assert "tests/on_ranks.py" in lines[1]
    assert "in fail" in lines[1]
    assert lines[2].strip() == 'raise ValueError("boom-1")'
    assert len(lines) <= 30
    assert done.culprit == 1
    assert done.kept == [{"reached": 0}, {"reached": 1}]
    works()


@pytest.mark.parametrize(("how", "code"), [("exit", "exit code 7"), ("kill", "SIGKILL")])
def test_a_rank_that_dies_without_a_word(how, code):
    begun = time.monotonic()
    done = failed(on_ranks.fail, 4, 2, how)
    assert time.monotonic() - begun < 20
    assert done.kept == [{"reached": rank} for rank in range(4)]
    assert done.culprit == 2
    assert done.failure.startswith("rank 2 ended without a word: ")
    assert code in done.failure
    works()


def test_a_value_that_cannot_be_reported_is_refused_with_its_place():
    done = failed(on_ranks.fail, 2, 0, "unreportable")
    assert done.culprit == 0
    assert "what the function returned is a object; a rank can report tensors" in done.failure


def test_a_whole_number_too_long_to_report_is_refused_with_its_place():
    done = failed(long_numbers, 1)
    assert "what the function returned['long'] is a whole number of 16610 bits;" in done.failure
    assert "text: hex(number)" in done.failure


def long_numbers():
    return {"fits": -(2**64) + 1, "long": 10**5000}


def test_a_report_that_cannot_be_read_is_a_failure(monkeypatch):
    def unreadable(path, **options):
        raise RuntimeError("odd bytes\nand more")

    monkeypatch.setattr("torch.load", unreadable)
    done = failed(on_ranks.total, 2)
    assert done.failure == "rank 0: ValueError: the file report.0 cannot be read: odd bytes"
    assert done.values == [None, None]


def odd_values():
    import enum

    import numpy
    import torch

    class Level(enum.IntEnum):
        LOW = 1

    big = torch.zeros(1000, 1000)
    return {
        "numpy": numpy.float64(0.5), "enum": Level.LOW, "view": big[0, :2],
        "parameter": torch.nn.Parameter(torch.ones(2)), "nested": [(1, None, "ä"), {"k": b"b"}],
        "dtype": torch.bfloat16, "shape": big.shape, "half": torch.ones(1, dtype=torch.bfloat16),
    }  # fmt: skip


def test_values_arrive_as_plain_data():
    value = run(odd_values, 1).values[0]
    assert (value["numpy"], value["enum"]) == (0.5, 1)
    assert type(value["numpy"]) is float
    assert type(value["enum"]) is int
    assert value["view"].untyped_storage().nbytes() == 8
    assert not value["parameter"].requires_grad
    assert value["nested"] == [(1, None, "ä"), {"k": b"b"}]
    assert value["shape"] == (1000, 1000)


def keeps_what_cannot_be_kept():
    ranks.keep("good", 1)
    ranks.keep("bad", {"inner": object()})


def test_keeping_something_unreportable_says_which():
    done = failed(keeps_what_cannot_be_kept, 1)
    assert "what was kept as 'bad'['inner'] is a object" in done.failure.replace('["', "['")
    assert done.kept == [{"good": 1}]


def test_at_the_limit_what_was_kept_stays(nothing_left):
    done = failed(on_ranks.deaf, 2, str(nothing_left), limit=1.0)  # which by itself never ends
    assert "the limit of 1 s was reached; ranks 0 and 1 still ran" in done.failure
    assert ", waiting for no rank (spinning) — tests/on_ranks.py, line" in done.failure
    (port,) = ports(nothing_left)
    assert done.kept == [{"port": port}] * 2
    assert not leftovers.listens(port)
    works()


def test_ranks_deaf_to_signals_do_not_hold_up_the_end():
    """One raises, the others ignore SIGTERM and spin: torchrun alone would wait half a minute."""
    begun = time.monotonic()
    done = failed(on_ranks.deaf, 3, None, False, 1)
    assert time.monotonic() - begun < 15
    assert done.failure.startswith("rank 1: ValueError: boom-1")


def test_a_child_that_left_its_tree_ends_with_the_run():
    done = run(on_ranks.fork_and_leave, 2)
    assert len(set(done.values)) == 2
    sleeping = subprocess.run(["pgrep", "-f", "^sleep 61.7"], capture_output=True, text=True)
    assert sleeping.stdout == ""


def test_an_interrupt_ends_the_run_and_keeps_the_supervisor(nothing_left):
    works()
    before = supervised.supervisor("warm").process.pid
    thread = when_spinning(nothing_left, 2, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run(on_ranks.deaf, 2, str(nothing_left), True)
    thread.join()
    (port,) = ports(nothing_left)
    assert leftovers.of_runs() == []
    assert leftovers.folders(nothing_left) == []
    assert not leftovers.listens(port)
    works()
    assert supervised.supervisor("warm").process.pid == before


def test_two_interrupts_do_not_confuse_the_next_run(nothing_left, monkeypatch):
    """The second one comes while the first is still being dealt with."""

    def interrupted(self, limit=8.0):
        self.end()
        raise KeyboardInterrupt

    monkeypatch.setattr(supervised.Supervised, "kill", interrupted)
    thread = when_spinning(nothing_left, 2, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run(on_ranks.deaf, 2, str(nothing_left))
    thread.join()
    for n in (1, 2, 3):  # the late news of the ended run is not taken for theirs
        assert run(on_ranks.total, n).values[0][0] == n * (n + 1) / 2


def test_the_supervisor_killed(nothing_left):
    works()
    pid = supervised.supervisor("warm").process.pid
    thread = when_spinning(nothing_left, 2, lambda: os.kill(pid, signal.SIGKILL))
    done = failed(on_ranks.deaf, 2, str(nothing_left), True)
    thread.join()
    assert "the supervisor of the ranks was killed" in done.failure
    assert [set(kept) for kept in done.kept] == [{"port"}] * 2
    assert leftovers.of_runs() == []
    works()


def test_an_interrupt_while_the_supervisor_starts(nothing_left):
    supervised.supervisor("warm").close()
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(on_ranks.total, 2)
    assert leftovers.folders(nothing_left) == []
    works()


def test_a_supervisor_that_says_much_while_it_starts(monkeypatch):
    """What is written to its error stream must not stop it (importing prints ~0.5 MB here)."""
    monkeypatch.setenv("PYTHONVERBOSE", "1")
    chatty = supervised.Supervised("cold")
    chatty.wait_ready()
    chatty.close()
    assert not psutil_alive(chatty.process.pid)


def psutil_alive(pid):
    import psutil

    return psutil.pid_exists(pid)


def test_a_supervisor_that_cannot_start_says_why(monkeypatch, tmp_path):
    broken = tmp_path / "supervisor.py"
    broken.write_text("raise SystemExit('no torch here')\n")
    monkeypatch.setattr(supervised, "_FILE", broken)
    monkeypatch.setattr(supervised, "_running", {})
    with pytest.raises(supervised.SupervisorGone, match="no torch here"):
        run(on_ranks.total, 2)
    works_again(monkeypatch)


def works_again(monkeypatch):
    monkeypatch.undo()
    works()


def test_the_kernel_killed(nothing_left):
    """kill -9 of the process that launched, over deaf ranks with an orphan: all is gone."""
    code = f"""
        from labs import ranks
        from tests import on_ranks
        ranks.launch(on_ranks.deaf, ranks=2, args=({str(nothing_left)!r}, True), status=False)
    """
    kernel = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=COURSE)
    assert leftovers.wait_until(lambda: len(ports(nothing_left)) == 1, 60)
    assert len(leftovers.marked(kernel.pid)) >= 5  # supervisor, agent, two ranks, orphans
    os.kill(kernel.pid, signal.SIGKILL)
    kernel.wait()
    assert leftovers.wait_until(lambda: not leftovers.marked(kernel.pid))
    assert leftovers.wait_until(lambda: not leftovers.folders(nothing_left), 5)
    (port,) = ports(nothing_left)
    assert not leftovers.listens(port)
    works()


def test_a_rank_that_cannot_even_begin_says_why(tmp_path, monkeypatch):
    """torchrun's own words are shown where a rank has no output of its own yet."""
    import importlib

    broken = tmp_path / "rank.py"
    broken.write_text("raise ImportError('no such course')\n")
    monkeypatch.setattr(importlib.import_module("labs.ranks.launching"), "_RANK", broken)
    done = failed(on_ranks.total, 2)
    assert "ImportError: no such course" in done.failure
