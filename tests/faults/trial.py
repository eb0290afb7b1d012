"""One run of one fault, from all sides: time, words, what is left, whether the next works.

Each trial has folders of its own for temporary files, home and work; all must be empty afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from labs import ranks
from labs.ranks import supervised
from labs.ranks.doctor.diagnosis import ENDED_WELL, Diagnosis
from tests import leftovers
from tests.faults import broken, said
from tests.faults.said import Expected

GRACE = 5.0  # seconds that a run may take beyond its limit, or after what ends it
_SHM = Path("/dev/shm")


@dataclass(frozen=True)
class How:
    """In which way a fault is tried. odd: the rank that does not do what the others do."""

    mode: str
    ranks: int
    odd: int
    limit: float


@dataclass
class Seen:
    """What was seen of one trial. Lists of complaints are empty when all is well."""

    fault: str
    mode: str
    ranks: int
    seconds: float = 0.0  # from the call to its return; of what is ended from outside, from that on
    over: float = 0.0  # beyond the limit, or after what ended it
    explained: float | None = None  # seconds from the deadlock to the return
    told: str = ""
    came: bool = True  # whether all ranks came to the line that breaks
    judged: bool = True  # whether there is anybody to read an explanation
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    @property
    def late(self) -> bool:
        return self.over > GRACE

    @property
    def ok(self) -> bool:
        return not (self.late or self.wrong or self.left or self.after)


class Places:
    """The folders of a trial: notes for the harness, and three that must be empty at its end."""

    def __init__(self, root: Path, tmp: Path | None = None) -> None:
        self.root, self.notes = root, root / "notes"
        self.tmp = (tmp or root) / "temporary ä"
        self.home, self.cwd = root / "home", root / "work"
        for folder in (self.notes, self.tmp, self.home, self.cwd):
            folder.mkdir()

    def noted(self, kind: str) -> dict[int, object]:
        """What the ranks noted, by rank."""
        files = self.notes.glob(f"{kind}.[0-9]*")
        return {int(path.suffix[1:]): json.loads(path.read_text()) for path in files}

    def files(self) -> list[str]:
        """Files and folders that should not be there."""
        own = (self.tmp, self.home, self.cwd)
        # os.walk minds no folder that is removed meanwhile.
        within = [
            name for folder in own for _, *names in os.walk(folder) for name in sum(names, [])
        ]
        return [f"file {name}" for name in sorted(within)]


@contextlib.contextmanager
def places(tmp: Path | None = None) -> Iterator[Places]:
    """Folders for one trial in this process, which are its own while the block runs.

    tmp: where its temporary files go (None: beside the others).
    """
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        mine = Places(Path(name), tmp)
        before, cwd, earlier = dict(os.environ), os.getcwd(), tempfile.tempdir
        os.environ.update(TMPDIR=str(mine.tmp), HOME=str(mine.home))
        tempfile.tempdir = None
        os.chdir(mine.cwd)
        try:
            yield mine
        finally:
            os.chdir(cwd)
            tempfile.tempdir = earlier
            os.environ.clear()
            os.environ.update(before)
            if tmp is not None:
                mine.tmp.rmdir() if not mine.files() else None


def left_behind(mine: Places, owner: int, supervisors: set[int], shared: set[str]) -> list[str]:
    """Processes, ports and files of the runs of process `owner` that are still there.

    supervisors: processes that are meant to stay; shared: what was in /dev/shm before.
    """
    found = [f"process {p.pid}" for p in leftovers.marked(owner) if p.pid not in supervisors]
    for rank, known in sorted(mine.noted("rank").items()):
        for what in ("pid", "orphan", "agent"):
            if supervised.processes.alive(known[what]):
                found.append(f"process {known[what]}, {what} of rank {rank}")
    ports = {known["port"] for known in mine.noted("rank").values()}
    found += [f"port {port}" for port in ports if leftovers.listens(port)]
    found += mine.files()
    # Others on the machine make semaphores too, which live for a moment.
    leftovers.wait_until(lambda: not in_shared_memory() - shared, 1.0)
    return found + [f"/dev/shm/{name}" for name in in_shared_memory() - shared]


def in_shared_memory() -> set[str]:
    return {path.name for path in _SHM.iterdir()} if _SHM.is_dir() else set()


def own_supervisors() -> set[int]:
    return {one.process.pid for one in supervised._running.values()}


@dataclass(frozen=True)
class Fault:
    """A way to break a run, and what must be said of it."""

    name: str
    function: Callable
    expected: Callable[[How], Expected]
    worlds: tuple[int, ...] = (2, 4, 8)
    args: tuple = ()
    deadlock: bool = False  # the time from the last rank's wait to the explanation is noted
    provoke: Callable[[Places, How], None] | None = None  # breaks it from outside
    value: Callable[[How], object] | None = None  # what each rank returns, where it ends well
    around: Callable | None = None  # a context manager: the surroundings; yields where TMPDIR lies
    namespace: bool = False  # the surroundings want a private view of the machine
    whole_limit: bool = False  # it is ended at its limit only

    def trial(self, how: How, tmp: Path | None = None) -> Seen:
        """Break one run. tmp: where its temporary files go."""
        seen = Seen(self.name, how.mode, how.ranks)
        supervised.supervisor(how.mode).wait_ready()
        shared = in_shared_memory()
        with places(tmp) as mine:
            event = _Event(self.provoke, mine, how)
            begun = time.monotonic()
            found, told, culprit, wrong = self._run(mine, how)
            ended = time.monotonic()
            seen.wrong = [*wrong, *event.trouble()]
            seen.seconds = ended - begun if event.at is None else ended - event.at
            seen.over = seen.seconds - (how.limit if event.at is None else 0.0)
            # Some come while the run is being ended: when the limit came they were not there.
            seen.came = len(mine.noted("at")) == how.ranks and "not started yet" not in told
            if self.deadlock and seen.came:
                seen.explained = ended - max(mine.noted("at").values())
            seen.told = told
            seen.wrong += said.complaints(self.expected(how), found, told, culprit)
            seen.left = left_behind(mine, os.getpid(), own_supervisors(), shared)
            seen.after = next_run(how.mode)
            seen.left += [f"after the next run: {what}" for what in mine.files()]
        return seen

    def _run(self, mine: Places, how: How) -> tuple[Diagnosis, str, int | None, list[str]]:
        """The finding, the words, the culprit, and what is wrong with the run's values."""
        args = (str(mine.notes), how.odd, *self.args)
        options = dict(args=args, limit=how.limit, mode=how.mode, status=False)
        try:
            run = ranks.launch(self.function, how.ranks, **options)
        except ranks.RunFailed as failed:
            found = failed.run.diagnosis or Diagnosis("not started", str(failed))
            return found, str(failed), failed.run.culprit, []
        right = self.value is None or run.values == [self.value(how)] * how.ranks
        wrong = [] if right else [f"values: {run.values}"]
        return Diagnosis(ENDED_WELL, ""), run.output, None, wrong


class _Event:
    """What breaks a run from outside, once all its ranks have come to their line."""

    def __init__(self, provoke: Callable | None, mine: Places, how: How) -> None:
        self.at: float | None = None
        self._error, self._thread = "", None
        if provoke is not None:
            self._thread = threading.Thread(target=self._break, args=(provoke, mine, how))
            self._thread.start()

    def _break(self, provoke: Callable, mine: Places, how: How) -> None:
        everybody = leftovers.wait_until(lambda: len(mine.noted("at")) == how.ranks, how.limit)
        if not everybody:
            self._error = f"only {len(mine.noted('at'))} ranks came to the line that breaks"
            return
        time.sleep(0.1)
        self.at = time.monotonic()
        provoke(mine, how)

    def trouble(self) -> list[str]:
        if self._thread is not None:
            self._thread.join()
        return [self._error] if self._error else []


def next_run(mode: str) -> list[str]:
    """What is wrong with the run that comes after a broken one."""
    try:
        run = ranks.launch(broken.works, 2, mode=mode, limit=60.0, status=False)
    except (ranks.RunFailed, ValueError) as failed:
        return [str(failed)]
    return [] if run.values == [3.0, 3.0] else [f"values: {run.values}"]
