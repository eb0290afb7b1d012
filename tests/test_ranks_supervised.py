"""The supervisor's life: it ends itself when idle, never under a run, and is replaced unseen."""

import os
import random
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
from labs.ranks import processes, queue, supervised, supervisor
from tests import leftovers, on_ranks
from tests.test_cli import labs

COURSE = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def idle(monkeypatch):
    """Supervisors that end soon; none of before."""

    def after(seconds):
        monkeypatch.setenv("LABS_IDLE", str(seconds))

    before, supervised._running = supervised._running, {}
    after(0.3)
    yield after
    for found in supervised._running.values():
        found.close()
    supervised._running = before  # not by monkeypatch, which `nothing_left` would come before


def ended(process):
    return leftovers.wait_until(lambda: process.process.poll() is not None, 5)


def run(n=2, mode="cold"):
    return ranks.launch(on_ranks.total, n, status=False, mode=mode).values[0][0].item()


def sleep(seconds):
    time.sleep(seconds)


class TestIdle:
    def test_it_ends_itself_and_the_next_launch_starts_another(self, idle):
        assert run(mode="warm") == 3
        first = supervised._running["warm"]
        assert ended(first)
        assert first.process.returncode == 0
        assert run(mode="warm") == 3
        assert supervised._running["warm"].process.pid != first.process.pid

    def test_with_the_usual_setting_it_stays(self, idle, monkeypatch):
        """What the test above can notice."""
        monkeypatch.delenv("LABS_IDLE")
        stays = supervised.supervisor("cold")
        stays.wait_ready()
        time.sleep(1)
        assert stays.usable()

    def test_not_under_a_run_that_takes_longer(self, idle):
        ranks.launch(sleep, 1, args=(1.2,), status=False, mode="cold")
        first = supervised._running["cold"]
        assert ended(first) and first.process.returncode == 0

    @pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the queue needs Linux")
    def test_not_while_a_run_waits_for_its_turn(self, idle, monkeypatch):
        own = f"test-{os.getpid()}"
        monkeypatch.setenv("LABS_QUEUE", own)
        seen, thread = [], None

        def launch():
            seen.append(run(8))

        with queue.turn(64):
            thread = threading.Thread(target=launch)
            thread.start()
            assert leftovers.wait_until(lambda: len(queue.tickets(own)) == 2)
            waits = supervised._running["cold"]
            time.sleep(1)
            assert waits.usable()
        thread.join()
        assert seen == [36]
        assert supervised._running["cold"] is waits

    def test_an_interrupt_while_it_starts_does_not_hold_it_for_ever(self, idle):
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            run(mode="warm")
        first = supervised._running["warm"]
        assert leftovers.wait_until(lambda: first.process.poll() is not None, 30)
        assert first.process.returncode == 0

    def test_a_free_that_is_not_said_would_hold_it(self, idle, monkeypatch):
        monkeypatch.setattr(supervised.Supervised, "free", lambda self: None)
        run()
        first = supervised._running["cold"]
        assert not leftovers.wait_until(lambda: first.process.poll() is not None, 2)

    @pytest.mark.parametrize("bad", ["soon", "", "0", "-5", "nan", "inf", "1e9", "15 min"])
    def test_a_setting_that_cannot_be(self, idle, bad):
        idle(bad)
        with pytest.raises(ValueError, match="LABS_IDLE must be a number of seconds above 0"):
            ranks.warm_up()


@pytest.mark.parametrize(
    "words", [["run", "tp_linear_pair"], ["check", "tp_linear_pair"], ["tour"]]
)
@pytest.mark.parametrize("name", ["LABS_IDLE", "LABS_QUEUE"])
def test_the_command_line_refuses_settings_that_cannot_be(words, name, monkeypatch):
    monkeypatch.setenv(name, "a while")
    told = labs(*words)
    assert told.exit_code == 2
    assert f"{name} must be a" in told.stderr and told.stderr.count("\n") <= 1


class TestEndsAsARunBegins:
    def blind(self, monkeypatch):
        """The kernel looked just before it ended: it takes one that has ended for usable, once."""
        looks = []
        usable = supervised.Supervised.usable

        def stale(self):
            looks.append(self)
            return len(looks) == 1 or usable(self)

        monkeypatch.setattr(supervised.Supervised, "usable", stale)

    def test_another_takes_over_unseen(self, idle, monkeypatch, tmp_path):
        first = supervised.supervisor("cold")
        first.wait_ready()
        assert ended(first)
        self.blind(monkeypatch)
        with supervised.held("cold", tmp_path) as process:
            assert process is not first
            assert process.process.poll() is None

    def test_without_a_second_try_the_run_would_fail(self, idle, monkeypatch, tmp_path):
        first = supervised.supervisor("cold")
        first.wait_ready()
        assert ended(first)
        self.blind(monkeypatch)
        with pytest.raises(supervised.SupervisorGone):
            supervised._holding("cold", tmp_path, again=False)
        assert first.lock.acquire(blocking=False)

    def test_a_whole_launch(self, idle, monkeypatch):
        first = supervised.supervisor("cold")
        first.wait_ready()
        assert ended(first)
        self.blind(monkeypatch)
        assert run() == 3

    def test_at_any_moment(self, idle, tmp_path):
        """Asked for around the moment at which it ends itself."""
        idle(0.05)
        draw, pids = random.Random(0), set()
        for _ in range(40):
            with supervised.held("cold", tmp_path) as process:
                pids.add(process.process.pid)
                assert process.process.poll() is None
            time.sleep(draw.uniform(0.04, 0.12))
        assert 1 < len(pids) < 40  # it had ended sometimes, and sometimes not


class TestFolders:
    def test_a_folder_that_a_run_is_about_to_use_stays(self, idle):
        first = supervised.supervisor("cold")
        folder = first.new_folder()
        (folder / "job").write_text("large")
        assert ended(first)
        assert (folder / "job").read_text() == "large"
        second = supervised.Supervised("cold")
        second.hold(folder)
        second._line.close()  # as if the kernel were gone: the folder is its successor's now
        assert ended(second)
        assert not folder.exists()
        second.close()

    def test_folders_that_the_kernel_removed_are_forgotten(self, tmp_path):
        asked = supervisor.Asked(line=None)
        there, made_later = tmp_path / "there", tmp_path / "later"
        there.mkdir()
        now = time.monotonic()
        asked.folders = {str(there): now - 99, str(made_later): now, "/gone": now - 99}
        asked.forget_removed()
        assert list(asked.folders) == [str(there), str(made_later)]


def test_it_ends_with_its_kernel(private_tmp):
    code = """
        import os
        from labs import ranks
        from labs.ranks import supervised
        ranks.warm_up("cold")
        own = supervised.supervisor("cold")
        own.wait_ready()
        print(own.process.pid, flush=True)
        input()
    """
    kernel = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=COURSE, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    pid = int(kernel.stdout.readline())
    assert pid in supervised.all_of_this_user()
    kernel.kill()
    kernel.communicate()
    assert leftovers.wait_until(lambda: not processes.alive(pid), 5)
    assert pid not in supervised.all_of_this_user()


def test_ranks_are_not_taken_for_supervisors(idle):
    """They are forked from one, and have its command line."""
    idle(60)
    seen = []

    def look():
        assert leftovers.wait_until(lambda: len(processes.descendants(pid)) == 3)
        seen.append((set(processes.descendants(pid)), set(supervised.all_of_this_user())))

    pid = supervised.supervisor("warm").process.pid
    thread = threading.Thread(target=look)
    thread.start()
    ranks.launch(sleep, 2, args=(1.0,), status=False, mode="warm")
    thread.join()
    below, counted = seen[0]
    assert pid in counted
    assert not below & counted


def test_the_doctor_measures_the_warm_process(idle, monkeypatch):
    idle(1200)
    other = supervised.Supervised("cold")
    other.wait_ready()
    found = doctor._warm_process()
    assert found.name == "warm process"
    assert found.numbers["bytes"] > 10**7
    assert found.numbers["running"] >= 1
    assert found.numbers["running_bytes"] > 10**6
    assert "by itself after 20 minutes without work (LABS_IDLE)" in found.told
    other.close()
    idle(2)
    assert "by itself after 2 s without work" in doctor._warm_process().told
