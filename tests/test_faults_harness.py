"""`make faults` itself: a trial that is not as it should be is seen, whatever is wrong with it."""

import contextlib
import json
import os
import socket
import subprocess
from dataclasses import replace

import pytest

from tests.faults import broken, faults, kernels, running, said, surroundings, table
from tests.faults.said import Expected
from tests.faults.surroundings import NotHere
from tests.faults.trial import Fault, How, next_run

pytestmark = pytest.mark.ranks
WAY = How("warm", 2, 1, 5.0)
GOOD = Fault("nothing", broken.total, lambda how: Expected("ended well"), value=faults.total)


def test_a_good_run_is_good():
    seen = GOOD.trial(WAY)
    assert seen.ok, table.trouble(seen)


def plants(what):
    """A fault in which something stays behind: a thread of this process leaves it."""

    def provoke(mine, how):
        if what == "file":
            (mine.tmp / "forgotten").touch()
        elif what == "file of the home":
            (mine.home / ".cache").mkdir()
        elif what == "port":
            port = mine.noted("rank")[0]["port"]
            planted.append(socket.create_server(("127.0.0.1", port + 1)))
            note = mine.notes / "rank.7"
            gone = dict(pid=2**22 + 1, orphan=2**22 + 1, agent=2**22 + 1)
            note.write_text(str({**gone, "port": port + 1}).replace("'", '"'))
        else:
            mark = {"LABS_SUPERVISOR": f"{os.getpid()}-1"} if what == "process" else {}
            planted.append(subprocess.Popen(["sleep", "60"], env={**os.environ, **mark}))
            if what == "orphan":
                pid = planted[-1].pid
                note = dict(pid=pid, orphan=pid, agent=pid, port=1)
                (mine.notes / "rank.7").write_text(str(note).replace("'", '"'))

    return replace(GOOD, provoke=provoke)


planted = []


@pytest.fixture
def tidy():
    yield
    for one in planted:
        one.kill() if isinstance(one, subprocess.Popen) else one.close()
        one.wait() if isinstance(one, subprocess.Popen) else None
    planted.clear()


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("file", "file forgotten"), ("file of the home", "file .cache"), ("port", "port "),
        ("process", "process "), ("orphan", "orphan of rank 7"),
    ],
)  # fmt: skip
def test_what_is_left_behind_is_seen(what, named):
    seen = plants(what).trial(WAY)
    assert not seen.ok
    assert any(named in text for text in seen.left), seen.left
    assert not (seen.wrong or seen.after or seen.late)


def test_a_run_that_takes_too_long_is_seen(monkeypatch):
    monkeypatch.setattr("tests.faults.trial.GRACE", -4.99)
    seen = GOOD.trial(WAY)
    assert seen.late and not seen.ok
    assert "late: " in table.trouble(seen)


@pytest.mark.parametrize(
    ("expected", "complaint"),
    [
        (Expected("raised"), "kind: 'ended well' instead of 'raised'"),
        (Expected("ended well", ("boom-1",)), "not said: 'boom-1'"),
        (Expected("ended well", culprit=1), "culprit: None instead of 1"),
        (Expected("ended well", waits={0: [1]}), "waits: {} instead of {0: [1]}"),
        (Expected("ended well", each={1: ("waits",)}), "not said of rank 1: 'waits'"),
    ],
)
def test_words_that_are_wrong_are_seen(expected, complaint):
    seen = replace(GOOD, expected=lambda how: expected).trial(WAY)
    assert seen.wrong == [complaint]


def test_the_wrong_line_and_the_wrong_rank_are_seen():
    ring = running.ALL["ring of blocking sends"]
    right = ring.expected(WAY)
    other = {0: right.each[1], 1: (broken.line_of("raise"),)}
    seen = replace(ring, expected=lambda how: replace(right, each=other)).trial(WAY)
    assert len(seen.wrong) == 2
    assert seen.explained is not None


def test_what_was_ended_before_it_broke_is_tried_again_with_more_time():
    ring = running.ALL["ring of blocking sends"]
    limits = []

    def expected(how):
        limits.append(how.limit)
        return ring.expected(how)

    seen = running.once(replace(ring, expected=expected), replace(WAY, limit=0.01))
    assert limits == [0.01, 0.02, 0.04]
    assert not seen.came and not seen.ok
    assert running.once(replace(ring, expected=expected), WAY).ok
    assert limits[3] == 5.0


def test_values_that_are_wrong_are_seen():
    assert replace(GOOD, value=lambda how: 4.0).trial(WAY).wrong == ["values: [3.0, 3.0]"]


def test_a_next_run_that_fails_is_seen(monkeypatch):
    monkeypatch.setattr(broken, "works", broken.exits)
    assert "missing 2 required positional arguments" in next_run("warm")[0]


def test_words_are_read_rank_by_rank():
    told = (
        "head\n  ranks 0 and 2–3 wait in a\n  rank 1 runs\n  ranks 4, 5 and 6 are stopped\nwhy: x"
    )
    found = said.by_rank(told)
    assert found == {0: "wait in a", 2: "wait in a", 3: "wait in a", 1: "runs"} | dict.fromkeys(
        (4, 5, 6), "are stopped"
    )


class TestTable:
    @pytest.mark.parametrize("worlds", [(2, 4, 8), (2, 3, 4, 8)])
    def test_every_combination_twice_and_twenty_in_all(self, worlds):
        ways = [(how.mode, how.ranks) for how in table.plan(worlds, 20)]
        assert len(ways) >= 20
        for mode in ("warm", "cold"):
            for n in worlds:
                assert ways.count((mode, n)) >= 2
        assert {how.odd for how in table.plan(worlds, 20) if how.ranks == 2} == {0, 1}
        assert len(table.plan(worlds, 1)) == 1

    def test_rows_count_what_was_seen(self):
        one = GOOD.trial(WAY)
        bad = replace(one, wrong=["no"], left=["file"], explained=2.5, ranks=4)
        (row,) = table.rows([one, replace(one, mode="cold", seconds=9.0), bad], {})
        assert row[1] == "3: warm 1×2 1×4, cold 1×2"
        assert row[3] == "9.0"
        assert row[5:] == ("2.5", "2/3", "1/3", "3/3")
        told = table.markdown([one, bad], {"x": "no mounts"})
        assert "| x | not applicable here: no mounts |" in told
        assert "2 trials, 1 not as they should be; 0 of 1 deadlocks explained within 2 s" in told

    def test_earlier_trials_count_too(self):
        seen = replace(GOOD.trial(WAY), told="ä", wrong=["no"])
        assert table.from_json(json.dumps(table.as_json([seen]))) == [seen]

    def test_a_name_is_found_by_a_part(self):
        assert running.find("send/send") == "send/send"
        with pytest.raises(ValueError, match="is in the names of"):
            running.find("kernel")


class TestWhereItCannotBeMade:
    """Never counted as passed: not tried, and said."""

    @pytest.fixture
    def nothing(self, monkeypatch):
        @contextlib.contextmanager
        def refused():
            raise NotHere("no mounts")
            yield

        monkeypatch.setitem(running.ALL, "nothing", replace(GOOD, around=refused))
        monkeypatch.setattr(surroundings, "enter", refused().__enter__)

    def test_here_and_apart(self, nothing):
        seen = []
        assert running.here({"nothing": [WAY]}, seen.append) == {"nothing": "no mounts"}
        assert running.apart({"nothing": [WAY]}, seen.append) == {"nothing": "no mounts"}
        assert seen == []
        assert table.rows(seen, {"nothing": "no mounts"}) == [
            ("nothing", "not applicable here: no mounts")
        ]

    def test_a_process_apart_that_dies_is_an_error(self, monkeypatch):
        monkeypatch.setattr(surroundings, "enter", lambda: ["false"])
        with pytest.raises(RuntimeError, match="ended with 1"):
            running.apart({"nothing": [WAY]}, print)


def test_a_long_message_about_an_interrupt_is_seen():
    assert kernels.unlike_an_interrupt("KeyboardInterrupt: the run was interrupted") == []
    found = kernels.unlike_an_interrupt("Traceback\n" * 4)
    assert found == ["KeyboardInterrupt is not told", "4 lines are told"]
