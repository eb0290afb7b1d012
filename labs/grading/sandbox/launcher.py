"""The judge's end of a sandbox: start ranks, hand each its own, watch, count, end them.

`Sandbox.launch` stands in for `labs.ranks.launch` (labs/ranks/elsewhere.py): the same judges, and
beneath them ranks that are shut in.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labs.grading.isolation import CONTAINER, NAMESPACES
from labs.grading.sandbox import container, network
from labs.grading.sandbox.folder import Folder
from labs.grading.sandbox.jobs import jobs
from labs.grading.sandbox.limits import Limits
from labs.grading.sandbox.outside import Outside
from labs.grading.sandbox.watching import Watching
from labs.ranks import ship
from labs.ranks.elsewhere import Later
from labs.ranks.run import Run, RunFailed

_ZYGOTE = Path(__file__).with_name("zygote.py")
_PACKET = 64 * 1024
_MOST_FDS = 2 * network.MOST
_START_SECONDS = 120.0
_ENVIRONMENT = {
    "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR", "KINETO_LOG_LEVEL": "99",
    "PYTHONHASHSEED": "0",  # the order of a set is no other one in the next run
    # A freed tensor of 1 MiB goes back to the system at once: memory is what is held, not what a
    # heap has kept of it.
    "MALLOC_MMAP_THRESHOLD_": "1048576",
}  # fmt: skip


class SandboxError(RuntimeError):
    """The sandbox itself failed: the grader's fault, never the answer's."""


@dataclass(frozen=True)
class Launched:
    """One launch as the grader knows it besides its `Run`."""

    run: Run
    outside: Outside
    state: str = ""  # a labs.grading.records state, where it did not come to its end


@dataclass
class Sandbox:
    """One zygote with its switch. Make it in a thread that lives as long: it ends with it.

    Making it raises SandboxError where it cannot be started; then nothing of it is left.
    """

    isolation: str
    hidden: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    launched: list[Launched] = field(default_factory=list)
    turn: threading.Lock | None = None  # held by who judges; others may while ranks run
    student: str = ""  # whose answers ran here last

    def __post_init__(self) -> None:
        self._own = Folder()
        self._folder = self._own.path
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the sandbox
        self._ended: dict[int, int] = {}
        self._line = self._process = None
        self.ready = self.used = False
        try:
            self._begin()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise SandboxError(f"it did not start: {error}") from None
            raise

    def _begin(self) -> None:
        """Start the zygote and tell it what is asked for. Raises OSError, SandboxError."""
        self._in_container() if self.isolation == CONTAINER else self._as_child()
        asked = dict(
            isolation=NAMESPACES if self.isolation == CONTAINER else self.isolation,
            folder=self._folder, most=network.MOST, hidden=list(self.hidden),
            parent=0 if self.isolation == CONTAINER else os.getpid(),
        )  # fmt: skip
        self._line.sendall(json.dumps(asked).encode())
        self.zygote = self._process.pid
        if self.isolation == CONTAINER:
            told = self._line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            self.zygote = struct.unpack("3i", told)[0]

    def _as_child(self) -> None:
        self._line, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_ZYGOTE)], stdin=its, stdout=subprocess.DEVNULL,
                stderr=self._said, cwd="/", start_new_session=True,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **_ENVIRONMENT},
            )  # fmt: skip

    def _in_container(self) -> None:
        """Start a container and wait until its zygote has called. Raises SandboxError."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(f"{self._folder}/judge")
            listening.listen(1)
            bounds = self.limits
            self._process = subprocess.Popen(
                container.command(
                    self._folder, network.MOST * bounds.resident_bytes,
                    network.MOST * bounds.processes + 64, _ENVIRONMENT,
                ),
                stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said, cwd="/",
                start_new_session=True,
            )  # fmt: skip
            listening.settimeout(0.2)
            deadline = time.monotonic() + _START_SECONDS
            while True:
                try:
                    self._line, _ = listening.accept()
                    return
                except TimeoutError:
                    if self._process.poll() is None and time.monotonic() < deadline:
                        continue
                    raise SandboxError(f"the container did not start: {self._words()}") from None

    def _words(self) -> str:
        """What the zygote, or who was to start it, has printed, in one line."""
        self._said.seek(0)
        said = self._said.read()[-2000:].decode("utf-8", "replace")
        return " ".join(said.split()) or "without a word"

    def wait_ready(self) -> None:
        """Wait until ranks can be started. Raises SandboxError, with the reason, if they cannot."""
        if self.ready:
            return
        message, _ = self._message(_START_SECONDS)
        if message["event"] != "ready":
            self.close()
            raise SandboxError(str(message.get("why", "the sandbox did not start")))
        self.ready = True

    def _message(self, seconds: float) -> tuple[dict, list[int]]:
        """The zygote's next message that is not of a rank's end, and the descriptors with it."""
        deadline = time.monotonic() + seconds
        while True:
            self._line.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                packet, fds, _, _ = socket.recv_fds(self._line, _PACKET, _MOST_FDS)
            except TimeoutError:
                raise SandboxError("the sandbox does not answer") from None
            except OSError as error:
                raise SandboxError(f"the sandbox has gone: {error}") from None
            if not packet:
                raise SandboxError(f"the sandbox has gone: {self._words()}")
            message = json.loads(packet)
            if message["event"] != "ended":
                return message, fds
            self._ended[message["pid"]] = message["status"]

    def launch(
        self, function: Callable | ship.Source, ranks: int = 4, *, args: tuple = (),
        kwargs: Mapping[str, object] | None = None, limit: float = 20.0,
    ) -> Run:  # fmt: skip
        """What `labs.ranks.launch` does, with ranks that are shut in.

        limit: seconds, without those that other programs took; they are as many times more, or
        less, as this sandbox's own are those of `Limits`. Raises ValueError for what cannot be
        sent, RunFailed as `launch` does, SandboxError when it is the grader's fault.
        """
        if not 1 <= ranks <= network.MOST:
            raise ValueError(f"a sandbox has 1 to {network.MOST} ranks, asked for {ranks}")
        with self._others_turn():
            self.wait_ready()
        job = dict(limit=limit, path=[])
        packed = jobs(job, function, ranks, args, dict(kwargs or {}))
        later = [one for one in args if isinstance(one, Later)]
        slower = self.limits.wall_seconds / Limits().wall_seconds
        bounds = replace(self.limits, wall_seconds=limit * slower)
        for _ in range(3):
            with self._others_turn():
                watching = self._watch(packed, later, ranks, bounds)
            if not watching.never_began:
                break
        else:
            raise SandboxError(watching.why or "the ranks did not start")
        done = Launched(watching.run, watching.outside, watching.state)
        self.launched.append(done)
        if done.state:
            raise RunFailed(done.run)
        return done.run

    def renew(self) -> None:
        """Before another student's answers: nothing is left in the ranks' network.

        Raises SandboxError.
        """
        if self.used:
            self._tell(op="renew")
            message, _ = self._message(30)
            if message["event"] != "renewed":
                raise SandboxError(str(message["why"]))
            self.used = False

    @contextlib.contextmanager
    def _others_turn(self) -> Iterator[None]:
        """Let other threads judge in this block."""
        if self.turn is None:
            yield
            return
        self.turn.release()
        try:
            yield
        finally:
            self.turn.acquire()

    def _watch(
        self, jobs: list[tuple[dict, dict]], later: list[Later], ranks: int, bounds: Limits
    ) -> Watching:
        """One start of ranks, followed to the end of the last process."""
        self._ended.clear()
        self.used = True
        self._tell(op="start", ranks=ranks, limits=bounds.to_json())
        message, fds = self._message(30)
        if message["event"] != "started":
            raise SandboxError(str(message.get("why", "ranks could not be started")))
        watching = Watching(
            self.zygote, message["pids"], fds, jobs, later, bounds,
            self.isolation in (CONTAINER, NAMESPACES), self._poll_ended,
        )  # fmt: skip
        try:
            watching.follow()
        finally:
            try:  # each is the first of its processes: with it the kernel ends the rest
                left = [rank.pid for rank in watching.ranks if rank.code is None]
                self._tell(op="kill", pids=left)
                self._until_ended(message["pids"])
                watching.drain()
            finally:
                watching.close()
        return watching

    def _tell(self, **message: object) -> None:
        """Send the zygote a message. Raises SandboxError."""
        self._line.settimeout(10)
        try:
            self._line.sendall(json.dumps(message).encode())
        except OSError as error:
            raise SandboxError(f"the sandbox has gone: {error}") from None

    def _poll_ended(self) -> dict[int, int]:
        """Exit codes of ranks that have ended, by process id. Raises SandboxError."""
        self._line.setblocking(False)
        try:
            while True:
                packet = self._line.recv(_PACKET)
                if not packet:
                    raise ConnectionResetError("it closed its line")
                message = json.loads(packet)
                if message["event"] == "ended":
                    self._ended[message["pid"]] = message["status"]
        except BlockingIOError:
            return self._ended
        except OSError as error:
            raise SandboxError(f"the sandbox has gone: {error}") from None

    def _until_ended(self, pids: Sequence[int], seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while set(pids) - set(self._poll_ended()):
            if time.monotonic() > deadline:
                raise SandboxError("a rank's processes did not end")
            time.sleep(0.001)

    def close(self) -> None:
        """End the zygote and whatever is below it."""
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self._process.kill()
            self._process.wait()
        self._said.close()
        self._own.remove()
