"""Notebook 02's lab: formula, simulator and ranks. No test looks at a time, but at what it is for.

What is judged of time on a quiet machine are the lab's own checks; here they are counted, and each
must be of the form that can fail.
"""

from __future__ import annotations

import json
from functools import partial

import pytest
from click.testing import CliRunner

from labs import bubble_math as lab
from labs import formulas, ranks
from labs.bubble_math import accounts
from labs.bubble_math.jobs import GPIPE, jobs
from labs.cli import main
from labs.pipeline import orders
from labs.pipeline.jobs import Job
from labs.pipeline.jobs import limit as limit_of
from labs.schedules.simulate import Times
from solutions import one_f_one_b as answers
from tests.notebooks_in_main import notebook_in_main

SHORT = dict(micro_batches=(2, 4), forward=0.002, tries=1, status=False)
ABOUT_TIME = ("wall time", "bubble share", "a forward pass takes", "is off by")
notebook = pytest.fixture(notebook_in_main)


def about_time(check) -> bool:
    return any(words in check.name for words in ABOUT_TIME)


def wrong(result) -> list[str]:
    """The checks that fail and are not about time."""
    return [str(check) for check in result.checks if not check.ok and not about_time(check)]


@pytest.fixture(scope="module")
def results():
    """By number of ranks, all sections."""
    return {n: lab.run(n, **SHORT) for n in (1, 2, 4)}


@pytest.mark.ranks
class TestRun:
    @pytest.mark.parametrize("n", [1, 2, 4])
    def test_every_check_that_is_not_about_time_holds(self, results, n):
        assert wrong(results[n]) == []

    @pytest.mark.parametrize("n", [1, 2, 4])
    def test_what_is_checked(self, results, n):
        names = [check.name for check in results[n].checks]
        assert len(names) == len(set(names))
        for m in SHORT["micro_batches"]:
            for what in ("wall time beyond the simulated", "bubble share", "sends",
                         "ranks computed in the schedule's order"):  # fmt: skip
                assert f"GPipe, p={n}, m={m}: {what}" in names
        for p, m in accounts.LESSON:
            assert f"GPipe, p={p}, m={m}: simulated time" in names
        there = {what for what in ("straggler", "heavy head", "real compute")
                 if any(what in name for name in names)}  # fmt: skip
        assert there == (set() if n == 1 else {"straggler", "heavy head", "real compute"})

    def test_times_are_held_against_simulator_and_formula(self, results):
        by_name = {check.name: check for check in results[4].checks}
        wall = by_name["GPipe, p=4, m=4: wall time beyond the simulated"]
        assert (wall.relation, wall.unit, wall.source) == ("within 4 of", "ms", "simulator")
        assert wall.expected == 0
        share = by_name["GPipe, p=4, m=4: bubble share"]
        assert (
            share.expected == pytest.approx(300 / 7, abs=0.01) and share.relation == "within 1 of"
        )

    def test_wall_time_is_not_the_clocks_own(self, results):
        """A device clock says when it is due; the wall says when it was."""
        for agreed in results[4].values[lab.SECTIONS[1]]:
            (one,) = agreed.tries
            assert one.wall != one.measured.makespan
            assert one.wall > one.simulated.makespan - 1e-6
            assert one.residual == one.wall - one.simulated.makespan

    def test_one_rank_waits_for_nobody(self, results):
        result = results[1]
        assert "real compute left out: it takes 2 ranks" in result.notes
        assert result.ledger.count(op="send") == 0
        assert formulas.bubble_share(1, 4) == 0

    def test_it_says_that_devices_are_simulated(self, results):
        assert accounts.CLOCK_NOTE in results[2].notes

    def test_it_is_shown_and_stored(self, results):
        told = json.loads(results[2].to_json())
        assert [check["name"] for check in told["checks"]] == [c.name for c in results[2].checks]
        assert "bubble_math: " in repr(results[2]) and "<table>" in results[2]._repr_html_()


@pytest.mark.ranks
def test_a_trace_for_the_viewer(tmp_path, monkeypatch):
    """`labs run bubble_math --ranks 2 --trace FILE`, in its short form."""
    short = partial(lab.run, **{**SHORT, "only": "device clock", "micro_batches": (4,)})
    monkeypatch.setattr(lab, "run", short)
    file = tmp_path / "trace.json"
    done = CliRunner().invoke(main, ["run", "bubble_math", "--ranks", "2", "--trace", str(file)])
    assert "bubble_math: " in done.output and done.exit_code in (0, 1), done.output
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    computed = [event for event in slices if event["cat"] in ("forward", "backward")]
    pids = {event["pid"] for event in computed}
    assert len(pids) == 2
    assert len(computed) == 2 * 4 * 2  # ranks, micro-batches, forward and backward
    assert all(event["ts"] >= 0 and event["dur"] >= 0 for event in slices)
    for pid in pids:
        starts = [event["ts"] for event in computed if event["pid"] == pid]
        assert starts == sorted(starts)
    begun = [event for event in events if event["ph"] == "b"]
    ended = [event for event in events if event["ph"] == "e"]
    assert len(begun) == len(ended) >= 2 * 4 * 2  # each message at both of its ends
    assert {e["id"] for e in begun} == {e["id"] for e in ended}


class TestOwnOrder:
    """A learner's order: run in a process of its own, and in the pipeline."""

    ONE = dict(SHORT, micro_batches=(3,), only=("formula", "device clock"))

    @pytest.mark.ranks
    def test_a_right_one_is_run(self, notebook):
        notebook.cell("""
            from labs.schedules.instructions import backward, forward

            def gpipe_order(rank, ranks, micro_batches):
                yield from (forward(i) for i in range(micro_batches))
                yield from (backward(i) for i in reversed(range(micro_batches)))
            """)
        result = lab.run(2, gpipe_order=notebook["gpipe_order"], **self.ONE)
        assert wrong(result) == []
        (agreed,) = result.values["device clock"]
        assert [at.micro_batch for at in agreed.job.schedule.orders[1][3:]] == [2, 1, 0]

    @pytest.mark.ranks
    def test_a_slower_one_fails_the_formula(self, notebook):
        """Each micro-batch goes forward and back before the next one comes."""
        notebook.cell("""
            from labs.schedules.instructions import backward, forward

            def gpipe_order(rank, ranks, micro_batches):
                for i in range(micro_batches):
                    yield forward(i)
                    yield backward(i)
            """)
        result = lab.run(2, gpipe_order=notebook["gpipe_order"], **self.ONE)
        failed = {check.name for check in result.checks if not check.ok}
        assert {f"GPipe, p={p}, m={m}: simulated time" for p, m in accounts.LESSON} <= failed

    @pytest.mark.ranks
    @pytest.mark.parametrize(
        ("body", "told"),
        [
            ("yield undefined", "NameError: name 'undefined' is not defined"),
            ("return [1 / 0]", "ZeroDivisionError: division by zero"),
            ("return None", "it gave None"),
            ("while True: pass", "the limit of 3 s was reached"),
        ],
    )
    def test_one_that_raises_or_never_ends(self, notebook, monkeypatch, body, told):
        monkeypatch.setattr(orders, "LIMIT", 3.0)
        notebook.cell(f"""
            def gpipe_order(rank, ranks, micro_batches):
                {body}
            """)
        with pytest.raises(ranks.RunFailed) as failed:
            lab.run(2, gpipe_order=notebook["gpipe_order"], **self.ONE)
        assert told in str(failed.value)
        if "None" not in body:  # then the line that is wrong is the course's
            assert "your cell, line 3" in str(failed.value) and body in str(failed.value)

    @pytest.mark.ranks
    def test_one_that_never_stops_giving(self, notebook):
        """What it gives is read to a few more than there can be, and then judged."""
        notebook.cell("""
            from labs.schedules.instructions import forward

            def gpipe_order(rank, ranks, micro_batches):
                while True:
                    yield forward(0)
            """)
        result = lab.run(2, gpipe_order=notebook["gpipe_order"], **{**self.ONE, "only": "formula"})
        assert not any(check.ok for check in result.checks if "simulated time" in check.name)

    def test_what_is_no_instruction(self):
        with pytest.raises(ValueError, match=r"an order yields forward\(i\)"):
            orders.schedules(GPIPE, mine_is("F0"), [(2, 2, 1)])


def mine_is(given):
    """An order of the course's own, which yields this: it is asked at once, in this process."""

    def order(rank, ranks, micro_batches):
        yield given

    order.__module__ = answers.__name__
    return order


class TestRefusals:
    """Before anything is launched, in a sentence that names what would do."""

    @pytest.fixture(autouse=True)
    def nothing_is_launched(self, monkeypatch):
        def launched(*given, **more):
            raise AssertionError("something was launched")

        monkeypatch.setattr(ranks, "launch", launched)

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            (dict(only="clock"), "'clock' is no section of bubble_math; there are .*device clock"),
            (dict(only=()), "only must name sections"),
            (dict(only=3), "only must name sections of bubble_math, got 3"),
            (dict(micro_batches=()), "micro_batches must be numbers"),
            (dict(micro_batches=8), r"micro_batches must be numbers, as \(4, 8, 32\), got 8"),
            (dict(micro_batches=(4, 0)), "whole numbers from 1 on, got 0"),
            (dict(micro_batches=(True,)), "whole numbers from 1 on, got True"),
            (dict(micro_batches=(2.0,)), "whole numbers from 1 on, got 2.0"),
            (dict(tries=0), "tries must be a whole number from 1 on, got 0"),
            (dict(tries=True), "tries must be a whole number from 1 on, got True"),
            (dict(forward=0), "forward must be seconds above 0, got 0"),
            (dict(forward=-1.0), "forward must be seconds above 0"),
            (dict(forward=float("nan")), "forward must be seconds above 0"),
            (dict(forward="1"), "forward must be seconds above 0, got '1'"),
            (dict(forward=1.0, micro_batches=(32,)),
             "32 micro-batches of 3 s on 2 ranks take 99 s a step; at most 19 micro-batches would"),
            (dict(forward=30.0), "a shorter forward pass would end within 60 s"),
            (dict(ranks=0), "ranks"),
        ],
    )  # fmt: skip
    def test_said_before_a_launch(self, asked, told):
        with pytest.raises(ValueError, match=told) as refused:
            lab.run(**{"ranks": 2, **asked})
        assert "\n" not in str(refused.value)

    def test_what_is_named_as_the_most_would_do(self):
        with pytest.raises(AssertionError, match="something was launched"):
            lab.run(2, forward=1.0, micro_batches=(19,))


def test_a_run_may_take_what_its_devices_take(monkeypatch):
    """The limit of a launch grows with the steps that are asked for."""
    one = jobs(answers.gpipe_order, 4, ("device clock",), (8,), 0.5, tries=3)[0].job
    assert limit_of([one]) == pytest.approx(60 + 3 * (8 + 3) * 1.5)
    assert limit_of([Job("computing", one.schedule)]) == 60
    seen = {}

    class Stop(Exception):
        pass

    def launch(*given, limit=60.0, **more):
        seen["limit"] = limit
        raise Stop

    monkeypatch.setattr(ranks, "launch", launch)
    with pytest.raises(Stop):
        lab.run(4, only="device clock", micro_batches=(8,), forward=0.5, tries=3)
    assert seen["limit"] == limit_of([one])


def test_the_straggler_and_the_heavy_head():
    """The simulator knows one slow stage; the formula, given the mean, does not."""
    todo = jobs(answers.gpipe_order, 4, ("uneven",), (4,), 0.010, tries=1)
    assert [max(one.job.times.forward) for one in todo] == [0.015, 0.015]
    slow = [one.job.times.forward.index(0.015) for one in todo]
    assert slow == [1, 3]
    for one in todo:
        wanted = one.known.seconds(one.job.schedule, one.job.times)
        assert wanted == pytest.approx(Times(0.01125, 0.0225).of("F", 1)[0] * 3 * 11)
