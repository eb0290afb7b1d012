"""The journal of a rank: what is written is what is read, also when it overflows or has no room."""

import errno
import os
import sys
import threading

import pytest

from labs.ranks import journal as writing
from labs.ranks.doctor import words
from labs.ranks.doctor.misfits import misfits
from labs.ranks.doctor.standing import Journals
from labs.ranks.doctor.watch import EVERY, Watch
from labs.ranks.journal import CALLS, KEYS, RECV, SEND, Journal


@pytest.fixture(autouse=True)
def rank_of_its_own(monkeypatch):
    """The threads that other tests left in this process are none of the rank's."""
    of_others, alive = set(sys._current_frames()) - {threading.get_ident()}, sys._current_frames
    own = lambda: {id: at for id, at in alive().items() if id not in of_others}  # noqa: E731
    monkeypatch.setattr(sys, "_current_frames", own)


@pytest.fixture
def pair(tmp_path):
    """Two ranks' journals with the world's group."""
    both = [Journal(tmp_path, rank) for rank in (0, 1)]
    for one in both:
        assert one.group("0", [0, 1], "world") == 1
        one.state("running")
    return both


def stands(folder):
    return Journals(folder, (0, 1)).stands()


def test_calls_and_waits_arrive_as_they_were_written(tmp_path, pair):
    one, _ = pair
    first = one.post("all_reduce", 1, payload=96, dtype="float32", reduction="MAX", shape=(2, 3, 4))
    second = one.post("send", 1, peer=1, tag=7, payload=8, dtype="int64", shape=(1,))
    one.wait(second)
    zero, other = stands(tmp_path)
    assert (first, second, zero.made) == (0, 1, 2)
    reduce, send = zero.calls.values()
    assert (reduce.op, reduce.payload, reduce.dtype, reduce.shape) == (
        "all_reduce", 96, "float32", (2, 3, 4),
    )  # fmt: skip
    assert (reduce.reduction, reduce.place, reduce.group.ranks) == ("MAX", 1, (0, 1))
    assert (send.peer, send.tag, send.kind, send.shape) == (1, 7, SEND, (1,))
    assert send.file == __file__
    assert send.function == "test_calls_and_waits_arrive_as_they_were_written"
    (wait,) = zero.waits
    assert wait.call == send
    assert wait.line == send.line + 1
    assert zero.counts == {reduce.key: 1, send.key: 1}
    assert zero.stands_still
    assert not other.stands_still
    one.go_on()
    assert stands(tmp_path)[0].waits == ()


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ((2, 1, 8, 4, 16), "(2, 1, 8, 4, 16) float32"),
        ((1,) * 8, "(1, 1, 1, 1, 1, 1, 1, 1) float32"),
        ((1,) * 9, "4,096 bytes of float32"),
        ((2**32, 0), "4,096 bytes of float32"),
        ((), "() float32"),
        ((7,), "(7,) float32"),
    ],
)
def test_a_shape_is_told_whole_or_not_at_all(tmp_path, pair, shape, told):
    """A stacked block of keys and values has five dimensions."""
    one, _ = pair
    one.post("send", 1, peer=1, payload=4096, dtype="float32", shape=shape)
    one.take_back(one.post("recv", 1, peer=1, payload=8, dtype="int64", shape=shape))
    (call,) = stands(tmp_path)[0].calls.values()
    assert words.tensor(call) == told


def test_what_a_rank_has_not_written_is_not_there(tmp_path):
    assert [s.state for s in stands(tmp_path)] == ["", ""]
    Journal(tmp_path, 0)
    assert [s.state for s in stands(tmp_path)] == ["starting", ""]


def test_only_the_last_calls_are_kept_but_all_are_counted(tmp_path, pair):
    one, _ = pair
    for number in range(CALLS + 10):
        one.post("send", 1, peer=1, payload=number)
    zero = stands(tmp_path)[0]
    assert len(zero.calls) == CALLS
    assert min(call.place for call in zero.calls.values()) == 11
    assert zero.counts == {(SEND, "0", 1, 0): CALLS + 10}
    assert zero.complete


def test_a_wait_for_a_call_that_is_not_kept_concludes_nothing(tmp_path, pair):
    one, _ = pair
    old = one.post("recv", 1, peer=1)
    for _ in range(CALLS):
        one.post("send", 1, peer=1)
    one.wait(old)
    zero, _ = stands(tmp_path)
    assert (zero.complete, zero.older, zero.waits) == (False, True, ())


def test_more_keys_than_there_is_room_for_are_said_to_be_lost(tmp_path, pair):
    one, _ = pair
    for tag in range(KEYS):
        one.post("send", 1, peer=1, tag=tag)
    assert stands(tmp_path)[0].complete
    one.post("send", 1, peer=1, tag=KEYS)
    assert not stands(tmp_path)[0].complete


def test_waits_of_two_threads(tmp_path, pair):
    one, _ = pair
    number = one.post("recv", 1, peer=1)
    begun, done = threading.Event(), threading.Event()
    steps = lambda: (one.wait(number), begun.set(), done.wait())  # noqa: E731
    other = threading.Thread(target=steps, daemon=True)
    other.start()
    begun.wait()
    one.wait(one.post("recv", 1, peer=1, tag=1))
    zero = stands(tmp_path)[0]
    assert (len(zero.waits), zero.threads) == (2, 2)
    one.go_on()
    zero = stands(tmp_path)[0]
    assert not zero.stands_still  # the main thread may make any call
    done.set()
    other.join()


def test_without_room_on_the_disk_a_rank_still_runs(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    one = Journal(tmp_path, 0)
    one.post("barrier", one.group("0", [0], "world"))
    assert one.calls == 1
    assert stands(tmp_path)[0].calls == {}


def test_a_name_that_is_half_written_is_passed_over(tmp_path, pair):
    with open(tmp_path / "names.0", "a") as file:
        file.write('{"group": 2, "na')
    pair[0].post("barrier", 1)
    assert [call.op for call in stands(tmp_path)[0].calls.values()] == ["barrier"]


@pytest.mark.parametrize(("detached", "calls"), [(True, 1), (False, 2)])
def test_what_a_forked_child_calls_is_no_part_of_it(tmp_path, pair, detached, calls):
    one, _ = pair
    one.post("barrier", 1)
    child = os.fork()
    if child == 0:
        if detached:
            one.detach()
        one.post("barrier", 1)
        one.wait(1)
        os._exit(0)
    os.waitpid(child, 0)
    zero, _ = stands(tmp_path)
    assert (zero.made, len(zero.waits)) == (calls, calls - 1)


class TestWatch:
    def test_a_run_that_goes_on_is_not_read_in_full(self, tmp_path, pair, monkeypatch):
        one, two = pair
        watch, read = Watch(tmp_path, (0, 1)), []
        stands = watch.journals.stands
        monkeypatch.setattr(watch.journals, "stands", lambda: read.append(1) or stands())
        for number in range(20):  # each look finds both waiting, and further on
            for each, peer in ((one, 1), (two, 0)):
                each.wait(each.post("recv", 1, peer=peer))
            assert watch.look(number * EVERY) is None
            one.go_on(), two.go_on()
        assert read == []

    def test_two_that_wait_for_each_other_are_found(self, tmp_path, pair):
        for each, peer in zip(pair, (1, 0), strict=True):
            each.wait(each.post("recv", 1, peer=peer))
        watch = Watch(tmp_path, (0, 1))
        looks = [watch.look(number * 2 * EVERY) for number in range(6)]
        found = next(look for look in looks if look)
        assert looks.index(found) == 4  # seen at the second look, settled after half a second
        assert set(found[1]) == {0, 1}


class TestMisfits:
    """Calls that were matched: held against each other by checksums, named from the last calls."""

    def test_the_first_that_differs_is_found(self, tmp_path, pair):
        one, two = pair
        for number in range(5):
            one.post("send", 1, peer=1, payload=8)
            two.post("recv", 1, peer=0, payload=8 + 8 * (number >= 3))
        (found,) = misfits(stands(tmp_path))
        assert found.ranks == (0, 1)
        assert [call.place for call in found.calls] == [4, 4]
        assert found.what == ("shape",)

    def test_long_ago_is_known_from_the_checksum(self, tmp_path, pair):
        one, two = pair
        one.post("send", 1, peer=1, payload=8)
        two.post("recv", 1, peer=0, payload=16)
        for _ in range(CALLS + 5):
            one.post("send", 1, peer=1, payload=8)
            two.post("recv", 1, peer=0, payload=8)
        (found,) = misfits(stands(tmp_path))
        assert found.calls is None

    def test_what_fits_is_not_blamed(self, tmp_path, pair):
        one, two = pair
        for number in range(CALLS + 50):
            one.post("send", 1, peer=1, payload=number)
            two.post("recv", 1, peer=0, payload=number)
            for each in pair:
                each.post("all_reduce", 1, payload=4, dtype="float32", reduction="SUM")
        assert misfits(stands(tmp_path)) == []
        assert stands(tmp_path)[1].counts[RECV, "0", 0, 0] == CALLS + 50

    def test_without_checksums_it_would_be_missed(self, tmp_path, pair, monkeypatch):
        """The mutant: a checksum that never changes."""
        monkeypatch.setattr(writing.zlib, "crc32", lambda data, before: 0)
        self_test = TestMisfits()
        with pytest.raises(ValueError, match="not enough values"):
            self_test.test_long_ago_is_known_from_the_checksum(tmp_path, pair)


class TestWhatWasRefused:
    def test_a_call_that_never_began_was_never_made(self, tmp_path, pair):
        one, two = pair
        refused = one.post("send", 1, peer=1, payload=999)
        one.take_back(refused)
        one.post("send", 1, peer=1, payload=8)
        two.post("recv", 1, peer=0, payload=8)
        zero = stands(tmp_path)[0]
        assert list(zero.counts.values()) == [1]
        assert [call.payload for call in zero.calls.values()] == [8]
        assert misfits(stands(tmp_path)) == []

    def test_the_only_one_of_its_kind(self, tmp_path, pair):
        """A tag that no other call has: the partner knows nothing of it."""
        one, _ = pair
        one.take_back(one.post("send", 1, peer=1, tag=3, payload=8))
        assert stands(tmp_path)[0].counts == {}
        assert misfits(stands(tmp_path)) == []

    def test_a_wait_that_ended_in_an_error_is_none_any_more(self, tmp_path, pair):
        one, _ = pair
        number = one.post("recv", 1, peer=1)
        one.wait(number)
        one.broke_off(number)
        zero = stands(tmp_path)[0]
        assert zero.waits == ()
        assert [wait.call.op for wait in zero.broken] == ["recv"]
        assert not zero.stands_still

    def test_slots_of_threads_that_are_gone_are_used_again(self, tmp_path, pair):
        one, _ = pair
        number = one.post("recv", 1, peer=1)
        for _ in range(writing.THREADS + 4):
            thread = threading.Thread(target=lambda: (one.wait(number), one.go_on()))
            thread.start()
            thread.join()
        one.wait(number)
        zero = stands(tmp_path)[0]
        assert zero.complete
        assert zero.stands_still
