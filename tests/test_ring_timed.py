"""The ring on simulated devices: what is counted and in which order, never how long it took."""

from __future__ import annotations

import socket

import pytest

from labs import formulas, ranks
from labs.context_parallel.clock import timed_figures
from labs.context_parallel.clock.slow_link import _PACING, _UNLIMITED, slow_link
from labs.context_parallel.clock.timed import agreements, checks
from labs.context_parallel.clock.timed_jobs import OVERLAP, PLAIN, ZIGZAG, ZIGZAG_SECTION, jobs
from labs.context_parallel.clock.timeline import BACKWARD, FORWARD, KV, SUMS
from labs.context_parallel.places import pairs, plain
from solutions.ring_attention import causal_block_mask, zigzag_positions
from tests.ring_timed_on_ranks import rings, values

pytestmark = pytest.mark.ranks
QUICK = dict(seconds=0.004, tries=1, keys=64)
FULL = jobs(4, (OVERLAP,), **QUICK)
CAUSAL = [one for one in jobs(4, (ZIGZAG_SECTION,), **QUICK) if one.ranks == 4][:2]


@pytest.fixture(scope="module")
def whole():
    todo = jobs(4, **QUICK)
    run = ranks.launch(rings, 4, args=(todo, ()), status=False)
    run.values = [value[0] for value in run.values]
    return agreements(todo, run)


@pytest.fixture(scope="module")
def wrong():
    """By the name of the ring, what its jobs came to."""
    names = ("right", "waits before", "posts late", "skips nothing", "local mask")
    todo = [FULL[0], *CAUSAL]
    run = ranks.launch(rings, 4, args=(todo, names), status=False)
    by_rank, found = run.values, {}
    for n, name in enumerate(names):
        run.values = [value[n + 1] for value in by_rank]
        found[name] = agreements(todo, run)
    return found


def counted(found):
    return [check for check in checks(found) if not check.clock]


def failing(found):
    return {check.name.partition(": ")[2] for check in counted(found) if not check.ok}


def of(found, layout, c, work):
    return next(one for one in found if (one.job.layout, one.job.ranks, one.job.work)
                == (layout, c, work))  # fmt: skip


def of_jobs(todo, layout, c):
    return next(one for one in todo if (one.layout, one.ranks) == (layout, c))


def test_every_count_is_its_formula(whole):
    assert len(counted(whole)) > 50
    assert all(check.ok for check in counted(whole)), failing(whole)


@pytest.mark.parametrize("c", [2, 3, 4])
def test_visible_pairs_by_rank(whole, c):
    n = 960 // c
    counts = of(whole, PLAIN, c, "masked halves skipped").by_rank("pairs")
    assert counts == [r * n * n + n * (n + 1) // 2 for r in range(c)]
    assert [round(count / (n * n / 2)) for count in counts] == [1, 3, 5, 7][:c]
    assert of(whole, ZIGZAG, c, "masked halves skipped").by_rank("pairs") == [480 * 961 // c] * c


def test_whole_blocks_and_nothing_skipped(whole):
    def shares(layout, work):
        return [count / 240**2 for count in of(whole, layout, 4, work).by_rank("worked")]

    assert shares(PLAIN, "own block whole") == [1, 2, 3, 4]
    assert shares(ZIGZAG, "own block whole") == [2.5] * 4
    assert shares(ZIGZAG, "nothing skipped") == [4] * 4


def test_a_zigzag_that_is_none_is_counted_uneven():
    mine = jobs(4, (ZIGZAG_SECTION,), zigzag=lambda rank, c, length: plain(c, length)[rank])
    charged = [sum(row) for row in of_jobs(mine, ZIGZAG, 4).units()]
    assert charged == [sum(row) for row in of_jobs(mine, PLAIN, 4).units()]
    right = jobs(4, (ZIGZAG_SECTION,))
    assert len({sum(row) for row in of_jobs(right, ZIGZAG, 4).units()}) == 1 < len(set(charged))


def test_what_the_simulator_is_told_is_what_the_ranks_did(whole):
    for one in whole:
        charged = [sum(row) for row in one.job.units()]
        assert charged == one.by_rank("worked")


def test_the_next_block_is_on_its_way(whole):
    """Of 16 computations all but each rank's last, and none of a ring that waits first."""
    began = {one.job.blocking: one.best.began_with_messages for one in whole if not one.job.causal}
    assert began == {False: 12, True: 0}


def test_messages_counted(whole):
    """c-1 of K and V a rank forward; backward c-1 and, of their sums, c."""
    for one in whole:
        c, sent = one.job.ranks, one.best.measured.messages
        kinds = [(m.phase, m.what) for m in sent]
        assert kinds.count((FORWARD, KV)) == c * (c - 1)
        assert kinds.count((BACKWARD, KV)) == (c * (c - 1) if one.job.causal else 0)
        assert kinds.count((BACKWARD, SUMS)) == (c * c if one.job.causal else 0)


def test_order_on_a_rank(whole):
    """Each block is worked on once, its own first, then those of the left, nearest first."""
    for one in whole:
        c = one.job.ranks
        for rank in range(c):
            done = [b["block"] for b in one.best.blocks(rank)]
            skipped = one.job.layout == PLAIN
            assert done == [(rank - i) % c for i in range(c) if not skipped or i <= rank]
            again = [b["block"] for b in one.best.blocks(rank, BACKWARD)]
            assert again == (done if one.job.causal else [])


BEGAN = "computations that began with the next block on its way"
SEEN = "every query saw all keys up to its own place"


@pytest.mark.parametrize(
    ("ring", "fails"),
    [
        ("right", set()),
        ("waits before", {BEGAN}),
        ("posts late", {BEGAN}),
        ("skips nothing", {"blocks attended to, by rank"}),
        ("local mask", {"worked on, by rank", "blocks attended to, by rank", SEEN}),
    ],
)
def test_wrong_rings_fail_their_own_checks(wrong, ring, fails):
    assert failing(wrong[ring]) == fails


def test_a_blocking_ring_has_the_same_values_and_a_watched_one_too():
    for told in ranks.launch(values, 3, status=False).values:
        assert told["same"] and told["restored"] and told["ended"]
        assert told["noted"].count("send") == told["noted"].count("recv") == 2 + 2 + 3
        assert told["in_flight"] == (0, 0)


@pytest.mark.parametrize("c", [1, 2, 3, 5])
def test_pairs_are_those_of_the_mask(c):
    length = 6 * c
    every = plain(1, length)[0]
    for rank in range(c):
        for places, formula in (
            (plain(c, length)[rank], formulas.causal_pairs(length, c, rank)),
            (zigzag_positions(rank, c, length), formulas.zigzag_pairs(length, c)),
        ):
            assert formula == causal_block_mask(places, every).sum() == pairs(places, every)


def test_a_slow_link_is_slow_until_the_block_ends():
    def rate(one):
        size = one.getsockopt(socket.SOL_SOCKET, _PACING, 8)
        return int.from_bytes(size, "little")

    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as one:
        with slow_link(5e6) as slow:
            if not slow:
                pytest.skip("this system does not pace its sockets")
            assert rate(one) == 5_000_000
        assert rate(one) in (_UNLIMITED, 2**64 - 1)
        with slow_link(None) as slow:
            assert not slow and rate(one) in (_UNLIMITED, 2**64 - 1)


@pytest.mark.parametrize("rate", [0, -1.0, 2.0**32])
def test_rates_that_no_socket_has(rate):
    with pytest.raises(ValueError, match="bytes a second"), slow_link(rate):
        pass


def test_figures_say_what_they_show(whole):
    balance = timed_figures.balance(whole)
    assert balance.png.startswith(b"\x89PNG") and "formula 1.75" in balance.alt
    alt = timed_figures.pairs(whole).alt
    assert "28,920, 86,520, 144,120, 201,720 against zigzag 115,320, 115,320" in alt
    assert "messages first" in timed_figures.overlap(whole).alt
    assert len(timed_figures.table(whole).lines) == len(whole) + 1


def test_figures_refuse_what_was_not_run(whole):
    with pytest.raises(ValueError, match="causal ring of 5 ranks was timed; there are .* 2, 3, 4"):
        timed_figures.balance(whole, 5)
    with pytest.raises(ValueError, match="takes 3 messages; there are 0.5, 2"):
        timed_figures.overlap(whole, 3)
    with pytest.raises(ValueError, match="run section 'overlap'"):
        timed_figures.overlap([])
