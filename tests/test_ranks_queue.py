"""Whose turn it is: runs of all people on a machine, first come, first served."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from labs import ranks
from labs.cli import doctor
from labs.ranks import devices, plain, queue, status, supervised
from labs.ranks.queue import Ticket, ahead
from tests import leftovers, on_ranks

COURSE = Path(__file__).resolve().parents[1]
pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the queue needs Linux"),
]
SECOND = 10**9


@pytest.fixture
def name(monkeypatch):
    """A queue of this test's own, on a machine with two cores."""
    own = f"test-{os.getpid()}-{time.monotonic_ns() % 10**9}"
    monkeypatch.setenv("LABS_QUEUE", own)
    monkeypatch.setattr(devices, "cores", lambda: 2)
    yield own
    assert queue.tickets(own) == []


def another(name, code, *words):
    """Another person's process, which has the two cores and the queue too. Its lines are read."""
    head = (
        "from labs.ranks import devices, queue; devices.cores = lambda: 2\nimport sys, time, os\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code), *map(str, words)],
        cwd=COURSE, env={**os.environ, "LABS_QUEUE": name}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


HOLDS = """
    with queue.turn(int(sys.argv[1])):
        print("turn", flush=True)
        sys.stdin.readline()
"""


def holder(name, n):
    """A process that has its turn and keeps it until a line or its end."""
    process = another(name, HOLDS, n)
    assert process.stdout.readline() == "turn\n"
    return process


def end(process):
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


def wait_for(name, count):
    assert leftovers.wait_until(lambda: len(queue.tickets(name)) == count)


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


@pytest.mark.ranks
class TestLaunches:
    def test_waiting_is_told_and_no_part_of_the_limit(self, name, monkeypatch):
        """Two ahead, then one, then the run: with a limit shorter than the wait."""
        ranks.launch(on_ranks.everything, 2, status=False)  # a supervisor that is ready
        log = io.StringIO()
        monkeypatch.setattr(sys, "stderr", log)
        first = holder(name, 2)
        second = another(name, HOLDS, 2)
        wait_for(name, 2)
        timer = threading.Timer(1.5, lambda: end(first))
        timer.start()
        later = threading.Timer(3.0, lambda: end(second))
        later.start()
        begun = time.monotonic()
        done = ranks.launch(on_ranks.everything, 2, limit=2.5)
        waited = time.monotonic() - begun
        timer.join()
        later.join()
        said = re.findall(r"· (\d runs? ahead of yours)", log.getvalue())
        assert said == ["2 runs ahead of yours", "1 run ahead of yours"]
        assert waited > 2.9
        assert done.seconds < waited - 2
        assert all(0 <= event["start"] <= done.seconds for event in done.timeline)

    def test_an_interrupt_ends_the_wait(self, name, nothing_left):
        before = ranks.launch(on_ranks.total, 1, status=False) and supervisor_pid()
        first = holder(name, 2)
        timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            ranks.launch(on_ranks.total, 2, status=False)
        assert len(queue.tickets(name)) == 1
        assert leftovers.folders(nothing_left) == []
        end(first)
        assert ranks.launch(on_ranks.total, 2, status=False).values[0][0] == 3
        assert supervisor_pid() == before

    def test_a_run_that_fails_or_is_interrupted_gives_its_place_back(self, name, nothing_left):
        with pytest.raises(ranks.RunFailed):
            ranks.launch(on_ranks.fail, 2, args=(1, "raise"), status=False)
        assert queue.tickets(name) == []

        def interrupt():
            assert leftovers.wait_until(lambda: len(list(nothing_left.glob("spins.*"))) == 2)
            assert [one.began > 0 for one in queue.tickets(name)] == [True]
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            ranks.launch(on_ranks.deaf, 2, args=(str(nothing_left),), status=False)
        thread.join()
        assert queue.tickets(name) == []

    def test_a_run_inside_a_run_belongs_to_its_turn(self, name):
        """Else a rank that launches ranks would wait for its own run for ever."""
        told = ranks.launch(on_ranks.environment, 1, args=("LABS_QUEUE",), status=False).values
        assert told == [{"LABS_QUEUE": "off"}]

    def test_threads_that_launch_at_once(self, name):
        got = {}

        def start(n, mode):
            done = ranks.launch(on_ranks.total, n, mode=mode, status=False)
            got[n, mode] = done.values[0][0].item()

        kinds = [(1, "warm"), (2, "warm"), (3, "warm"), (1, "cold")]
        threads = [threading.Thread(target=start, args=kind) for kind in kinds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == {(n, mode): n * (n + 1) / 2 for n, mode in kinds}

    def test_a_forked_child_takes_its_own_turn(self, name):
        code = """
            import multiprocessing
            from labs import ranks
            from tests import on_ranks
            def launch():
                print(ranks.launch(on_ranks.total, 2, status=False).values[0][0].item(), flush=True)
            with queue.turn(2):
                child = multiprocessing.get_context("fork").Process(target=launch)
                child.start()
                while len(queue.tickets(os.environ["LABS_QUEUE"])) < 2:
                    time.sleep(0.02)
                print("both", flush=True)
            child.join()
        """
        process = another(name, code)
        told, _ = process.communicate(timeout=60)
        assert (told, process.returncode) == ("both\n3.0\n", 0)

    def test_a_plain_torchrun_takes_its_turn(self, name, capsys, monkeypatch):
        monkeypatch.setattr(status, "_notebook_display", lambda head: None)
        first = holder(name, 2)
        thread = threading.Thread(target=lambda: plain.torchrun("benchmarks.meeting", ranks=1))
        thread.start()
        wait_for(name, 2)
        time.sleep(0.5)
        assert [one.began > 0 for one in queue.tickets(name)] == [True, False]
        assert leftovers.of_runs() == []
        end(first)
        thread.join(60)
        assert not thread.is_alive()
        shown = capsys.readouterr()
        assert "$ torchrun --nproc-per-node 1 -m benchmarks.meeting" in shown.out
        assert "1 run ahead of yours" in shown.err

    def test_threads_a_rank_beside_another_run(self, name, monkeypatch):
        monkeypatch.setattr(devices, "cores", lambda: 8)
        first = holder(name, 2)
        assert ranks.launch(on_ranks.total, 2, status=False).threads == [2, 2]
        end(first)
        assert ranks.launch(on_ranks.total, 2, status=False).threads == [4, 4]


def supervisor_pid():
    return supervised.supervisor("warm").process.pid


@pytest.mark.ranks
@pytest.mark.slow
def test_what_a_notebook_stores_does_not_tell_of_the_wait(name, tmp_path):
    """In a kernel the line ends as it began, though it told of a run ahead."""
    import nbformat
    from nbclient import NotebookClient

    from labs.notebooks.kernel_environment import kernel_environment

    first = holder(name, 2)
    cell = "from labs import ranks\nfrom tests import on_ranks\nranks.launch(on_ranks.total, 2)\n1"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    client = NotebookClient(book, timeout=120, resources={"metadata": {"path": str(COURSE)}})
    thread = threading.Thread(target=lambda: (wait_for(name, 2), time.sleep(1), end(first)))
    thread.start()
    client.execute(env={**kernel_environment(str(tmp_path)), "LABS_QUEUE": name})
    thread.join()
    stored = json.dumps(book.cells[0].outputs)
    assert "2 ranks on gloo/CPU: no GPU is visible" in stored
    assert "ahead" not in stored
