"""Every schedule of the course at random sizes and times: its rules, its formulas, its linter."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from labs import formulas
from labs.schedules.instructions import BACKWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, FORWARD, Schedule
from labs.schedules.known import KNOWN
from labs.schedules.lint import lint, lint_messages, violations
from labs.schedules.lint_programs import misplaced, other_computations, wrong_messages
from labs.schedules.simulate import CannotGoOn, Times, simulate
from labs.schedules.timeline import Timeline
from solutions import one_f_one_b as answers

EXACT = 1e-9
ORDERS = {name: getattr(answers, known.order) for name, known in KNOWN.items()}
seconds = st.floats(0.01, 10)


def schedule(name: str, p: int, m: int, v: int = 1) -> Schedule:
    return KNOWN[name].make(ORDERS[name], p, m, v)


@st.composite
def schedules(draw: st.DrawFn, names: tuple[str, ...] = tuple(KNOWN), most: int = 8) -> tuple:
    """(name, schedule) of up to `most` ranks; interleaved with a multiple of them."""
    name = draw(st.sampled_from(names))
    p = draw(st.integers(1, most))
    v = draw(st.integers(1, 4)) if KNOWN[name].looped else 1
    m = p * draw(st.integers(1, 3)) if name == "interleaved" else draw(st.integers(1, 20))
    return name, schedule(name, p, m, v)


@st.composite
def times(draw: st.DrawFn, one: Schedule) -> Times:
    """A time for each stage and kind, and for messages: stragglers, heavy heads and all."""
    each = st.lists(seconds, min_size=one.stages, max_size=one.stages)
    backward = draw(each)
    share = draw(st.floats(0, 1))
    return Times(draw(each), backward, draw(st.floats(0, 3)), [share * whole for whole in backward])


def applies(name: str, one: Schedule, f: float, b: float) -> bool:
    """Where the closed form of the time holds, for ranks that are alike and messages for free."""
    if name == "breadth_first":
        return one.micro_batches >= one.ranks or one.chunks == 1
    if name == "zero_bubble":
        return one.micro_batches >= one.ranks and b / 2 <= f
    return True  # GPipe and 1F1B always; interleaved for a multiple of p, and there is no other


class TestTimes:
    @settings(max_examples=150, deadline=None)
    @given(st.data())
    def test_every_dependency_is_met(self, data):
        _, one = data.draw(schedules())
        given_times = data.draw(times(one))
        done = simulate(one, given_times)
        assert violations(done, given_times.message) == []
        work = max(map(done.busy, range(one.ranks)))
        assert done.makespan >= work - EXACT

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_nothing_waits_without_a_reason(self, data):
        """Each start is the moment at which the last thing it waits for is over, or zero."""
        _, one = data.draw(schedules(most=4))
        given_times = data.draw(times(one))
        done = simulate(one, given_times)
        steps = [
            (rank, n) for rank, starts in enumerate(done.starts)
            for n, start in enumerate(starts) if start > 0
        ]  # fmt: skip
        assume(steps)
        for rank, n in data.draw(st.lists(st.sampled_from(steps), max_size=6)):
            earlier = [list(row) for row in done.starts]
            earlier[rank][n] -= 1e-3
            told = violations(Timeline(one, earlier, done.ends), given_times.message)
            assert told, f"rank {rank}: {one.orders[rank][n]} idles"

    @settings(max_examples=300, deadline=None)
    @given(schedules(), seconds, seconds)
    def test_closed_form_is_simulator_where_it_applies(self, named, f, b):
        name, one = named
        assume(applies(name, one, f, b))
        done, known = simulate(one, Times(f, b)), KNOWN[name]
        assert done.makespan == pytest.approx(known.seconds(one, Times(f, b)), rel=EXACT)
        assert done.bubble_share == pytest.approx(known.share(one, Times(f, b)), abs=EXACT)

    @pytest.mark.parametrize(
        ("name", "sizes", "f", "b"),
        [
            ("breadth_first", (4, 3, 2), 1, 2),  # m < p: a chunk ends before the next one comes
            ("zero_bubble", (4, 3), 1, 2),  # m < p
            ("zero_bubble", (4, 8), 1, 3),  # W longer than F
        ],
    )
    def test_and_does_not_where_it_does_not(self, name, sizes, f, b):
        one = schedule(name, *sizes)
        assert not applies(name, one, f, b)
        assert simulate(one, Times(f, b)).makespan > KNOWN[name].seconds(one, Times(f, b)) + 0.1

    @settings(max_examples=100, deadline=None)
    @given(st.integers(1, 8), st.integers(0, 12), seconds, seconds, seconds)
    def test_zero_bubble_with_any_split(self, p, more, f, back, weight):
        """(p-1)(f + I - W) on every rank, as long as W is no longer than F and I."""
        assume(weight <= min(f, back))
        one = schedule("zero_bubble", p, p + more)
        done = simulate(one, Times(f, back + weight, backward_weight=weight))
        expected = formulas.zero_bubble_idle(p, f, back, weight)
        for rank in range(p):
            assert done.idle(rank) == pytest.approx(expected, abs=1e-7)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(1, 8), st.integers(1, 20), seconds, seconds, st.floats(0, 3))
    def test_messages_that_take_time_fill_and_drain_gpipe(self, p, m, f, b, message):
        """Each boundary is crossed once on the way in and once on the way out."""
        done = simulate(schedule("gpipe", p, m), Times(f, b, message))
        expected = formulas.step_time(p, m, f, b) + 2 * (p - 1) * message
        assert done.makespan == pytest.approx(expected, rel=EXACT)

    @settings(max_examples=60, deadline=None)
    @given(schedules(), st.floats(0.1, 10))
    def test_a_unit_of_time_changes_nothing(self, named, unit):
        _, one = named
        first, second = simulate(one, Times(1, 2)), simulate(one, Times(unit, 2 * unit))
        assert second.makespan == pytest.approx(unit * first.makespan, rel=EXACT)


class TestStored:
    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_in_flight_is_exact_whatever_the_times(self, data):
        name, one = data.draw(schedules())
        done = simulate(one, data.draw(times(one)))
        p, m, v = one.ranks, one.micro_batches, one.chunks
        for rank in range(p):
            assert done.peak_stored(rank) == KNOWN[name].stored(p, rank, m, v)
            assert [count for _, count in done.stored(rank)][-1] == 0
            moments = [moment for moment, _ in done.stored(rank)]
            assert moments == sorted(moments)

    def test_what_takes_no_time_is_stored_all_the_same(self):
        done = simulate(schedule("one_f_one_b", 3, 5), Times(0, 0))
        assert [done.peak_stored(rank) for rank in range(3)] == [3, 2, 1]


def legal(one: Schedule) -> bool:
    """Whether a schedule can be carried out, by another way: its steps and needs have no cycle."""
    place = {
        (one.stage(rank, at.chunk), at.kind, at.micro_batch): (rank, n)
        for rank, order in enumerate(one.orders) for n, at in enumerate(order)
    }  # fmt: skip
    whole = BACKWARD_INPUT if one.splits_backward else BACKWARD
    waiting = {}
    for (stage, kind, i), (rank, n) in place.items():
        needs = [(rank, n - 1)] if n else []
        if kind == FORWARD and stage:
            needs.append(place[stage - 1, FORWARD, i])
        if kind == whole:
            needs.append(place[stage, FORWARD, i])
            needs += [place[stage + 1, whole, i]] if stage < one.stages - 1 else []
        if kind == BACKWARD_WEIGHT:
            needs.append(place[stage, BACKWARD_INPUT, i])
        waiting[rank, n] = set(needs)
    while ready := [step for step, needs in waiting.items() if not needs]:
        for step in ready:
            del waiting[step]
        for needs in waiting.values():
            needs.difference_update(ready)
    return not waiting


class TestLinter:
    @settings(max_examples=60, deadline=None)
    @given(schedules())
    def test_the_courses_orders_and_programs_are_right(self, named):
        _, one = named
        programs = [one.program(rank) for rank in range(one.ranks)]
        assert lint(one) == [] and legal(one)
        assert lint_messages(one) is None
        for look in (other_computations, wrong_messages, misplaced):
            assert look(one, programs) == []

    @settings(max_examples=300, deadline=None)
    @given(st.data())
    def test_two_steps_changed_about_are_judged_as_by_another_way(self, data):
        """Many of them are legal still; the linter and a search for cycles agree on which."""
        _, one = data.draw(schedules(most=4))
        rank = data.draw(st.integers(0, one.ranks - 1))
        order = list(one.orders[rank])
        a, b = (data.draw(st.integers(0, len(order) - 1)) for _ in range(2))
        order[a], order[b] = order[b], order[a]
        orders = (*one.orders[:rank], tuple(order), *one.orders[rank + 1 :])
        changed = replace(one, orders=orders)
        assert (lint(changed) == []) == legal(changed)
        if legal(changed):
            assert violations(simulate(changed)) == []
        else:
            with pytest.raises(CannotGoOn):
                simulate(changed)

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_a_step_left_out_or_done_twice_is_seen(self, data):
        _, one = data.draw(schedules(most=4))
        rank = data.draw(st.integers(0, one.ranks - 1))
        order = list(one.orders[rank])
        n = data.draw(st.integers(0, len(order) - 1))
        for steps in (order[:n] + order[n + 1 :], [*order[: n + 1], *order[n:]]):
            orders = (*one.orders[:rank], tuple(steps), *one.orders[rank + 1 :])
            changed = replace(one, orders=orders)
            assume(changed.has_backward and changed.splits_backward == one.splits_backward)
            assert any(f"rank {rank}: {order[n].kind} of micro-batch" in s for s in lint(changed))

    @settings(max_examples=100, deadline=None)
    @given(st.data())
    def test_a_message_left_out_is_seen(self, data):
        _, one = data.draw(schedules(most=4))
        programs = [one.program(rank) for rank in range(one.ranks)]
        there = [
            (rank, n) for rank, program in enumerate(programs)
            for n, at in enumerate(program) if len(at.kind) == 2
        ]  # fmt: skip
        assume(there)
        rank, n = data.draw(st.sampled_from(there))
        gone = programs[rank].pop(n)
        (told,) = wrong_messages(one, programs)
        assert told.startswith(f"rank {rank}: {gone} ") and "0 times, not once" in told


def test_orders_of_chunks_with_one_chunk():
    """Breadth-first is GPipe. Interleaved keeps its longer start: 1F1B's time, more is stored."""
    for p, m in ((1, 1), (3, 6), (4, 8)):
        assert schedule("breadth_first", p, m, 1).orders == schedule("gpipe", p, m).orders
        looped, plain = (simulate(schedule(name, p, m)) for name in ("interleaved", "one_f_one_b"))
        assert looped.makespan == plain.makespan
        stored = [done.peak_stored(0) for done in (looped, plain)]
        assert stored == [min(m, 2 * p - 1), min(m, p)]
