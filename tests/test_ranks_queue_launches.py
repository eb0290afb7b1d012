"""Launches that wait for their turn: what is told, what ends the wait, who shares a turn."""

import io
import json
import os
import re
import signal
import sys
import threading
import time

import pytest

from labs import ranks
from labs.ranks import devices, plain, queue, status, supervised
from tests import leftovers, on_ranks
from tests.queueing import COURSE, HOLDS, another, end, holder, own_queue, wait_for

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the queue needs Linux"),
]


@pytest.fixture
def name(monkeypatch):
    yield from own_queue(monkeypatch)


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
