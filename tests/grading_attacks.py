"""Judging an attack as a class's file is judged, and what it may have left on this machine."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from labs.exercise import exercises
from labs.grading import isolation, judge, reading
from labs.grading.records import PASS, Grade, Submission
from labs.grading.sandbox import probe
from labs.grading.sandbox.launcher import Sandbox
from labs.grading.sandbox.limits import MIB, Limits
from labs.ranks import processes
from tests import attacks

LIMITS = Limits(wall_seconds=5.0, idle_seconds=1.5, resident_bytes=640 * MIB, printed_bytes=MIB)
CANARY = "labs-attack-canary"
TOKENS = ("HF_TOKEN", "JUPYTERHUB_API_TOKEN")
SECRET = b"\x07" * 32
MARK = "labs-attack"
_WRITABLE = ("/tmp", "/dev/shm", "/var/tmp", "/run", "/root", "/home")


def shares(name: str, properties: object) -> dict[str, float]:
    """One point a property: what is zero is seen."""
    return {one: 1.0 for one in properties}


def strongest(hidden: list[str]) -> tuple[Sandbox | None, str]:
    """A sandbox of the strongest level for credit that works here; or None and why not."""
    why = []
    for name, level in isolation.LEVELS.items():
        if not level.for_credit or name == isolation.USER:
            continue
        reason = isolation.unsuitable(name)
        if not reason:
            sandbox = Sandbox(name, hidden=hidden, limits=LIMITS)
            reason = probe.works(sandbox)
            if not reason:
                return sandbox, ""
            sandbox.close()
        why.append(f"{name}: {reason}")
    return None, "; ".join(why)


@dataclass
class Field:
    """A machine's corner in which attacks are judged: a class's folder, listeners, a sandbox."""

    folder: Path
    sandbox: Sandbox | None = None
    reason: str = ""
    came: list[str] = field(default_factory=list)  # connections from a rank to this machine

    @property
    def _abstract(self) -> str:
        return f"{MARK}-{os.getpid()}-{self.folder.name}"

    @property
    def facts(self) -> dict[str, object]:
        """What attacks are told."""
        return dict(
            PORT=self._tcp.getsockname()[1], ABSTRACT=self._abstract, CANARY=CANARY,
            FOLDER=str(self.folder), JUDGE=os.getpid(),
        )  # fmt: skip

    def open(self, isolation_name: str = "") -> None:
        """Lay out the folder, listen, and start the sandbox."""
        for name in ("solutions.py", "results.jsonl", "secret", f"{CANARY}.txt"):
            (self.folder / name).write_text(CANARY)
        (self.folder / "grace").mkdir()
        (self.folder / "grace" / "01.py").write_text(f"# {CANARY}\n")
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(self._tcp.getsockname())
        self._unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._unix.bind(f"\0{self._abstract}")
        self._path = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._path.bind(str(self.folder / "socket"))
        for one in (self._unix, self._path):
            one.listen()
        for one in (self._tcp, self._udp, self._unix, self._path):
            one.setblocking(False)
        self._before = {name: os.environ.get(name) for name in TOKENS}
        os.environ.update(dict.fromkeys(TOKENS, CANARY))
        if isolation_name:
            self.sandbox = Sandbox(isolation_name, hidden=[str(self.folder)], limits=LIMITS)
        else:
            self.sandbox, self.reason = strongest([str(self.folder)])

    def close(self) -> None:
        """End the sandbox, stop listening."""
        for name, value in self._before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        if self.sandbox:
            self.sandbox.close()
        for one in (self._tcp, self._udp, self._unix, self._path):
            one.close()

    def grade(self, attack: attacks.Attack) -> Grade:
        """The file read and judged as `labs grade` does it."""
        self.sandbox.renew()  # before each student's answers
        text = attack.source(self.facts).encode()
        one = Submission("ada", f"{attack.name}.py", text, ".py")
        student = reading.students([one], [attack.exercise], self.sandbox)[0]
        assert student.problems == [], student.problems
        source, notes = student.answer(attack.exercise)
        assert source is not None, notes
        asked = judge.Asked("ada", exercises()[attack.exercise], source, notes)
        return judge.grade(asked, self.sandbox, SECRET, shares)

    def connections(self) -> list[str]:
        """Who has reached this machine's listeners, since it was asked before."""
        found = []
        for one in (self._tcp, self._unix, self._path):
            with contextlib.suppress(BlockingIOError):
                while True:
                    one.accept()[0].close()
                    found.append(str(one.getsockname()))
        with contextlib.suppress(BlockingIOError):
            found.append(f"a datagram {self._udp.recvfrom(100)}")
        return found

    def left(self) -> list[str]:
        """Processes of the sandbox's that still run, and files with the attacks' mark."""
        found = [f"process {pid}" for pid in self._processes()]
        for folder in (*_WRITABLE, os.getcwd(), str(self.folder), str(self.folder.parent)):
            with contextlib.suppress(OSError):
                names = os.listdir(folder)
                found += [f"{folder}/{n}" for n in names if n.startswith(MARK) and CANARY not in n]
        return found

    def _processes(self) -> list[int]:
        """Below the zygote, or in one of its networks: also what has another parent by now."""
        zygote = self.sandbox.zygote
        return sorted({*processes.descendants(zygote), *_in_networks(zygote)})


def _in_networks(zygote: int) -> Iterator[int]:
    mine = set()
    for fd in os.listdir(f"/proc/{zygote}/fd"):
        with contextlib.suppress(OSError):
            mine.add(os.readlink(f"/proc/{zygote}/fd/{fd}"))
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{pid}/ns/net") in mine and int(pid) != zygote:
                yield int(pid)


@functools.cache
def honest() -> attacks.Attack:
    """An answer that is right: after an attack it must still pass."""
    text = (
        "from tests.attacks.parts.honest import honest_row\n\n\n"
        "def row_parallel(x_shard, w_shard, bias):\n"
        "    return honest_row(x_shard, w_shard, bias)\n"
    )
    return attacks.Attack("honest", "nothing", "row_parallel", ("PASS",), ("none",), text)


def wrong(attack: attacks.Attack, grade: Grade, judged: Field) -> list[str]:
    """What an attack has got or left that it must not: empty where the defence holds."""
    points = {one.name: one.points for one in grade.properties}
    zero = points if attack.zero == ("all",) else [name for name in attack.zero if name != "none"]
    found = {
        "it got something": "GOT" in grade.told,
        "a secret is in the grade": CANARY in str(grade),
        f"the state is {grade.state}": grade.state not in attack.states,
        f"the reason is {grade.told!r}": attack.told not in grade.told,
        f"points for {[n for n in zero if points[n]]}": any(points[name] for name in zero),
        "all points": grade.state != PASS and grade.points == grade.of,
    }
    said = [what for what, holds in found.items() if holds]
    return [*said, *judged.connections(), *judged.left()]


@contextlib.contextmanager
def opened(folder: Path, isolation_name: str = "") -> Iterator[Field]:
    """A field with its sandbox, of the strongest level or of the one that is named."""
    made = Field(folder)
    made.open(isolation_name)
    try:
        yield made
    finally:
        made.close()


def timed(judged: Field, attack: attacks.Attack) -> tuple[Grade, float]:
    """The grade, and the seconds that it took."""
    began = time.monotonic()
    return judged.grade(attack), time.monotonic() - began
