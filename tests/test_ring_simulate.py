"""The ring's simulator: its formulas exactly, its rules one by one, and what each rule is for."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labs import formulas
from labs.context_parallel.clock import simulate as module
from labs.context_parallel.clock.simulate import Times, simulate
from labs.context_parallel.clock.timeline import BACKWARD, FORWARD, KV, SUMS

at_ease = settings(max_examples=100, deadline=None)
ranks_ = st.integers(1, 9)
took = st.integers(0, 20)
works = st.integers(1, 20)


@st.composite
def rings(draw: st.DrawFn) -> Times:
    """Any ring: each rank and step with a time of its own, many of them skipped."""
    c = draw(st.integers(1, 6))
    row = st.lists(st.just(0) | took, min_size=c, max_size=c)
    table = st.lists(row, min_size=c, max_size=c)
    return Times(draw(table), draw(st.none() | table), draw(took), draw(took), draw(st.booleans()))


def equal(c: int, f: int) -> list[list[int]]:
    return [[f] * c for _ in range(c)]


@at_ease
@given(ranks_, works, took, st.booleans())
def test_equal_blocks_take_what_the_formula_says(c, f, message, overlap):
    found = simulate(Times(equal(c, f), kv=message, overlap=overlap))
    assert found.makespan == formulas.ring_seconds(c, f, message, overlap)
    assert all(found.busy(rank) == c * f for rank in range(c))


@at_ease
@given(ranks_, works)
def test_equal_blocks_forward_and_backward_without_messages(c, f):
    assert simulate(Times(equal(c, f), equal(c, 2 * f))).makespan == 3 * c * f


@at_ease
@given(st.integers(2, 9), works, took, took)
def test_a_blocking_ring_pays_for_every_message(c, b, message, sums):
    found = simulate(Times(equal(c, 0), equal(c, b), message, sums, overlap=False))
    assert found.makespan == 2 * (c - 1) * message + c * (b + sums)


@at_ease
@given(st.integers(2, 9), works, took, took)
def test_sums_travel_while_the_next_block_is_worked_on(c, b, message, sums):
    """c - 1 of their messages are hidden as far as the work is long; the last one is not."""
    found = simulate(Times(equal(c, 0), equal(c, b), message, sums))
    forward = (c - 1) * message
    assert found.makespan <= forward + b + (c - 1) * max(b, message, sums) + sums
    assert found.makespan >= forward + c * b + sums


@pytest.mark.parametrize("c", [1, 2, 3, 4, 7])
def test_causal_steps_and_their_ratio(c):
    """Plain runs: (c - 1/2) blocks and c whole ones; zigzag c/2 and (c + 1)/2. No messages."""
    half = Fraction(1, 2)

    def plain(own):
        return [[own if i == 0 else Fraction(int(i <= r)) for i in range(c)] for r in range(c)]

    def zigzag(own):
        return [[own if i == 0 else half for i in range(c)] for r in range(c)]

    for own, whole in ((half, False), (Fraction(1), True)):
        slow, fast = (
            simulate(Times(t, [[2 * x for x in row] for row in t])).makespan
            for t in (plain(own), zigzag(own))
        )
        assert float(slow / fast) == pytest.approx(formulas.zigzag_speedup(c, whole), rel=1e-15)


@at_ease
@given(rings())
def test_rules_hold_in_any_ring(times):
    found, c = simulate(times), len(times.forward)
    for rank in range(c):
        mine = [one for one in found.computations if one.rank == rank]
        assert all(a.end <= b.start for a, b in zip(mine, mine[1:], strict=False))
        assert [one.phase for one in mine] == sorted((o.phase for o in mine), reverse=True)
        assert found.busy(rank) + found.idle(rank) == found.makespan
        for phase in (FORWARD, BACKWARD):
            came = [m for m in found.messages if (m.rank + 1) % c == rank and m.phase == phase]
            blocks = [m for m in came if m.what == KV]
            left = {
                one.block: one.start for one in found.computations
                if one.rank == (rank - 1) % c and one.phase == phase
            }  # fmt: skip
            for one in (one for one in mine if one.phase == phase):
                step = (rank - one.block) % c
                if step:  # its block is there
                    assert blocks[step - 1].end <= one.start
                if step + 1 == c:
                    continue
                if not times.overlap:
                    assert blocks[step].end <= one.start
                elif (one.block - 1) % c in left:  # the next one leaves when both have posted it
                    assert blocks[step].start == max(one.start, left[(one.block - 1) % c])
                else:
                    assert blocks[step].start >= one.start
    hops = c - 1 if times.backward is None else 2 * (c - 1)
    sums = c if times.backward is not None and c > 1 else 0
    assert sum(m.what == KV for m in found.messages) == c * hops
    assert sum(m.what == SUMS for m in found.messages) == c * sums


@at_ease
@given(rings())
def test_overlap_never_makes_it_longer(times):
    both = [
        simulate(Times(times.forward, times.backward, times.kv, times.sums, overlap)).makespan
        for overlap in (True, False)
    ]
    assert both[0] <= both[1]


def test_sums_wait_for_the_left_neighbour():
    """Rank 1 works long on its own block: rank 2 cannot add to those sums before."""
    zero, table = [[0] * 3] * 3, [[1, 1, 1], [9, 1, 1], [1, 1, 1]]
    found = simulate(Times(zero, table, kv=0, sums=2))
    sums = [[m for m in found.messages if m.what == SUMS and m.rank == r] for r in range(3)]
    assert (sums[1][0].start, sums[1][0].end) == (9, 11)
    assert sums[2][1].start == 11


@pytest.mark.parametrize("table", [[[1, 2], [3]], [[1]] * 2, [[1, 2, 3]] * 2])
def test_a_ragged_table_is_refused(table):
    with pytest.raises(ValueError, match="a ring of 2 ranks has 2 steps"):
        simulate(Times(table))


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (dict(forward=[]), "a row of numbers for each rank, got \\[\\]"),
        (dict(forward=None), "a row of numbers for each rank, got None"),
        (dict(forward=[1, 2]), "a row of numbers for each rank"),
        (dict(forward=[[1, 1]] * 2, backward=[]), "a row of numbers for each rank, got \\[\\]"),
        (dict(forward=[[1, 1], [1, -1]]), "step 1 of rank 1 must be a time.*, got -1"),
        (dict(forward=[[float("nan")]]), "step 0 of rank 0 must be a time.*, got nan"),
        (dict(forward=[["1"]]), "step 0 of rank 0 must be a time.*, got '1'"),
        (dict(forward=[[True]]), "step 0 of rank 0 must be a time.*, got True"),
        (dict(forward=[[1]], kv=-1), "kv must be a time.*, got -1"),
        (dict(forward=[[1]], sums=float("inf")), "sums must be a time.*, got inf"),
    ],
)
def test_what_is_no_time_is_refused(times, words):
    with pytest.raises(ValueError, match=words):
        simulate(Times(**times))


class _StartsAtTheSender(module._Ring):
    """A message leaves before anybody takes it."""

    def _pass_on(self, phase, what):
        now, self.now = self.now, [self.now[r] for r in range(self.ranks)]
        took = self.times.kv if what == KV else self.times.sums
        there = [0.0] * self.ranks
        for rank in range(self.ranks):
            there[(rank + 1) % self.ranks] = now[rank] + took
        return there


class _WaitsForItsOwnOnly(module._Ring):
    """A rank goes on while its block is still being sent."""

    def _wait(self, there):
        self.now = [max(a, b) for a, b in zip(self.now, there, strict=True)]


class _NeverWaitsForSums(module._Ring):
    """Adds to sums that have not come."""

    def backward(self):
        times, self.times = (
            self.times,
            Times(self.times.forward, self.times.backward, self.times.kv, 0, self.times.overlap),
        )
        super().backward()
        self.times = times


@pytest.mark.parametrize("mutant", [_StartsAtTheSender, _WaitsForItsOwnOnly, _NeverWaitsForSums])
def test_each_rule_matters(mutant, monkeypatch):
    """Without it some ring ends at another time."""
    tables = ([[5, 1, 1], [1, 1, 1], [1, 7, 1]], [[1, 1, 1], [9, 1, 1], [1, 1, 4]])
    times = Times(*tables, kv=3, sums=4)
    right = simulate(times)
    monkeypatch.setattr(module, "_Ring", mutant)
    assert simulate(times).computations != right.computations
