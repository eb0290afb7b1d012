"""Ranks that outnumber the cores: neighbours on one core, and only where all cores get as many."""

import os

import pytest

from labs import ranks
from labs.ranks.devices import cores
from labs.ranks.sharing import core_of


@pytest.mark.parametrize(
    ("many", "on", "expected"),
    [
        (8, [0, 1], [0, 0, 0, 0, 1, 1, 1, 1]),
        (4, [3, 7], [3, 3, 7, 7]),  # those that a mask leaves, not 0 and 1
        (8, [0, 1, 2, 3], [0, 0, 1, 1, 2, 2, 3, 3]),
        (2, [0, 1], [None, None]),  # a core each
        (1, [0, 1], [None]),
        (3, [0, 1], [None] * 3),  # one core would have two, the other one
        (8, [0, 1, 2], [None] * 8),
    ],
)
def test_neighbours_share_a_core(many: int, on: list[int], expected: list[int | None]) -> None:
    assert [core_of(rank, many, on, len(on)) for rank in range(many)] == expected


def test_a_container_that_may_use_fewer_cores_than_it_sees_is_left_alone() -> None:
    assert core_of(0, 8, [0, 1, 2, 3], 2) is None


def test_outside_a_rank_nothing_happens() -> None:
    before = os.sched_getaffinity(0), os.sched_getscheduler(0)
    assert ranks.share_cores() is None
    assert (os.sched_getaffinity(0), os.sched_getscheduler(0)) == before


def _where() -> tuple[int | None, list[list[int]], bool]:
    core = ranks.share_cores()
    threads = [int(name) for name in os.listdir("/proc/self/task")]
    masks = [sorted(os.sched_getaffinity(thread)) for thread in threads]
    return core, masks, len(threads) > 1


@pytest.mark.skipif(cores() not in (2, 4), reason="4 or 8 ranks on 2 or 4 cores")
def test_all_threads_of_a_rank_stay_on_its_core() -> None:
    run = ranks.launch(_where, 2 * cores(), mode="cold", status=False)
    mine = sorted(os.sched_getaffinity(0))
    for rank, (core, masks, several) in enumerate(run.values):
        assert core == mine[rank // 2]
        assert several  # gloo's threads among them
        assert masks == [[core]] * len(masks)
