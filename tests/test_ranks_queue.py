"""Whose turn it is: runs of all people on a machine, first come, first served."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from labs import ranks
from labs.cli import doctor
from labs.ranks import devices, queue
from labs.ranks.queue import Ticket, ahead
from tests import leftovers, on_ranks
from tests.queueing import COURSE, HOLDS, another, end, holder, own_queue, wait_for

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the queue needs Linux"),
]
SECOND = 10**9


@pytest.fixture
def name(monkeypatch):
    yield from own_queue(monkeypatch)


class TestWhoIsAhead:
    """The rule, on tickets as data."""

    def test_first_come_first_served(self):
        a, b, c = (Ticket(arrived, 7, 4) for arrived in (1, 2, 3))
        assert ahead(a, [a, b, c], 9) == []
        assert ahead(c, [a, b, c], 9) == [a, b]

    def test_a_tie_is_decided_by_the_process(self):
        a, b = Ticket(1, 7, 4), Ticket(1, 8, 4)
        assert (ahead(a, [a, b], 9), ahead(b, [a, b], 9)) == ([], [a])

    def test_a_later_one_at_work_is_ahead(self):
        """It did not see the earlier one's name in time; they shall not both run."""
        mine, later = Ticket(1, 7, 4), Ticket(2, 8, 4, began=3)
        assert ahead(mine, [mine, later], 9) == [later]

    def test_one_at_work_for_long_keeps_nobody_waiting(self):
        long, mine = Ticket(1, 7, 4, began=2), Ticket(3, 8, 4)
        assert ahead(mine, [long, mine], 59 * SECOND) == [long]
        assert ahead(mine, [long, mine], 61 * SECOND) == []
        waits = Ticket(1, 7, 4)
        assert ahead(mine, [waits, mine], 61 * SECOND) == [waits]


class TestTickets:
    def test_what_is_shown_is_what_is_read(self, name):
        shown = [Ticket(5, 1, 4), Ticket(12, 2, 8, began=13)]
        held = [queue._bound(one, name) for one in reversed(shown)]
        assert queue.tickets(name) == shown
        assert queue.tickets(name + "-other") == []
        for one in held:
            one.close()

    def test_two_names_of_one_run_are_one_ticket(self, name):
        held = [queue._bound(Ticket(5, 1, 4, began), name) for began in (0, 8)]
        assert queue.tickets(name) == [Ticket(5, 1, 4, 8)]
        for one in held:
            one.close()

    @pytest.mark.parametrize("odd", ["x-1-2-3", "1-2-3", "-1-2-3-4", "", "1-2-3-4-5", "1-2-3-4 5"])
    def test_names_that_are_no_tickets_are_passed_over(self, name, odd):
        import socket

        with socket.socket(socket.AF_UNIX) as made_up:
            made_up.bind(f"\0model-parallelism-labs/{name}/{odd}".encode())
            assert queue.tickets(name) == []
            with queue.turn(2):
                pass

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid(), reason="needs two users")
    def test_another_user_sees_and_is_seen(self, name):
        code = "import psutil  # before it may no longer read the library\n"
        code += f"os.setgid(65534); os.setuid(65534)\nfound = queue.tickets({name!r})\n"
        code += "print(len(found), flush=True)\n" + textwrap.dedent(HOLDS)
        with queue.turn(1):
            process = another(name, code, 1)
            assert process.stdout.readline() == "1\n"
            assert process.stdout.readline() == "turn\n"
            assert len(queue.tickets(name)) == 2
        end(process)

    @pytest.mark.namespace
    def test_a_container_with_its_own_network_has_its_own_queue(self, name):
        apart = ["unshare", "--user", "--map-root-user", "--net"]
        if subprocess.run([*apart, "true"], capture_output=True).returncode:
            pytest.skip("this system allows no network namespace to this user")
        code = f"from labs.ranks import queue; print(queue.why_none(), queue.tickets({name!r}))"
        with queue.turn(1):
            told = subprocess.run(
                [*apart, sys.executable, "-c", code], cwd=COURSE, capture_output=True, text=True
            )
            assert len(queue.tickets(name)) == 1
        assert told.stdout == "None []\n", told.stderr


class TestTurns:
    def test_in_the_order_of_their_coming_and_never_too_many(self, name, tmp_path):
        """Six processes: each notes when it begins and ends, with its ranks."""
        log = tmp_path / "log"
        code = """
            def note(what):
                with open(sys.argv[2], "a") as file:
                    file.write(f"{time.monotonic_ns()} {what} {sys.argv[3]} {sys.argv[1]}\\n")
            with queue.turn(int(sys.argv[1])):
                note("begins")
                time.sleep(0.1)
                note("ends")
        """
        first = holder(name, 2)
        waiting = []
        for number, n in enumerate([2, 1, 1, 4, 1, 2]):
            waiting.append(another(name, code, n, log, number))
            wait_for(name, number + 2)
        end(first)
        for process in waiting:
            assert process.wait(30) == 0
            process.stdout.close()
            process.stdin.close()
        lines = sorted(line.split() for line in log.read_text().splitlines())
        began = [int(number) for _, what, number, _ in lines if what == "begins"]
        # The second and third fit together: who of them notes it first is left open.
        assert began in ([0, 1, 2, 3, 4, 5], [0, 2, 1, 3, 4, 5])
        at_work = most = 0
        alone = []
        for _, what, number, n in lines:
            at_work += int(n) if what == "begins" else -int(n)
            most = max(most, at_work if number != "3" else 0)
            alone += [at_work] if (what, number) == ("begins", "3") else []
        assert most == 2  # the cores
        assert alone == [4]  # more ranks than cores: when it is first, and nothing beside it

    def test_one_killed_while_it_has_its_turn_or_waits(self, name):
        first = holder(name, 2)
        second = another(name, HOLDS, 2)
        wait_for(name, 2)
        third = another(name, HOLDS, 2)
        wait_for(name, 3)
        for process in (second, first):
            process.kill()
            process.communicate()
        assert third.stdout.readline() == "turn\n"
        assert len(queue.tickets(name)) == 1
        end(third)

    def test_one_that_was_stopped_while_it_waits_is_passed(self, name):
        """Ctrl-Z in a terminal, and nobody behind it waits for ever."""
        first = holder(name, 2)
        second = another(name, HOLDS, 2)
        wait_for(name, 2)
        os.kill(second.pid, signal.SIGSTOP)
        end(first)
        assert leftovers.wait_until(lambda: queue._stopped(second.pid))
        with queue.turn(2):
            assert len(queue.tickets(name)) == 2
        os.kill(second.pid, signal.SIGCONT)
        assert second.stdout.readline() == "turn\n"
        end(second)

    def test_one_at_work_for_long_is_passed(self, name, monkeypatch):
        first = holder(name, 2)
        monkeypatch.setattr(queue, "LONG", 0.5)
        begun = time.monotonic()
        with queue.turn(2) as beside:
            assert time.monotonic() - begun < 30
            assert beside == 2
        end(first)

    def test_a_forked_child_does_not_keep_the_place(self, name):
        with queue.turn(1):
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            assert len(queue.tickets(name)) == 1
        try:
            wait_for(name, 0)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)

    def test_it_would_keep_it_without_being_told(self, name, monkeypatch):
        """What the test above can notice."""
        monkeypatch.setattr(queue._Place, "leave", lambda self: None)
        with queue.turn(1):
            (place,) = queue._places
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
        monkeypatch.undo()
        place.leave()
        assert not leftovers.wait_until(lambda: queue.tickets(name) == [], 0.5)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def test_without_a_free_descriptor_it_runs_all_the_same(self, name, monkeypatch):
        def none_left(ticket, queue):
            raise OSError(24, "Too many open files")

        monkeypatch.setattr(queue, "_possible", lambda: True)
        monkeypatch.setattr(queue, "_bound", none_left)
        with queue.turn(2) as beside:
            assert beside == 0


class TestMemory:
    @pytest.fixture
    def free(self, monkeypatch):
        """Memory that is free now, in ranks; change it by its only item."""
        found = [2.0]
        monkeypatch.setattr(devices, "available_bytes", lambda: int(found[0] * devices.RANK_BYTES))
        return found

    def test_nobody_to_wait_for(self, name, free):
        refused = pytest.raises(
            ValueError, match="4 ranks asked for, but 2 fit on this machine now"
        )
        with refused, queue.turn(4):
            raise AssertionError("had its turn")
        assert queue.tickets(name) == []
        with queue.turn(4, in_memory=False):  # on GPUs
            pass

    def test_others_may_give_some_back(self, name, free, monkeypatch):
        monkeypatch.setattr(devices, "cores", lambda: 8)
        first = holder(name, 2)
        got = []

        def run():
            with queue.turn(2, say=got.append):
                got.append("turn")

        thread = threading.Thread(target=run)
        thread.start()  # room for two ranks: not for those of both
        assert leftovers.wait_until(lambda: got)
        assert set(got) == {"1 run ahead of yours"}
        free[0] = 4.0
        thread.join(30)
        assert got[-1] == "turn"
        end(first)

    def test_without_a_queue_it_is_refused_at_once(self, monkeypatch, free):
        monkeypatch.setenv("LABS_QUEUE", "off")
        refused = pytest.raises(
            ValueError, match="4 ranks asked for, but 2 fit on this machine now"
        )
        with refused, queue.turn(4):
            raise AssertionError("had its turn")

    def test_a_launch_says_so_before_anything_starts(self, name, free, private_tmp):
        free[0] = 1.0
        with pytest.raises(ValueError, match="2 ranks asked for, but 1 fit on this machine now"):
            ranks.launch(on_ranks.total, 2, status=False)
        assert leftovers.folders(private_tmp) == []


class TestSettings:
    def test_off(self, monkeypatch):
        monkeypatch.setenv("LABS_QUEUE", "off")
        assert (queue.name(), queue.why_none()) == (None, "LABS_QUEUE=off")
        with queue.turn(2), queue.turn(64):
            pass

    def test_elsewhere_than_on_linux(self, monkeypatch):
        monkeypatch.delenv("LABS_QUEUE")
        assert (queue.name(), queue.why_none()) == ("1", None)
        monkeypatch.setattr(queue, "_possible", lambda: False)
        assert queue.name() is None
        assert queue.why_none() == "this system does not list abstract sockets; Linux does"

    @pytest.mark.parametrize("bad", ["", "a b", "a/b", "x" * 33, "ä"])
    def test_a_name_that_cannot_be(self, monkeypatch, bad):
        monkeypatch.setenv("LABS_QUEUE", bad)
        for ask in (queue.name, ranks.warm_up):
            with pytest.raises(ValueError, match="LABS_QUEUE must be a name of at most 32 letters"):
                ask()

    def test_the_doctor_tells_capacity_and_who_is_there(self, name):
        with queue.turn(1):
            found = doctor._queue()
        assert found.told.startswith("2 ranks at once, or one larger run; first come, first served")
        assert found.told.endswith("at work now: 1, waiting: 0")
        assert found.numbers == {"name": name, "capacity": 2, "at_work": 1, "waiting": 0}

    def test_the_doctor_says_why_there_is_none(self, monkeypatch):
        monkeypatch.setenv("LABS_QUEUE", "off")
        assert doctor._queue().told == "off: LABS_QUEUE=off; runs do not wait for each other"
