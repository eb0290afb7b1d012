"""A limit counts a run's own time: what other programs took of it is given back, to a bound."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from labs import judging, ranks
from labs.ranks import crowding, launching
from labs.ranks.processes import LINUX
from tests import leftovers, on_ranks

_SPIN = "import os; os.sched_setaffinity(0, {%d})\nwhile True: pass"


@pytest.mark.parametrize(
    ("waits", "own", "all_work", "took"),
    [
        (9.0, 2.0, 6.0, 6.0),  # two thirds of the work was others'
        (9.0, 6.0, 6.0, 0.0),  # its own ranks stood in each other's way
        (9.0, 7.0, 6.0, 0.0),  # clocks differ a little
        (0.0, 2.0, 99.0, 0.0),  # others work, and no rank had to wait
        (9.0, 0.0, 0.0, 0.0),
    ],
)
def test_only_others_count(waits: float, own: float, all_work: float, took: float) -> None:
    assert crowding.taken(waits, own, all_work) == took


def test_of_a_process_that_has_ended_nothing_is_known() -> None:
    assert crowding.waited(2**22 + 1) == 0.0
    assert crowding.Crowd().took([]) == crowding.Crowd().took([2**22 + 1]) == 0.0


@pytest.mark.skipif(not LINUX, reason="only Linux tells how long a process waited for a core")
def test_a_neighbour_on_the_same_core_takes_time() -> None:
    core = min(os.sched_getaffinity(0))
    crowd = crowding.Crowd()
    both = [subprocess.Popen([sys.executable, "-c", _SPIN % core]) for _ in range(2)]
    try:
        leftovers.wait_until(lambda: crowd.took([both[0].pid]) > 0.2)
        assert crowd.took([both[0].pid]) > 0.2 and crowding.waited(both[0].pid) > 0.2
    finally:
        for one in both:
            one.kill()
            one.wait()


class _Crowd:
    """Others take `part` of all the time since the launch."""

    part, looked = 0.0, set()

    def __init__(self) -> None:
        self.begun = time.monotonic()

    def took(self, pids: object) -> float:
        _Crowd.looked |= set(pids)
        return self.part * (time.monotonic() - self.begun)


@pytest.mark.ranks
@pytest.mark.parametrize(("part", "ends_well"), [(0.9, True), (0.0, False)])
def test_a_run_that_others_hold_up_gets_its_time(
    monkeypatch: pytest.MonkeyPatch, part: float, ends_well: bool
) -> None:
    monkeypatch.setattr(_Crowd, "part", part)
    monkeypatch.setattr(launching.crowding, "Crowd", _Crowd)
    monkeypatch.setattr(crowding, "MOST", 1000)
    _Crowd.looked = set()
    if ends_well:
        assert ranks.launch(on_ranks.after_a_while, 2, limit=1.0, status=False).values == [0, 1]
        assert len(_Crowd.looked) >= 2  # the ranks, while they ran
        return
    with pytest.raises(ranks.RunFailed, match="the limit of 1 s was reached") as failed:
        ranks.launch(on_ranks.after_a_while, 2, limit=1.0, status=False)
    assert not failed.value.run.diagnosis.starved


@pytest.mark.ranks
def test_one_that_never_gets_it_ends_all_the_same_and_is_not_blamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Crowd, "part", 0.9)
    monkeypatch.setattr(launching.crowding, "Crowd", _Crowd)
    with pytest.raises(ranks.RunFailed, match="the limit of 1 s was reached") as failed:
        ranks.launch(on_ranks.for_ever, 2, limit=1.0, status=False)
    found = failed.value.run.diagnosis
    assert found.starved and "other programs had the cores" in found.why
    (verdict,) = judging.broke(("values",), failed.value, "the loop in this line never ends")
    assert verdict.hint == "this machine was too busy to judge the answer: check once more"
    assert "never ends" not in verdict.detail
