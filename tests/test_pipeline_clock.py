"""A simulated device never ends before it is due: what is left out of a run makes it too short.

The other side, how late it may be, is a time, and stands in the labs' own checks.
"""

from __future__ import annotations

import pytest

from labs import ranks
from labs.pipeline.agreement import Agreement, Try, agreement, beyond
from labs.pipeline.jobs import Job, plain_loss
from labs.pipeline.on_rank import on_rank
from labs.schedules.known import KNOWN
from labs.schedules.simulate import Times, simulate
from solutions import one_f_one_b as answers

SECONDS = {
    "slow messages": Times(0.002, 0.004, message=0.040),
    "uneven stages": Times([0.002, 0.030, 0.002], [0.004, 0.060, 0.004]),
    "short passes": Times(0.003, 0.006),  # shorter than the slack of the clock
}


@pytest.fixture(scope="module")
def found() -> dict[str, Agreement]:
    """1F1B and ZB-H1 with each of these times, on three ranks. One launch for all."""
    jobs = []
    for title, times in SECONDS.items():
        for name in ("one_f_one_b", "zero_bubble"):
            made = KNOWN[name].make(getattr(answers, KNOWN[name].order), 3, 4)
            jobs.append(Job(f"{title}, {name}", made, times))
    run = ranks.launch(on_rank, 3, args=(jobs, plain_loss), limit=60, status=False)
    return {job.name: agreement(job, None, run, n) for n, job in enumerate(jobs)}


@pytest.mark.ranks
@pytest.mark.parametrize("title", SECONDS)
@pytest.mark.parametrize("name", ["one_f_one_b", "zero_bubble"])
def test_no_run_is_shorter_than_simulated(found, title, name):
    """Nor of exactly that length, as the clock has it: the wall time is not the clock's."""
    one = found[f"{title}, {name}"]
    assert one.in_order and one.best.residual > 1e-6


@pytest.mark.parametrize(("wall_ms", "ok"), [(12, False), (17, True), (18, True), (23, False)])
def test_too_short_fails_the_labs_check_as_too_long_does(wall_ms, ok):
    """GPipe of 2 ranks and 2 micro-batches takes 18 ms."""
    schedule, times = KNOWN["gpipe"].make(answers.gpipe_order, 2, 2), Times(0.002, 0.004)
    planned = simulate(schedule, times)
    tried = Try(planned, planned, wall_ms / 1e3, times)
    one = Agreement(Job("one", schedule, times), None, (tried,), True)
    check = beyond(one, "one")
    assert check.ok == ok and check.clock
    assert check.measured == pytest.approx(wall_ms - 18)
