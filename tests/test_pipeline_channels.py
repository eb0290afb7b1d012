"""Messages without tags, as NCCL carries them: receives are posted in the order of the sends."""

from __future__ import annotations

import pytest

from labs import ranks
from labs.equality import EPS
from labs.gpt import Shape
from labs.pipeline.jobs import Job
from labs.pipeline.parity import held
from labs.schedules.instructions import Schedule, make
from labs.schedules.known import KNOWN
from solutions import one_f_one_b as answers
from tests import pipeline_mutants_on_ranks as mutants

pytestmark = pytest.mark.ranks


def course(name: str, p: int, m: int, v: int = 1) -> Schedule:
    return KNOWN[name].make(getattr(answers, KNOWN[name].order), p, m, v)


def crossed(p: int, m: int) -> Schedule:
    """GPipe whose odd ranks take the micro-batches in reverse: not the order they are sent in."""

    def order(rank, ranks, m):
        turned = [*range(m)][:: -1 if rank % 2 else 1]
        yield from map(answers.forward, turned)
        yield from map(answers.backward, turned)

    return make("crossed", order, p, m)


SCHEDULES = {
    "GPipe": course("gpipe", 4, 5),
    "1F1B": course("one_f_one_b", 4, 6),
    "interleaved, p=2": course("interleaved", 2, 4, 2),
    "interleaved, p=4": course("interleaved", 4, 8, 2),
    "interleaved, p=1": course("interleaved", 1, 3, 2),
    "breadth-first": course("breadth_first", 3, 3, 2),
    "ZB-H1": course("zero_bubble", 4, 6),
    "crossed": crossed(2, 4),  # on 3 ranks the last one would put right what the one before mixed
}
PLAN = [
    *(("apart", name) for name in SCHEDULES), ("own order", "crossed"), ("own order", "1F1B"),
    (mutants.RIGHT, "crossed"),
]  # fmt: skip


def job(name: str) -> Job:
    one = SCHEDULES[name]
    return Job(name, one, model=Shape(layers=8, d=16, heads=2, length=8), gradients=True)


@pytest.fixture(scope="module")
def equal() -> dict[tuple[str, str], bool]:
    """By (mutant, schedule): whether loss and every gradient are one device's."""
    todo = [(mutant, "channels", job(name)) for mutant, name in PLAN]
    run = ranks.launch(mutants.run, 4, args=(todo,), limit=120, status=False)
    found = {}
    for n, (mutant, name) in enumerate(PLAN):
        told = [value[n] for value in run.values[: SCHEDULES[name].ranks]]
        checks = held(name, job(name), [one["gradients"] for one in told],
                      told[-1]["steps"][0]["loss"])  # fmt: skip
        assert {check.bound for check in checks if check.bound} == {EPS[job(name).dtype]}
        found[mutant, name] = all(check.ok for check in checks)
    return found


@pytest.mark.parametrize("name", SCHEDULES)
def test_gradients_without_tags(equal, name):
    assert equal["apart", name]


def test_tags_put_any_order_right(equal):
    assert equal[mutants.RIGHT, "crossed"]


def test_receives_in_the_receivers_own_order_mix_messages_up(equal):
    """Where it is another than the sender's; in the course's schedules the two are the same."""
    assert not equal["own order", "crossed"]
    assert equal["own order", "1F1B"]


def test_every_receiver_of_the_course_takes_in_the_order_of_the_sends():
    """Which is why a mutant that posts receives in the receiver's order cannot be told there."""
    for name, known in KNOWN.items():
        for p in range(2, 6):
            for m in range(1, 3 * p + 1):
                for v in (1, 2, 3) if known.looped else (1,):
                    if name != "interleaved" or m % p == 0:
                        assert mutants.in_order_of_the_sends(course(name, p, m, v))
    assert not mutants.in_order_of_the_sends(crossed(2, 4))
