"""Each check of the labs has two sides that do not come from each other.

What ranks report is made up here, each number on its own, and one of them changed at a time: then
the check that is about it fails. A check that held a number against itself would not.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from labs import bubble_math
from labs.bubble_math.jobs import CLOCK as CLOCK_02
from labs.bubble_math.jobs import GPIPE, Timed
from labs.one_f_one_b import accounts
from labs.one_f_one_b.jobs import CLOCK, STORED, Orders, Planned, _stored
from labs.pipeline import agreement as agreeing
from labs.pipeline.agreement import agreement
from labs.pipeline.jobs import Job, one_device
from labs.pipeline.parity import held
from labs.schedules.known import KNOWN
from labs.schedules.simulate import Times, simulate
from solutions import one_f_one_b as answers

ORDERS = Orders({known.order: getattr(answers, known.order) for known in KNOWN.values()})
TIMES = Times(0.010, 0.020)
SCHEDULE = ORDERS.one("one_f_one_b", 2, 4)
JOB = Job("1F1B m=4", SCHEDULE, TIMES)
DUE = simulate(SCHEDULE, TIMES)  # 150 ms


def reported(late=(0.0, 0.001), schedule=SCHEDULE, peaks=(2, 1), tries=1) -> list[list[dict]]:
    """By rank, what one job's ranks say: rank 0 ends the step, rank 1 is `late` by more."""
    found = []
    for rank, order in enumerate(schedule.orders):
        step = dict(done=[list(at) for at in order], starts=list(DUE.starts[rank]),
                    ends=list(DUE.ends[rank]), peak_stored=peaks[rank], loss=None)  # fmt: skip
        wall = DUE.makespan + late[rank]
        found.append([dict(steps=[step] * tries, walls=[wall] * tries, peak_bytes=0)])
    return found


class Ledger:
    """What was sent, as told."""

    def __init__(self, count: int = 8, payload: int = 8 * JOB.message_bytes) -> None:
        self.told = count, payload

    def count(self, **where):
        return self.told[0]

    def payload_bytes(self, **where):
        return self.told[1]


def run(values=None, ledger=None):
    return SimpleNamespace(values=values or reported(), ledger=ledger or Ledger())


def failed(one) -> set[str]:
    """What fails of notebook 03's checks, by the last part of their names."""
    made, _ = accounts.checks([Planned(CLOCK, "one_f_one_b", JOB, timed=True)], one)
    return {check.name.rpartition(": ")[2] for check in made if not check.ok}


class TestTimed:
    def test_a_run_as_it_should_be(self):
        assert failed(run()) == set()
        one = agreement(JOB, KNOWN["one_f_one_b"], run(), 0)
        assert one.best.wall == DUE.makespan + 0.001  # the last rank's
        assert one.best.residual == pytest.approx(0.001)
        work = 2 * 4 * 0.030
        assert one.best.share == pytest.approx(1 - work / (2 * one.best.wall))
        assert one.formula == pytest.approx(0.150)

    @pytest.mark.parametrize("late", [(0.0, 0.006), (0.006, 0.0), (-0.006, -0.006)])
    def test_wall_time_is_that_of_the_last_rank(self, late):
        assert "wall time beyond the simulated" in failed(run(reported(late)))

    def test_the_bubble_is_of_the_wall_time(self):
        assert "bubble share" in failed(run(reported((0.0, 0.006))))
        assert "bubble share" not in failed(run(reported((0.0, 0.001))))

    def test_the_measured_timeline_is_what_the_ranks_say(self):
        told = reported()
        told[1][0]["steps"][0]["ends"][-1] += 0.5
        one = agreement(JOB, None, run(told), 0)
        assert one.best.measured.makespan > DUE.makespan + 0.3
        assert one.best.simulated.makespan == DUE.makespan

    def test_order_counts_in_every_try_and_on_every_rank(self):
        told = reported(tries=2)
        assert agreement(JOB, None, run(told), 0).in_order
        other = dict(told[1][0]["steps"][0], done=told[1][0]["steps"][0]["done"][::-1])
        for steps in ([other, told[1][0]["steps"][0]], [told[1][0]["steps"][0], other]):
            values = [told[0], [dict(told[1][0], steps=steps)]]
            assert not agreement(JOB_OF_2, None, run(values), 0).in_order

    def test_the_formula_does_not_ask_the_simulator(self, monkeypatch):
        """A simulator that is wrong is seen in whole slots."""
        assert all(check.ok for check in agreeing.in_slots(KNOWN["one_f_one_b"], SCHEDULE))
        slow = lambda schedule, times: simulate(schedule, Times(2, 4))  # noqa: E731
        monkeypatch.setattr(agreeing, "simulate", slow)
        monkeypatch.setattr(sys.modules["labs.schedules.simulate"], "simulate", slow)
        assert not any(check.ok for check in agreeing.in_slots(KNOWN["one_f_one_b"], SCHEDULE))

    @pytest.mark.parametrize("late", [0.4, -0.4])
    def test_real_computation_may_take_neither_longer_nor_shorter(self, late):
        job = Job("real compute", SCHEDULE, None)
        one = agreement(job, None, run(reported((late * DUE.makespan,) * 2)), 0)
        (check,) = [c for c in agreeing.computed([one]) if "wall time" in c.name]
        assert not check.ok and check.measured == pytest.approx(0.4)

    def test_the_simulator_is_fed_with_means(self):
        told = reported()
        step = told[0][0]["steps"][0]
        step["ends"][0] -= 0.004  # of four forward passes one is 4 ms shorter
        times = agreement(Job("real", SCHEDULE, None), None, run(told), 0).best.times
        assert times.forward == pytest.approx([0.009, 0.010])


JOB_OF_2 = Job("1F1B m=4", SCHEDULE, TIMES, tries=2)


class TestCounted:
    @pytest.mark.parametrize(
        ("one", "name"),
        [
            (run(reported(peaks=(3, 1))), "most stored at once, by rank"),
            (run(reported(peaks=(1, 1))), "most stored at once, by rank"),
            (run(ledger=Ledger(count=9)), "messages"),
            (run(ledger=Ledger(count=16)), "messages"),
            (run(ledger=Ledger(payload=16 * JOB.message_bytes)), "bytes of messages"),
            (run(ledger=Ledger(payload=8 * JOB.message_bytes - 8)), "bytes of messages"),
        ],
    )
    def test_one_number_that_is_off(self, one, name):
        assert failed(one) == {name}

    def test_the_peak_of_all_tries_counts(self):
        told = reported(tries=2)
        more = dict(told[0][0]["steps"][0], peak_stored=3)
        told[0][0]["steps"] = [more, told[0][0]["steps"][0]]
        planned = Planned(CLOCK, "one_f_one_b", JOB_OF_2)
        assert accounts.peaks(planned, run(told), 0) == [3, 1]

    @pytest.mark.parametrize(("count", "ok"), [(8, True), (7, False), (16, False)])
    def test_sends_of_notebook_02(self, count, ok):
        job = Job("GPipe m=4", bubble_math.gpipe(2, 4), TIMES)
        check = bubble_math.accounts._sends(Timed(CLOCK_02, job, GPIPE), run(ledger=Ledger(count)))
        assert check.ok == ok and check.expected == 8


class TestBytes:
    """Peak bytes that follow the count of stored micro-batches, and what else they may do."""

    EACH = 1e6  # bytes of a stored micro-batch of two sequences

    def bytes_of(self, change=lambda name, rank, peak: peak) -> set[str]:
        planned = _stored(ORDERS, 2)
        by_rank = []
        for rank in range(2):
            row = []
            for one in planned:
                s, job = one.job.schedule, one.job
                stored = one.known.stored(2, rank, s.micro_batches, s.chunks) / s.chunks
                row.append(
                    dict(peak_bytes=change(job.name, rank, stored * job.rows * self.EACH / 2))
                )
            by_rank.append(row)
        assert {one.section for one in planned} == {STORED}
        made = accounts._bytes(planned, SimpleNamespace(values=by_rank))
        return {check.name for check in made if not check.ok}

    def test_as_they_should_be(self):
        assert self.bytes_of() == set()

    @pytest.mark.parametrize(
        ("which", "factor", "fails"),
        [
            ("stored: 1F1B m=4", 1.5, "1F1B beside GPipe, m=4, rank 1: fewer bytes"),
            ("batch of 32: GPipe m=16", 1.5, "GPipe, batch of 32: peak bytes on rank 0 at m=16"),
            ("batch of 32: 1F1B m=16", 4.0, "1F1B, batch of 32: peak bytes on rank 0 at m=16"),
            ("sent and let go: 1F1B m=12", 1.1, "1F1B, m=12 beside m=4, rank 0: more bytes"),
        ],
    )
    def test_one_that_is_off(self, which, factor, fails):
        wrong = self.bytes_of(lambda name, rank, peak: peak * factor if name == which else peak)
        assert [name for name in wrong if name.startswith(fails)]


class TestParity:
    JOB = Job("1F1B", SCHEDULE, rows=2, gradients=True)

    def failed(self, change=lambda gradients: None, loss: float = 1.0) -> set[str]:
        whole = one_device(self.JOB)
        by_rank = [{}, {}]
        for n, (name, gradient) in enumerate(whole.gradients.items()):
            by_rank[n % 2][name] = gradient.clone()
        change(by_rank)
        checks = held("1F1B", self.JOB, by_rank, whole.loss * loss)
        return {check.name.removeprefix("1F1B: ") for check in checks if not check.ok}

    def test_those_of_one_device(self):
        assert self.failed() == set()

    def test_one_number_of_one_gradient(self):
        def change(by_rank):
            last = by_rank[1][max(by_rank[1])]
            last.view(-1)[0] += 1e-6

        assert self.failed(change) == {"difference of gradients"}

    def test_the_loss(self):
        assert self.failed(loss=1 + 1e-9) == {"difference of the loss"}

    @pytest.mark.parametrize("twice", [True, False])
    def test_a_parameter_on_two_ranks_or_on_none(self, twice):
        def change(by_rank):
            name = next(iter(by_rank[0]))
            if twice:
                by_rank[1][name] = torch.zeros_like(by_rank[0][name])
            else:
                del by_rank[0][name]

        assert self.failed(change) == {"every parameter has a gradient, on one rank"}
