"""A wrong executor is caught by a check of the labs, and by which one. One launch for all.

Where time is judged the mutant only adds to it; that the right executor keeps its time is for a
quiet machine, and stands in the labs' own checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch

from labs import ranks
from labs.one_f_one_b import accounts
from labs.one_f_one_b.jobs import CLOCK, GRADIENTS, Orders, Planned, _stored, storing
from labs.one_f_one_b.parity import parity
from labs.pipeline.agreement import in_slots
from labs.pipeline.jobs import Job
from labs.ranks.ledger import Ledger
from labs.result import Check
from labs.schedules.instructions import MESSAGES, backward, forward, make
from labs.schedules.known import KNOWN
from labs.schedules.lint import lint
from labs.schedules.lint_programs import wrong_messages
from labs.schedules.simulate import Times, simulate
from solutions import one_f_one_b as answers
from tests import pipeline_mutants_on_ranks as mutants
from tests.pipeline_mutants_on_ranks import RIGHT

FEW, MANY = 4, 16  # micro-batches of the two runs whose bytes are compared


def orders() -> Orders:
    return Orders({known.order: getattr(answers, known.order) for known in KNOWN.values()})


def clocked() -> list[Planned]:
    """p=4, f=10 ms, b=2f, m=4: the sizes at which the labs judge time."""
    found = []
    for name, v in (("gpipe", 1), ("one_f_one_b", 1), ("interleaved", 2)):
        schedule = orders().one(name, 4, 4, v)
        job = Job(schedule.name, schedule, Times(0.010 / v, 0.020 / v))
        found.append(Planned(CLOCK, name, job, timed=True))
    return found


def gradients(uneven: bool = False) -> list[Planned]:
    job = Job("1F1B", orders().one("one_f_one_b", 2, 4), rows=2, uneven=uneven, gradients=True)
    return [Planned(GRADIENTS, "one_f_one_b", job)]


def other_programs() -> list[Planned]:
    """Called 1F1B, and what the ranks do is GPipe."""
    (one,) = gradients()
    programs = tuple(map(tuple, map(orders().one("gpipe", 2, 4).program, range(2))))
    clock = replace(one.job, programs=programs, times=Times(0.002, 0.004), gradients=False)
    return [Planned(CLOCK, "one_f_one_b", clock, timed=True)]


def stored() -> list[Planned]:
    return _stored(orders(), 2)


def sending() -> list[Planned]:
    """1F1B stores as much of many micro-batches as of few, what is being sent along with it."""
    found = []
    for m in (FEW, MANY):
        job = Job(f"m={m}", orders().one("one_f_one_b", 2, m), None, storing(2), rows=2,
                  dtype=torch.float32, memory=True)  # fmt: skip
        found.append(Planned("sent", "one_f_one_b", job))
    return found


def ahead(p: int, more: int | str) -> list[Planned]:
    """1F1B with another number of forward passes ahead; more = "all" is GPipe's."""

    def order(rank, ranks, m):
        first = min(m, m if more == "all" else max(0, ranks - rank - 1 + more))
        yield from (forward(i) for i in range(first))
        for i in range(first, m):
            yield forward(i)
            yield backward(i - first)
        yield from (backward(i) for i in range(m - first, m))

    job = Job(f"1F1B {more} ahead", make("1F1B", order, p, 2 * p), rows=2, gradients=True)
    return [Planned(GRADIENTS, "one_f_one_b", job)]


PLAN: dict[tuple[str, str], list[Planned]] = {
    (RIGHT, "gradients"): gradients(),
    (RIGHT, "uneven"): gradients(uneven=True),
    (RIGHT, "sending"): sending(),
    ("receives held", "clock"): clocked(),
    ("same slice", "gradients"): gradients(),
    ("not divided", "gradients"): gradients(),
    ("divided twice", "gradients"): gradients(),
    ("mean of means", "uneven"): gradients(uneven=True),
    ("mean of means", "gradients"): gradients(),
    ("other programs", "clock"): other_programs(),
    ("activations kept", "gradients"): gradients(),
    ("graphs kept", "stored"): stored(),
    ("sends kept", "sending"): sending(),
    ("sends kept", "stored"): stored(),
    (RIGHT, "all ahead"): ahead(2, "all"),
    (RIGHT, "one more ahead"): ahead(2, 1),
}
"""By (what the executor does wrong, what runs); an order that is wrong needs no wrong executor."""


@dataclass
class _Ledger:
    """What one part's jobs have sent, by the jobs' own names."""

    whole: Ledger
    mutant: str
    part: str

    def count(self, section, **where):
        return self.whole.count(section=self._own(section), **where)

    def payload_bytes(self, section, **where):
        return self.whole.payload_bytes(section=self._own(section), **where)

    def _own(self, name):
        return mutants.section(self.mutant, self.part, name)


@dataclass
class _Part:
    """What came of one part of the plan."""

    checks: dict[str, Check]
    bytes: list[list]  # of ranks 0 and 1, by job: the peak, where it is asked for

    @property
    def failed(self) -> set[str]:
        return {name for name, check in self.checks.items() if not check.ok}


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], _Part]:
    """The labs' own checks of each part of the plan."""
    todo = [(*key, one.job) for key, planned in PLAN.items() for one in planned]
    run = ranks.launch(mutants.run, 4, args=(todo,), limit=120, status=False)
    made, at = {}, 0
    for key, planned in PLAN.items():
        part = SimpleNamespace(
            values=[told[at : at + len(planned)] for told in run.values],
            ledger=_Ledger(run.ledger, *key),
        )
        at += len(planned)
        checks, _ = accounts.checks(planned, part)
        made[key] = _Part(
            {check.name: check for check in [*checks, *parity(planned, part)]},
            [[one.get("peak_bytes") for one in told] for told in part.values[:2]],
        )
    return made


APART = {"1F1B: difference of gradients", "1F1B: difference of the loss"}
MOST = "1F1B, p=2, m=4: most stored at once, by rank"


@pytest.mark.parametrize("part", ["gradients", "uneven"])
@pytest.mark.ranks
def test_the_right_executor_passes(found, part):
    assert found[RIGHT, part].checks.keys() >= {*APART, MOST}
    assert found[RIGHT, part].failed == set()


@pytest.mark.parametrize(
    ("mutant", "part", "by"),
    [
        ("same slice", "gradients", APART),
        ("not divided", "gradients", APART),
        ("divided twice", "gradients", APART),
        ("mean of means", "uneven", APART),
        ("activations kept", "gradients", {MOST}),
        (RIGHT, "all ahead", {MOST}),
        (RIGHT, "one more ahead", {MOST}),
    ],
)
@pytest.mark.ranks
def test_caught_by_these_checks_and_no_others(found, mutant, part, by):
    assert found[mutant, part].failed == by


@pytest.mark.ranks
def test_a_mean_of_means_is_right_where_micro_batches_are_alike(found):
    """So that the check above must be made with unequal token counts."""
    assert found["mean of means", "gradients"].failed == set()


@pytest.mark.ranks
def test_receives_that_are_held_are_seen_in_the_wall_time(found):
    """15 ms a message; 4 ms are allowed for the whole step."""
    part = found["receives held", "clock"]
    for name in ("GPipe", "1F1B", "interleaved 1F1B v=2"):
        check = part.checks[f"{name}, p=4, m=4: wall time beyond the simulated"]
        assert check.measured > 4.0 and check.relation == "within 4 of" and not check.ok
    assert not [name for name in part.failed if "wall time" not in name and "bubble" not in name]


@pytest.mark.ranks
def test_programs_of_another_schedule_are_seen_in_the_journal(found):
    assert found["other programs", "clock"].failed >= {
        "1F1B, p=2, m=4: ranks computed in the schedule's order", MOST,
    }  # fmt: skip


@pytest.mark.ranks
def test_graphs_that_are_kept_are_seen_in_the_bytes(found):
    failed = found["graphs kept", "stored"].failed
    assert failed >= {
        "1F1B beside GPipe, m=4, rank 0: fewer bytes",
        "1F1B beside GPipe, m=4, rank 1: fewer bytes",
        "1F1B, batch of 32: peak bytes on rank 0 at m=16 beside m=4",
        "batch of 32: 1F1B m=16: 1F1B, p=2, m=16: most stored at once, by rank",
    }
    assert not [name for name in failed if "GPipe, p=2" in name]  # it keeps them all anyway


@pytest.mark.ranks
def test_sends_that_are_kept_are_seen_in_the_bytes(found):
    """1F1B's peak is that of few micro-batches, however many there are."""
    message = sending()[0].job.message_bytes
    for rank in range(2):
        few, many = found[RIGHT, "sending"].bytes[rank]
        assert many - few < message / 2
        few, many = found["sends kept", "sending"].bytes[rank]
        assert many - few >= (MANY - FEW) * message


@pytest.mark.ranks
def test_sends_that_are_kept_fail_a_check_of_the_lab(found):
    failed = found["sends kept", "stored"].failed
    assert failed >= {f"1F1B, m=12 beside m=4, rank {rank}: more bytes" for rank in range(2)}


class TestOnPaper:
    """Wrong orders that are caught before anything runs."""

    @staticmethod
    def one_f_one_b(p, m, change=lambda order: order, ahead=0):
        def order(rank, ranks, m):
            first = min(m, max(0, ranks - rank - 1 + ahead))
            back = [backward(i) for i in range(m)]
            yield from (forward(i) for i in range(first))
            steady = zip((forward(i) for i in range(first, m)), back, strict=False)
            rest = [*(at for pair in steady for at in pair), *back[m - first :]]
            yield from change(rest) if rank == ranks - 1 else rest

        return KNOWN["one_f_one_b"].make(order, p, m)

    def test_the_right_one(self):
        right = self.one_f_one_b(4, 8)
        assert right.orders == orders().one("one_f_one_b", 4, 8).orders
        assert lint(right) == []
        assert all(check.ok for check in in_slots(KNOWN["one_f_one_b"], right))

    def test_one_forward_pass_too_few_ahead_takes_longer(self):
        slow = self.one_f_one_b(4, 8, ahead=-1)
        assert lint(slow) == []
        failed = {check.name for check in in_slots(KNOWN["one_f_one_b"], slow) if not check.ok}
        assert "1F1B, p=4, m=8: simulated time" in failed

    def test_one_too_many_stores_more_and_is_no_faster(self):
        full = self.one_f_one_b(4, 8, ahead=1)
        assert all(check.ok for check in in_slots(KNOWN["one_f_one_b"], full))
        known = KNOWN["one_f_one_b"]
        stored = [simulate(full).peak_stored(rank) for rank in range(4)]
        assert stored == [known.stored(4, rank, 8, 1) + 1 for rank in range(4)]

    def test_backward_passes_in_reverse(self):
        def turned(order):
            back = iter([at for at in order if at.kind == "B"][::-1])
            return [next(back) if at.kind == "B" else at for at in order]

        (told,) = lint(self.one_f_one_b(4, 8, turned))
        assert told == "rank 3: B7 is step 2, before F7, which it needs"

    def test_the_last_stage_goes_back_too_early(self):
        def early(order):
            return [order[1], order[0], *order[2:]]

        (told,) = lint(self.one_f_one_b(4, 8, early))
        assert told == "rank 3: B0 is step 1, before F0, which it needs"

    @pytest.mark.parametrize("kind", MESSAGES)
    def test_a_send_without_its_receive_and_the_other_way_round(self, kind):
        schedule = self.one_f_one_b(3, 4)
        programs = [schedule.program(rank) for rank in range(3)]
        assert wrong_messages(schedule, programs) == []
        missing = next(at for at in programs[1] if at.kind == kind)
        programs[1].remove(missing)
        (told,) = wrong_messages(schedule, programs)
        assert told.startswith(f"rank 1: {missing}") and told.endswith("is there 0 times, not once")
