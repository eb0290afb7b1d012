"""One slow rank: formula, simulation and run; and what a wrong one looks like to the checks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest

from labs import formulas
from labs.answers import reference
from labs.mesh.layout import Layout
from labs.mesh.programs import MEET, Act, Span, Work, end, programs, simulate, waited
from labs.mesh.straggler import Timed, on_rank
from labs.mesh_3d import straggler as lab
from labs.mesh_3d import straggler_figure
from labs.mesh_3d.ask import Ask
from labs.ranks.ledger import Ledger
from labs.result import Result
from labs.schedules.instructions import make
from labs.schedules.simulate import Times
from labs.schedules.simulate import simulate as simulate_pipeline

ORDER = reference("one_f_one_b.one_f_one_b_order")
CUBE = Layout(dp=2, pp=2, tp=2)
LAYOUTS = [CUBE, Layout(dp=2, pp=3, tp=2), Layout(pp=4, tp=2), Layout(dp=2, tp=4), Layout(dp=4)]


def failing(checks) -> list[str]:
    return [check.name.rpartition(": ")[2] for check in checks if not check.ok]


def as_run(layout: Layout, slow: int | None, truly: int | None = -1) -> lab.Straggled:
    """A job as if it had run exactly as simulated. truly: who is slow in the run, if another."""
    job = next(job for job, one in _jobs(layout, slow) if one == slow)
    simulated = simulate(job.programs(ORDER))
    other = slow if truly == -1 else truly
    ran = simulated
    if other != slow:
        ran = simulate(next(j for j, one in _jobs(layout, other) if one == other).programs(ORDER))
    return lab.Straggled(job, slow, simulated, [end(ran)], [ran])


def _jobs(layout: Layout, slow: int | None) -> list[tuple[Timed, int | None]]:
    work = Work(2, 0.01, 0.02, None if slow is None else {slow: lab.SLOW})
    return [(Timed(f"rank {slow} slow", layout, max(4, layout.pp), work, 1), slow)]


class TestFormulas:
    @pytest.mark.parametrize("slow", [1, 1.25, 2, 5])
    def test_a_slow_stage_as_the_pipeline_s_simulator_has_it(self, slow):
        for p, more, (f, b) in product(range(1, 5), range(4), ((1, 2), (1, 1), (2, 1))):
            schedule = make("1F1B", ORDER, p, p + more)
            for stage in range(p):
                times = [slow if one == stage else 1 for one in range(p)]
                took = simulate_pipeline(
                    schedule, Times([f * t for t in times], [b * t for t in times])
                )
                assert formulas.straggler_step(p, p + more, stage, f, b, slow) == pytest.approx(
                    took.makespan
                )

    def test_where_it_does_not_hold_it_is_refused(self):
        with pytest.raises(ValueError, match="m >= p"):
            formulas.straggler_step(4, 3, 0, 1, 2, 2)
        at = dict(dp=0, pp=0, tp=0)
        with pytest.raises(ValueError, match="stage 0, not on the last of 2"):
            formulas.straggler_waiting(at, at, 2, 4, 1, 2, 2)

    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    def test_steps_and_waits_of_every_rank_for_every_straggler(self, layout):
        schedule = make("1F1B", ORDER, layout.pp, 4)
        for slow in [None, *range(layout.ranks)]:
            work = Work(3, 1, 2, None if slow is None else {slow: 2})
            ran = simulate(programs(layout, schedule, work))
            at = None if slow is None else layout.coordinate(slow)
            stage = layout.pp - 1 if slow is None else at["pp"]
            times = 1 if slow is None else 2
            assert end(ran) == formulas.straggler_step(layout.pp, 4, stage, 3, 6, times)
            for rank in range(layout.ranks) if stage == layout.pp - 1 else ():
                place = layout.coordinate(rank)
                asked = formulas.straggler_waiting(place, at, layout.pp, 4, 3, 6, 2)
                assert waited(ran[rank]) == asked

    def test_everybody_but_the_straggler_loses_the_delay(self):
        """In all, ranks - 1 times what the straggler took longer."""
        slow, even = as_run(CUBE, 3), as_run(CUBE, None)
        lost = [sum(lab.cost(slow, even, rank).values()) for rank in range(8)]
        assert lost == pytest.approx([slow.delay] * 3 + [0] + [slow.delay] * 4)


class TestPrograms:
    def test_what_a_rank_does(self):
        program = programs(CUBE, make("1F1B", ORDER, 2, 4), Work())[0]
        kinds = [(act.what, act.axis) for act in program]
        assert kinds.count(("meet", "tp")) == 2 * 2 * 4 and kinds.count(("meet", "dp")) == 1
        assert kinds.count(("send", "pp")) == kinds.count(("receive", "pp")) == 4
        assert program[-1].axis == "dp" and program[1].ranks == (0, 1)

    def test_ranks_that_never_meet(self):
        meet = Act(MEET, "F0", 0.0, "tp", (0, 1))
        with pytest.raises(ValueError, match="wait for each other for ever: 0 at F0"):
            simulate([[meet], []])


class TestChecks:
    """What the checks make of runs that went otherwise; each ran as another program simulates."""

    @pytest.mark.parametrize("layout", LAYOUTS, ids=str)
    def test_a_run_as_simulated_passes(self, layout):
        for slow in (layout.ranks // layout.dp - 1, 0):
            found = [as_run(layout, None), as_run(layout, slow)]
            assert failing(lab.checks(found)) == []

    @pytest.mark.parametrize(
        ("truly", "axis"), [(2, "its partner"), (1, "another stage"), (7, "another replica")]
    )
    def test_a_straggler_on_another_axis(self, truly, axis):
        found = [as_run(CUBE, None), as_run(CUBE, 3, truly)]
        assert "who waits for it, by axis" in failing(lab.checks(found))

    def test_a_straggler_that_is_none(self):
        off = failing(lab.checks([as_run(CUBE, None), as_run(CUBE, 3, None)]))
        assert len(off) == 5  # wall time, who waits, and how long on each of three axes

    def test_a_program_without_the_all_reduces_of_tp(self):
        one = as_run(CUBE, 3)
        cut = [[act for act in p if act.axis != "tp"] for p in one.job.programs(ORDER)]
        wrong = replace(one, simulated=simulate(cut))
        assert (
            len(failing(lab.simulated(wrong))) == 1
        )  # the stage is as slow, its partner waits not

    def test_a_run_that_leaves_calls_out(self):
        job = as_run(CUBE, 3)
        run = SimpleNamespace(ledger=Ledger())
        assert len(failing(lab.called(job, run))) == 3

    def test_who_waits_in_words(self):
        assert lab.told({0: "pp", 1: "", 2: "tp", 3: "pp"}) == "tp: 2; pp: 0 3"


@pytest.fixture(scope="module")
def result():
    found = Result("mesh_3d", {})
    todo = lab.jobs(CUBE, tries=1, forward=0.004)
    run = Ask(status=False).launch(on_rank, [job for job, _ in todo], ORDER)
    found.values[lab.SECTION] = lab.take(todo, run, ORDER)
    found.checks = lab.checks(found.values[lab.SECTION], run)
    return found


@pytest.mark.ranks
class TestRun:
    def test_what_does_not_depend_on_the_clock(self, result):
        """Meetings and messages on every axis, as often as the programs have them."""
        still = [check for check in result.checks if not check.clock]
        assert failing(still) == [] and len(still) == 3 * 4 + 2
        names = [check.name for check in result.checks]
        assert len(names) == len(set(names))

    def test_ranks_did_what_the_programs_say_in_their_order(self, result):
        for one in result.values[lab.SECTION]:
            for program, spans in zip(one.job.programs(ORDER), one.measured, strict=True):
                asked = [(a.axis, a.label) for a in program if a.what != "send"]
                assert [(s.axis, s.label) for s in spans] == asked
                assert all(isinstance(s, Span) and s.start <= s.end for s in spans)
                between = zip(spans, spans[1:], strict=False)
                assert all(a.end <= b.start for a, b in between)

    def test_nobody_is_faster_than_its_own_work(self, result):
        for one in result.values[lab.SECTION]:
            worked = [
                sum(act.seconds for act in program if act.what == "compute")
                for program in one.job.programs(ORDER)
            ]
            assert one.wall >= max(worked)

    def test_the_pictures(self, result):
        for number in (1, 2):
            alt = straggler_figure.plot(result, number).alt
            assert "takes twice as long" in alt and "ms by formula" in alt
        with pytest.raises(ValueError, match="there are 1 to 2"):
            straggler_figure.plot(result, 3)
        with pytest.raises(ValueError, match="only='straggler'"):
            straggler_figure.plot(Result("mesh_3d", {}))


def test_one_rank_says_what_is_left_out():
    found = Result("mesh_3d", {})
    lab.add(found, Ask(ranks=1, layout=Layout()), dict(one_f_one_b_order=ORDER))
    assert found.notes == ["straggler left out: it needs 2 ranks or more"] and not found.checks
