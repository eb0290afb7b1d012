"""Random schedules on real ranks: gradients, journal, storage and messages, in one launch."""

from __future__ import annotations

import random

import pytest

from labs import formulas, ranks
from labs.gpt import Shape
from labs.one_f_one_b.jobs import legal
from labs.pipeline.jobs import Job
from labs.pipeline.on_rank import on_rank
from labs.pipeline.parity import held
from labs.schedules.known import KNOWN
from labs.schedules.simulate import Times
from solutions import one_f_one_b as answers

WORLD, COUNT = 4, 14


def drawn(seed: int) -> list[Job]:
    """Jobs of every schedule, on 1 to 4 of the ranks, with more layers than stages or as many."""
    draw, found = random.Random(seed), []
    while len(found) < COUNT:
        name = list(KNOWN)[len(found) % len(KNOWN)]
        p, m = draw.randint(1, WORLD), draw.randint(1, 9)
        v = draw.randint(1, 3) if KNOWN[name].looped else 1
        if not legal(name, p, m):
            continue
        one = KNOWN[name].make(getattr(answers, KNOWN[name].order), p, m, v)
        shape = Shape(layers=p * v + draw.randint(0, 3), d=16, heads=2, length=4)
        times = Times(0.001 / v, 0.002 / v) if draw.random() < 0.3 else None
        title = f"{len(found)}: {name} p={p} m={m} v={v}"
        found.append(
            Job(title, one, times, shape, rows=draw.randint(1, 2),
                seed=draw.randrange(100), uneven=m > 1 and draw.random() < 0.5, tries=2,
                gradients=True)
        )  # fmt: skip
    return found


JOBS = drawn(seed=4)


def test_what_is_drawn_is_mixed():
    schedules = [job.schedule for job in JOBS]
    assert {one.ranks for one in schedules} == {1, 2, 3, 4}
    assert any(one.micro_batches < one.ranks for one in schedules)
    assert any(one.chunks > 1 for one in schedules)
    assert {job.uneven for job in JOBS} == {job.times is None for job in JOBS} == {True, False}


@pytest.fixture(scope="module")
def run():
    return ranks.launch(
        on_rank, WORLD, args=(JOBS, answers.micro_batch_loss), limit=120, status=False
    )


@pytest.mark.ranks
@pytest.mark.parametrize("n", range(COUNT), ids=[job.name for job in JOBS])
class TestJob:
    def told(self, run, n):
        values = [value[n] for value in run.values]
        inside = JOBS[n].schedule.ranks
        assert all(value is None for value in values[inside:])
        return values[:inside]

    def test_loss_and_gradients_are_one_devices(self, run, n):
        told = self.told(run, n)
        checks = held(
            "", JOBS[n], [one["gradients"] for one in told], told[-1]["steps"][-1]["loss"]
        )
        assert [str(check) for check in checks if not check.ok] == []

    def test_the_journal_is_the_schedule(self, run, n):
        for one, order in zip(self.told(run, n), JOBS[n].schedule.orders, strict=True):
            for step in one["steps"]:
                assert [tuple(at) for at in step["done"]] == [tuple(at) for at in order]
                assert step["starts"] == sorted(step["starts"])
                assert all(a <= b for a, b in zip(step["starts"], step["ends"], strict=True))

    def test_what_is_stored_and_sent(self, run, n):
        one = JOBS[n].schedule
        p, m, v = one.ranks, one.micro_batches, one.chunks
        known = next(k for k in KNOWN.values() if one.name.startswith(k.title))
        for rank, value in enumerate(self.told(run, n)):
            stored = {step["peak_stored"] for step in value["steps"]}
            assert stored == {known.stored(p, rank, m, v)}
        sends = JOBS[n].tries * formulas.pipeline_sends(p, m, v)
        sent = dict(section=JOBS[n].name, op="send")
        assert run.ledger.count(**sent) == sends
        assert run.ledger.payload_bytes(**sent) == sends * JOBS[n].message_bytes
