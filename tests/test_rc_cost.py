"""α and β: the fit finds what was put in, the simulator lets messages wait, the ratio is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs import formulas
from labs.ranks_and_collectives import cost, simulator
from labs.ranks_and_collectives.algorithms import Message
from labs.ranks_and_collectives.cost import Fit, Point, Timed
from solutions.ranks_and_collectives import ring_pays_from

SIZES = [2**k for k in range(10, 24, 2)]
alphas = st.floats(1e-6, 1e-3)
betas = st.floats(1e-10, 1e-8)


@given(alpha=alphas, beta=betas, steps=st.integers(1, 14))
def test_the_fit_finds_what_was_put_in(alpha: float, beta: float, steps: int) -> None:
    points = [(steps, size, steps * alpha + beta * size) for size in SIZES]
    found = cost.fit(points)
    assert found.alpha == pytest.approx(alpha, rel=1e-6)
    assert found.beta == pytest.approx(beta, rel=1e-6)
    assert found.residual < 1e-6


def test_small_and_large_sizes_count_alike() -> None:
    """A slip of a factor in the smallest time is not lost beside the largest one."""
    points = [(1, size, 1e-4 + 1e-9 * size) for size in SIZES]
    slow = [(1, size, seconds * (2 if size == SIZES[0] else 1)) for _, size, seconds in points]
    assert cost.fit(slow).alpha > 1.02 * cost.fit(points).alpha


@pytest.mark.parametrize("seconds", [lambda n: 1e-9 * n, lambda n: 1e-4, lambda n: 1 / n])
def test_neither_is_ever_negative(seconds) -> None:
    found = cost.fit([(1, size, seconds(size)) for size in SIZES])
    assert found.alpha >= 0 and found.beta >= 0 and str(found)


@given(payload=st.integers(0, 10**8), t=st.integers(1, 64), alpha=alphas, beta=betas)
def test_seconds_and_bytes_of_a_ring(payload: int, t: int, alpha: float, beta: float) -> None:
    wanted = formulas.ring_all_reduce_seconds(payload, t, alpha, beta)
    sent = formulas.ring_all_reduce_bytes(payload, t)
    assert wanted == pytest.approx(2 * (t - 1) * alpha + sent * beta, rel=1e-12)


@given(t=st.integers(2, 200), alpha=alphas, beta=betas)
def test_ring_or_tree(t: int, alpha: float, beta: float) -> None:
    """Where they are equal the ring begins to win: above it, not below."""
    at = formulas.ring_pays_from(t, alpha, beta)
    assert ring_pays_from(t, alpha, beta) == pytest.approx(at, rel=1e-12)

    def ahead(payload: float) -> float:
        tree = formulas.tree_all_reduce_seconds(payload, t, alpha, beta)
        return tree / formulas.ring_all_reduce_seconds(payload, t, alpha, beta)

    assert ahead(at) == pytest.approx(1, rel=1e-9) or at == 0
    assert ahead(2 * at + 1) > 1 and (at == 0 or ahead(at / 2) < 1)


def test_ring_or_tree_needs_two_ranks() -> None:
    assert formulas.ring_pays_from(2, 1e-5, 1e-9) == 0
    with pytest.raises(ValueError, match="2 ranks or more; 1 was"):
        formulas.ring_pays_from(1, 1e-5, 1e-9)


class TestSimulator:
    def test_a_rank_sends_one_at_a_time(self) -> None:
        fan = [Message(0, 1), Message(0, 2), Message(0, 3)]
        assert simulator.arrivals(fan, 1, 0, 1) == [1, 2, 3]

    def test_a_rank_receives_one_at_a_time(self) -> None:
        assert simulator.arrivals([Message(1, 0), Message(2, 0)], 1, 0, 1) == [1, 2]

    def test_both_directions_go_at_once(self) -> None:
        assert simulator.arrivals([Message(0, 1), Message(1, 0)], 1, 0, 1) == [1, 1]

    def test_a_message_waits_for_the_one_before(self) -> None:
        chain = [Message(0, 1), Message(1, 2, 1, (0,)), Message(2, 3, 1, (1,))]
        assert simulator.arrivals(chain, 1, 2, 3) == [7, 14, 21]

    def test_lanes_hold_up_work_but_not_waiting(self) -> None:
        pairs = [Message(0, 1), Message(2, 3), Message(4, 5)]
        assert simulator.arrivals(pairs, 1, 1, 4, lanes=1) == [5, 9, 13]
        assert simulator.arrivals(pairs, 1, 1, 4, lanes=2) == [5, 5, 9]
        assert simulator.arrivals(pairs, 1, 1, 4) == [5, 5, 5]

    def test_an_uneven_ring_is_not_in_the_formula(self) -> None:
        """One large message holds up all that wait for it."""
        ring = [Message(0, 1, 5), Message(1, 2), Message(2, 0), Message(1, 2, 1, (0,))]
        assert simulator.seconds(ring, 0, 1, 1) == 6

    def test_nothing_to_send(self) -> None:
        assert simulator.seconds([], 1, 1, 1) == 0


def test_the_slowest_rank_counts_from_the_last_arrival() -> None:
    """Rank 1 comes late in the first try; rank 0 leaves last in the second."""
    spans = [[(0.0, 5.0), (10.0, 14.0)], [(2.0, 4.0), (10.0, 12.0)]]
    assert cost.point(8, spans) == Point(8, 3.0, 3.5)


def test_predictions_are_held_against_measurements() -> None:
    """Twice as slow as the formula says: a ratio of a half, whatever the size."""
    link = Fit(1e-4, 1e-9, 0.0)

    def seconds(size: int) -> float:
        return formulas.collective_seconds("all_reduce", size, 4, link.alpha, link.beta)

    points = tuple(Point(size, 2 * seconds(size), 3 * seconds(size)) for size in SIZES)
    one = Timed("all_reduce", 4, points, link, lanes=1)
    assert one.ratio(one.formula) == pytest.approx(0.5)
    assert one.fit().alpha == pytest.approx(2e-4) and one.fit().residual < 1e-6
    assert all(one.simulated(p.whole) >= one.formula(p.whole) for p in points)
    assert "formula 0.50" in str(one)
    many = Timed("all_reduce", 4, points, link, lanes=4)
    assert many.simulated(SIZES[-1]) == pytest.approx(many.formula(SIZES[-1]))
