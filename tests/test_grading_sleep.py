"""Whether ranks wait for each other, or work: what the kernel tells of them, on a clock of ours."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from labs.grading.sandbox import outside, told
from labs.grading.sandbox.network import Count

NOTHING = [Count(0, 0)]
LOOKS = 61  # 3 s, twenty a second


class Machine:
    """A clock, cores' time used so far, threads that are ready; looked at as the judge does it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.used, self.ready = 100.0, 7.0, set()
        patch.setattr(outside.time, "monotonic", lambda: self.now)
        patch.setattr(outside, "_threads", lambda pids: (self.used, set(self.ready)))
        self.sleep = outside.Sleep()

    def looks(self, many: int, used: float = 0.0, counts: list | None = None) -> list[float]:
        """What is seen each time. used: of a core, from look to look."""
        seen = []
        for number in range(many):
            self.now += 0.05
            self.used += used
            seen.append(self.sleep.seconds([1, 2], counts[number] if counts else NOTHING))
        return seen


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_waiting_is_seen(machine: Machine) -> None:
    assert machine.looks(LOOKS)[-1] == pytest.approx(3.0)


def test_threads_that_wake_a_hundred_times_a_second_wait(machine: Machine) -> None:
    """gloo's: 20 microseconds each time, now one thread seen ready, now the other."""
    for number in range(LOOKS):
        machine.ready = {f"{number % 3}"}
        last = machine.looks(1, used=5 * 20e-6 * 2)[0]
    assert last == pytest.approx(3.0)


def test_who_computes_works_on_a_full_machine_too(machine: Machine) -> None:
    assert max(machine.looks(LOOKS, used=0.05)) < 0.2
    assert max(machine.looks(LOOKS, used=0.05 * 0.1)) < 1.0  # a tenth of a core


def test_who_gets_no_core_works(machine: Machine) -> None:
    machine.ready = {"11"}
    assert max(machine.looks(LOOKS)) == 0.0
    machine.ready = set()
    assert machine.looks(1)[0] > 3.0


def test_what_is_sent_is_work(machine: Machine) -> None:
    assert max(machine.looks(LOOKS, counts=[[Count(n, 1)] for n in range(LOOKS)])) == 0.0


def test_the_end_of_one_hides_no_work_of_another(machine: Machine) -> None:
    """Its time is gone from the sum: what others use from then on must count."""
    machine.looks(20, used=0.05)
    machine.used -= 5.0
    assert max(machine.looks(LOOKS, used=0.05)) < 0.2


def test_what_was_handed_over_is_work(machine: Machine) -> None:
    machine.looks(LOOKS)
    machine.sleep.begin()
    assert machine.looks(2) == [0.0, pytest.approx(0.05)]


@pytest.mark.parametrize(("text", "waits"), [("time.sleep(0.01)", True), ("sum(range(99))", False)])
def test_real_processes(text: str, waits: bool) -> None:
    """One that wakes a hundred times a second, one that computes."""
    code = f"import time\nprint(1, flush=True)\nwhile True: {text}"
    one = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        one.stdout.readline()
        sleep, seen = outside.Sleep(), []
        for _ in range(40):
            time.sleep(0.05)
            seen.append(sleep.seconds([one.pid], NOTHING))
        assert (seen[-1] > 1.0) is waits, seen
    finally:
        one.kill()
        one.communicate()


def test_the_error_that_is_told_is_that_of_the_first_rank_which_is_no_victim() -> None:
    """Whichever came first on the clock: a grade is the same each time."""

    def error(at: float, message: str) -> dict:
        return dict(at=at, type="RuntimeError", message=message, frames=[], chain=[])

    victim = error(0.5, "Connection closed by peer [127.0.0.1]:1")
    victim["chain"] = [("torch", victim["message"])]
    own = [error(at, "what is wrong") for at in (3.0, 2.0)]
    for one in own:
        one["chain"] = [("torch", one["message"])]
    assert told.is_victim(victim) and not told.is_victim(own[0])
    assert told.cause([None, *own]) == (1, own[0])
    assert told.cause([victim, None, own[1]]) == (2, own[1])
    assert told.cause([victim, None]) == (0, victim)
    assert told.cause([None, None]) is None
