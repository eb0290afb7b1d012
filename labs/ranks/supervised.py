"""The kernel's end of the line to the supervisor: start it, speak, end it, sweep what is left."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from labs.ranks import devices, environment, output, processes, queue

_FILE = Path(__file__).with_name("supervisor.py")
# Seconds. A cold disk, or thirty people who begin at once, may take minutes to import torch; what
# fails is noticed at once, and an interrupt ends the wait.
_START_LIMIT = 600.0


class SupervisorGone(RuntimeError):
    """The supervisor was killed, or did not start."""


class Supervised:
    """A running supervisor of this process."""

    def __init__(self, mode: str) -> None:
        self.mode, self.owner, self.lock = mode, os.getpid(), threading.RLock()
        self.holder = 0  # the thread that has the lock
        self.version = _FILE.stat().st_mtime_ns
        idle = environment.idle_seconds()
        # Whatever it starts carries this mark, and is found by it if the supervisor is killed.
        self.mark = f"LABS_SUPERVISOR={os.getpid()}-{time.time_ns()}"
        self._speaking = threading.Lock()  # two threads' lines must not mix
        self._buffer, self._ready, self._number = b"", False, 0
        mine, its = socket.socketpair()
        self._line = mine
        env = environment.for_ranks(threads=1, extra={"PYTHONPATH": ""})
        env.update([self.mark.split("=")])
        env.update(OPENBLAS_NUM_THREADS="1", LABS_MODE=mode)
        # A file: a pipe that nobody reads fills up, and stops who writes to it.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the supervisor
        self.process = subprocess.Popen(
            # -P: the files beside the supervisor's are no top-level modules
            [sys.executable, "-P", str(_FILE), str(os.getpid()), mode, str(idle)],
            stdin=its, stdout=subprocess.DEVNULL, stderr=self._said, env=env, cwd="/",
            start_new_session=True,
        )  # fmt: skip
        its.close()

    @property
    def lived(self) -> bool:
        """Whether it had started well."""
        return self._ready

    def let_go(self) -> None:
        """Give the lock to the next thread."""
        self.holder = 0
        self.lock.release()

    def usable(self) -> bool:
        """Ours (not a forked parent's), alive, and of the file as it is now."""
        return (
            self.owner == os.getpid()
            and self.process.poll() is None
            and self.version == _FILE.stat().st_mtime_ns
        )

    def wait_ready(self) -> None:
        if not self._ready:
            message = self.read(_START_LIMIT)
            if message is None:
                self.close()
                raise SupervisorGone(f"the supervisor did not start within {_START_LIMIT:g} s")
            self._ready = True

    def new_folder(self) -> Path:
        """A folder for one run. The caller removes it, or the supervisor if the caller is killed.

        The supervisor is told before there is a folder, and need not be ready.
        """
        folder = Path(tempfile.gettempdir(), f"labs-{os.urandom(4).hex()}")
        with contextlib.suppress(SupervisorGone):  # whoever begins the run will see that
            self._say(op="own", folder=str(folder))
        folder.mkdir(mode=0o700)
        return folder

    def hold(self, folder: Path) -> None:
        """Have it stay, however long a run waits, and answer for the run's folder. See `free`.

        It is asked before it is ready, so that a new one hears this first. Raises SupervisorGone.
        """
        self._say(op="hold", folder=str(folder))
        self.wait_ready()
        deadline = time.monotonic() + _START_LIMIT
        while message := self.read(max(0.0, deadline - time.monotonic())):
            if message["event"] == "held" and message["folder"] == str(folder):
                return
        raise SupervisorGone(f"the supervisor did not answer within {_START_LIMIT:g} s")

    def free(self) -> None:
        """The run is over: it may end itself once it has been idle for long enough."""
        with contextlib.suppress(SupervisorGone):
            self._say(op="free")

    def begin(self, **job: object) -> None:
        """Ask for a run. Its messages are those that `news` gives until the next one begins."""
        self.wait_ready()
        self._number += 1
        env = {**job["env"], **dict([self.mark.split("=")])}
        self._say(op="run", number=self._number, **{**job, "env": env})

    def end(self) -> None:
        """Ask for the end of the run; `news` tells when nothing of it is left."""
        self._say(op="kill", number=self._number)

    def _say(self, **message: object) -> None:
        try:
            with self._speaking:
                self._line.sendall((json.dumps(message) + "\n").encode())
        except OSError:
            raise SupervisorGone(self._last_words()) from None

    def news(self, wait: float) -> dict | None:
        """The next message about the run that is on, or None after `wait` seconds.

        Raises SupervisorGone when the supervisor is dead.
        """
        message = self.read(wait)
        return message if message and message.get("number") == self._number else None

    def read(self, wait: float) -> dict | None:
        """The next message, or None after `wait` seconds. Raises SupervisorGone."""
        deadline = time.monotonic() + wait
        while b"\n" not in self._buffer:
            left = max(0.0, deadline - time.monotonic())
            ready = processes.readable(self._line.fileno(), min(left, 0.5))
            data = b""
            if ready:
                with contextlib.suppress(ConnectionError):
                    data = self._line.recv(1 << 16)
            elif self.process.poll() is None:
                if time.monotonic() >= deadline:
                    return None
                continue
            if not data:
                raise SupervisorGone(self._last_words())
            self._buffer += data
        text, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(text)

    def kill(self, limit: float = 8.0) -> None:
        """End the run that is on, whatever its ranks do, and wait until nothing is left of it."""
        try:
            self.end()
            deadline = time.monotonic() + limit
            while time.monotonic() < deadline:
                message = self.news(0.1)
                if message and message["event"] == "done":
                    return
        except SupervisorGone:
            return
        self.close()

    def close(self) -> None:
        """End the supervisor and everything below it."""
        self._line.close()
        if self.owner != os.getpid():
            return
        if not self._ready:  # nothing was ever asked of it, so nothing is below it
            self.process.kill()
        try:
            self.process.wait(2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._said.close()
        if self.process.returncode:  # else it ended by itself, when all below it had ended
            processes.kill_marked(self.mark)

    def _last_words(self) -> str:
        said = ""
        if not self._said.closed:
            self._said.seek(0)
            said = self._said.read().decode("utf-8", "replace")[-2000:]
        self.process.kill()
        self.close()
        return f"the supervisor of the ranks was killed or failed to start\n{said}".rstrip()


_running: dict[str, Supervised] = {}
_starting = threading.Lock()  # two threads that launch at once share one supervisor


def _forked() -> None:
    """In a forked child: no thread of it holds the lock, whatever the parent's threads did."""
    global _starting
    _starting = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def supervisor(mode: str) -> Supervised:
    """This process's supervisor for `mode`, started if there is none."""
    with _starting:
        found = _running.get(mode)
        if found is None or not found.usable():
            if found is not None:
                found.close()
            found = _running[mode] = Supervised(mode)
        return found


@contextlib.contextmanager
def held(mode: str, folder: Path) -> Iterator[Supervised]:
    """The supervisor for `mode`: ready, this thread's alone, and there until the block ends.

    One that ends itself at this very moment is replaced, unseen: nothing was started yet.

    Raises SupervisorGone when it cannot be started.
    """
    process = _holding(mode, folder, again=True)
    try:
        yield process
    finally:
        process.free()
        process.let_go()


def _holding(mode: str, folder: Path, again: bool) -> Supervised:
    """The supervisor, locked and held for `folder`."""
    process = supervisor(mode)
    if process.holder == threading.get_ident():
        raise RuntimeError(
            "a launch was asked for inside another one of the same thread (from a signal handler, "
            "or a callback); launch it after that one"
        )
    process.lock.acquire()
    process.holder = threading.get_ident()
    try:
        process.hold(folder)
        return process
    except SupervisorGone as gone:
        process.let_go()
        if not (again and process.lived):
            raise SupervisorGone(output.clean(str(gone))) from None
    except BaseException:
        process.free()
        process.let_go()
        raise
    return _holding(mode, folder, again=False)


def all_of_this_user() -> list[int]:
    """Process ids of the supervisors that serve this user's kernels and programs now."""
    import psutil

    found = []
    for process in psutil.process_iter(["cmdline", "ppid", "uids"]):
        words, uids = process.info["cmdline"] or [], process.info["uids"]
        if len(words) < 4 or not uids or uids.real != os.getuid():
            continue
        # Its forked agents and ranks have the same words, but not the kernel as their parent.
        file, kernel = words[-4:-2]
        if file.endswith("labs/ranks/supervisor.py") and kernel == str(process.info["ppid"]):
            found.append(process.pid)
    return found


def warm_up(mode: str | None = None) -> None:
    """Begin to start the supervisor for `mode` (None: the default), without waiting for it.

    Raises ValueError for settings (LABS_IDLE, LABS_QUEUE) that no run could have, and on Windows.
    """
    devices.refuse_windows()
    queue.name()
    environment.idle_seconds()
    supervisor(mode or environment.default_mode()[0])


@atexit.register
def _close_all() -> None:
    for found in _running.values():
        if found.owner == os.getpid():
            found.close()
