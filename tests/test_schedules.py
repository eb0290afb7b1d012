"""Schedules as data: closed form = simulator, what is stored, what the linter refuses."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs import formulas
from labs.schedules.instructions import Instruction, Schedule, backward, forward, make
from labs.schedules.lint import lint, lint_messages, violations
from labs.schedules.simulate import CannotGoOn, Times, simulate
from labs.schedules.timeline import Timeline
from solutions import one_f_one_b as answers

PLAIN = {"GPipe": answers.gpipe_order, "1F1B": answers.one_f_one_b_order}
p_and_m = st.tuples(st.integers(1, 9), st.integers(1, 24))
time = st.floats(0.01, 10)


def gpipe(p, m):
    return make("GPipe", answers.gpipe_order, p, m)


def one_f_one_b(p, m):
    return make("1F1B", answers.one_f_one_b_order, p, m)


def interleaved(p, m, v):
    return make("interleaved 1F1B", answers.interleaved_order, p, m, v)


@pytest.mark.parametrize(("m", "share"), [(4, 3 / 7), (32, 3 / 35), (64, 3 / 67)])
@pytest.mark.parametrize("name", PLAIN)
def test_the_lessons_figures(name, m, share):
    """42.9, 8.6 and 4.5 % at p = 4."""
    done = simulate(make(name, PLAIN[name], 4, m), Times(1, 2))
    assert done.bubble_share == pytest.approx(share, rel=1e-12)
    assert formulas.bubble_share(4, m) == share


@pytest.mark.parametrize("name", PLAIN)
def test_78_slots(name):
    done = simulate(make(name, PLAIN[name], 8, 32), Times(1, 1))
    assert done.makespan == 78
    assert done.bubble_share == pytest.approx(7 / 39, rel=1e-12)


@settings(max_examples=200, deadline=None)
@given(p_and_m, time, time)
def test_closed_form_is_simulator(sizes, f, b):
    p, m = sizes
    for order in PLAIN.values():
        done = simulate(make("s", order, p, m), Times(f, b))
        assert done.makespan == pytest.approx(formulas.step_time(p, m, f, b), rel=1e-9)
        assert done.bubble_share == pytest.approx(formulas.bubble_share(p, m), abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(2, 4), time, time)
def test_interleaved_closed_forms(p, groups, v, f, b):
    m = p * groups
    done = simulate(interleaved(p, m, v), Times(f / v, b / v))
    assert done.makespan == pytest.approx(formulas.step_time(p, m, f, b, v), rel=1e-9)
    for rank in range(p):
        assert done.peak_stored(rank) == formulas.stored_interleaved(p, rank, m, v)


@settings(max_examples=100, deadline=None)
@given(p_and_m)
def test_what_is_stored(sizes):
    p, m = sizes
    a, b = simulate(gpipe(p, m)), simulate(one_f_one_b(p, m))
    for rank in range(p):
        assert a.peak_stored(rank) == formulas.stored_gpipe(m)
        assert b.peak_stored(rank) == formulas.stored_1f1b(p, rank, m)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 8), st.integers(0, 16), st.floats(0.1, 3), st.floats(0.1, 3))
def test_zero_bubble(p, more, f, weight):
    """Idle (p-1)(f + b_input - b_weight), a third of 1F1B's at equal times; p stored everywhere."""
    m, b_input = p + more, max(f, weight)  # the order assumes that W is none of the longer ones
    f = b_input
    schedule = make("ZB-H1", answers.zero_bubble_order, p, m)
    done = simulate(schedule, Times(f, b_input + weight, backward_weight=weight))
    for rank in range(p):
        expected = formulas.zero_bubble_idle(p, f, b_input, weight)
        assert done.idle(rank) == pytest.approx(expected, abs=1e-9)
        assert done.peak_stored(rank) == formulas.stored_zero_bubble(p, m)
    plain = simulate(one_f_one_b(p, m), Times(1, 2)).idle(0)
    third = simulate(schedule, Times(1, 2)).idle(0)
    assert 3 * third == pytest.approx(plain, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))
def test_any_times_respect_every_dependency(seed, p, groups, v):
    draw = random.Random(seed)
    schedule = interleaved(p, p * groups, v) if v > 1 else one_f_one_b(p, p * groups)
    times = Times(
        [draw.uniform(0.1, 3) for _ in range(schedule.stages)],
        [draw.uniform(0.1, 3) for _ in range(schedule.stages)],
        message=draw.uniform(0, 1),
    )
    done = simulate(schedule, times)
    assert violations(done, times.message) == []
    for span in done.spans():  # and each takes its stage's own time
        took = times.of(span.instruction.kind, schedule.stages)
        stage = schedule.stage(span.rank, span.instruction.chunk)
        assert span.end - span.start == pytest.approx(took[stage], rel=1e-9)
    n = draw.randrange(len(schedule.orders[p - 1]))
    if done.starts[p - 1][n] > 0:  # the same, one instruction earlier than it can be
        starts = [list(row) for row in done.starts]
        starts[p - 1][n] -= 1e-3 + (0 if n else done.starts[p - 1][n])
        assert violations(Timeline(schedule, starts, done.ends), times.message)


@pytest.mark.parametrize("p", [2, 4, 8])
def test_a_shorter_schedule_is_refused(p):
    """One slot less than the closed form: something must start too early."""
    done = simulate(one_f_one_b(p, 32), Times(1, 1))
    shift = [[max(0.0, s - 1) for s in row] for row in done.starts]
    ends = [[s + 1 for s in row] for row in shift]
    assert max(map(max, ends)) == done.makespan - 1
    assert violations(Timeline(done.schedule, shift, ends))


def edited(schedule, rank, change):
    orders = list(schedule.orders)
    orders[rank] = tuple(change(list(orders[rank])))
    return replace(schedule, orders=tuple(orders))


class TestLint:
    @pytest.mark.parametrize("name", PLAIN)
    def test_right_schedules_pass(self, name):
        for p in (1, 2, 3, 5):
            for m in (1, 2, 4, 7):
                assert lint(make(name, PLAIN[name], p, m)) == []
                assert lint_messages(make(name, PLAIN[name], p, m)) is None

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda order: order[:-1], "B of micro-batch 3 is done 0 times, not 1"),
            (lambda order: [*order, forward(0)], "F of micro-batch 0 is done 2 times, not 1"),
            (lambda order: [forward(9), *order[1:]], "there are micro-batches 0 to 3"),
            (lambda order: [forward(0, 1), *order[1:]], "there are chunks 0 to 0"),
            (lambda order: order[::-1], "which it needs"),
            (lambda order: [Instruction("X", 0), *order], "is none of F, B, I, W"),
            (lambda order: [backward(0), *[a for a in order if a != backward(0)]],
             "B0 is step 1, before F0, which it needs"),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_named(self, change, words):
        found = lint(edited(one_f_one_b(2, 4), 0, change))
        assert any(words in sentence for sentence in found), found
        assert all("rank 0" in sentence for sentence in found)

    def test_ranks_that_wait_for_each_other(self):
        """Rank 0 wants a gradient back before it has sent what the last rank needs for it."""

        def order(rank, p, m):
            yield from (forward(i) for i in range(1 if rank == 0 else m))
            yield from (backward(i) for i in range(m) if rank or i == 0)
            if rank == 0:
                yield from (at for i in range(1, m) for at in (forward(i), backward(i)))

        wrong = make("impatient", order, 2, 2)
        (told,) = lint(wrong)
        assert "rank 0 is to do B0 and waits for rank 1" in told
        assert "rank 1 is to do F1 and waits for rank 0" in told
        with pytest.raises(CannotGoOn):
            simulate(wrong)
        assert lint_messages(wrong).cycle == [0, 1]

    def test_sends_that_wait_deadlock_1f1b_but_not_gpipe(self):
        """Neighbours send to each other at once: one forward, one backward."""
        assert lint_messages(one_f_one_b(4, 8), blocking=True).kind == "all send first"
        assert lint_messages(gpipe(4, 8), blocking=True) is None
        assert lint_messages(one_f_one_b(4, 8)) is None


class TestRefusals:
    @pytest.mark.parametrize("sizes", [(0, 4), (2, 0), (2, True), (2, 1.5)])
    def test_sizes(self, sizes):
        with pytest.raises(ValueError, match="whole number of"):
            make("s", answers.gpipe_order, *sizes)

    def test_interleaved_needs_a_multiple(self):
        with pytest.raises(ValueError, match="6 micro-batches are no multiple of 4.*4 or 8 would"):
            interleaved(4, 6, 2)
        with pytest.raises(ValueError, match="3 micro-batches.*; 4 would do"):
            interleaved(4, 3, 2)

    def test_times(self):
        with pytest.raises(ValueError, match="names 3 times, but there are 2 stages"):
            simulate(gpipe(2, 2), Times([1, 2, 3]))

    def test_what_an_order_yields(self):
        with pytest.raises(ValueError, match="an order yields forward"):
            make("s", lambda *_: ["F0"], 1, 1)
        assert isinstance(make("s", lambda *_: [("F", 0)], 1, 1), Schedule)
