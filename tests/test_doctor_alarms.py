"""Good programs that look odd: no alarm, and each would be blamed without the safeguard for it."""

import pytest

from labs import ranks
from tests import odd_on_ranks as odd

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


def run(function, n, without="", limit=20):
    return ranks.launch(function, n, args=(without,), status=False, mode="warm", limit=limit)


def blamed(function, n, without, limit=20):
    with pytest.raises(ranks.RunFailed) as caught:
        run(function, n, without, limit)
    return caught.value.run.diagnosis


# function, what the ranks return, the safeguard, what the doctor would say without it
ODD = [
    (odd.headers_and_bodies, [[(1, 100.0), (2, 200.0)], 1, 2],
     "take_back", "two calls that belong together do not match"),
    (odd.gives_up, ["gave up", "received"], "bounded", "deadlock: "),
    (odd.goes_on_after_a_broken_wait, ["went on", "received"], "broke_off", "deadlock: "),
    (odd.waits_in_a_child, ["sent", "received"], "detach", "deadlock: "),
    (odd.second_world, [[0.0] * 4] * 3, "forget_groups lose", "deadlock: "),
]  # fmt: skip


@pytest.mark.parametrize(("function", "values", "safeguard", "said"), ODD)
def test_no_alarm(function, values, safeguard, said):
    done = run(function, len(values))
    assert (done.values, done.note) == (values, None)
    assert blamed(function, len(values), safeguard).headline.startswith(said)


def test_the_handler_of_a_signal_that_comes_while_a_call_is_written_down():
    assert run(odd.beats, 2).values == ["sent", "received"]
    assert "the limit of 2 s was reached" in blamed(odd.beats, 2, "reentrant_lock", 2).headline


def test_a_forked_child_does_not_report_and_sys_exit_0_is_success():
    done = run(odd.forks_and_exits, 2)
    assert (done.values, done.note) == ([[2.0, 2.0], None], None)
    assert run(odd.forks_and_exits, 2, "own_process").values[0] == "the child"


class TestCallsOutOfTheOrdinary:
    """Something else wants to see them, or they are of another kind: they take torch's own way."""

    def test_the_hooks_change_nothing(self):
        for with_hooks, without in run(odd.with_and_without_hooks, 2).values:
            assert with_hooks == without
            assert without["_sparse"] == [2.0, 0.0, 4.0, 0.0]
            assert without["_profiled"] == ["c10d::allreduce_", "gloo:all_reduce"]
            assert without["_dispatched"] == ["c10d.allreduce_.default"]

    @pytest.mark.parametrize(
        ("safeguards", "changed"),
        [
            ("_modes _profiled _transforms", {"_dispatched", "_profiled", "_transformed"}),
            ("layout quantised", {"_sparse", "_quantised"}),
        ],
    )
    def test_without_the_safeguards_they_would(self, safeguards, changed):
        for with_hooks, without in run(odd.with_and_without_hooks, 2, safeguards).values:
            assert {kind for kind in without if with_hooks[kind] != without[kind]} == changed
