"""One run of `labs grade`: a class's files in, a grade for every exercise of every student out.

Students' answers are judged side by side, each worker with a sandbox of its own. A grade is on the
disk before the next one is begun; a run that is killed is taken up by the same command, and ends
with the same gradebook: what inputs are drawn from is a secret kept beside the results.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labs.exercise import Exercise, exercises
from labs.grading import fitting, gradebook, isolation, reading, regrade
from labs.grading.collect import collected
from labs.grading.points import Points
from labs.grading.results import Results, digest
from labs.grading.sandbox import probe
from labs.grading.sandbox.launcher import Sandbox, SandboxError
from labs.grading.sandbox.limits import Limits
from labs.grading.words import counted, write
from labs.grading.workers import Task, Workers
from labs.ranks.devices import cores

SECRET, SUBMISSIONS, LOCK, POINTS = "secret", "submissions.json", "lock", "points.toml"
_MOST_JOBS = 16


@dataclass(frozen=True)
class Wanted:
    """What `labs grade` was asked for."""

    submissions: Path
    out: Path
    points: Points
    jobs: int | None = None
    isolation: str = "auto"
    topics: Sequence[str] = ()  # none: those that somebody has handed in
    regrade: Sequence[str] | None = None  # students and exercises; empty: all; None: what is new
    seconds: float = Limits().wall_seconds  # that ranks get to come to their end


@dataclass
class Outcome:
    """What came of it."""

    book: dict
    before: dict | None  # the gradebook as it was
    graded: int
    kept: int  # graded before
    level: isolation.Level
    notes: list[str] = field(default_factory=list)


def run(wanted: Wanted, say: Callable[[str], None]) -> Outcome:
    """Grade a class. say: takes a line of progress.

    Raises ValueError for what cannot be, before anything is started; when all is gone, with what
    was graded kept, KeyboardInterrupt, and SandboxError where no sandbox can be made any more.
    """
    if wanted.jobs is not None and not 1 <= wanted.jobs <= _MOST_JOBS:
        raise ValueError(f"--jobs must be 1 to {_MOST_JOBS}, got {wanted.jobs}")
    if not 1 <= wanted.seconds <= 600:
        raise ValueError(f"--seconds must be 1 to 600, got {wanted.seconds:g}")
    if wanted.submissions.is_dir() and _is_in(wanted.out, wanted.submissions):
        raise ValueError(
            f"{wanted.out} lies in {wanted.submissions}, and would be taken for a student; give "
            "--out a folder beside it"
        )
    found = collected(wanted.submissions)
    say(f"{counted(len(found.submissions), 'file')} found; making a place to run what is in them")
    with (
        _folder(wanted.out) as secret,
        contextlib.closing(Results(wanted.out)) as results,
        _sandboxes(wanted) as (level, sandbox, passed_over),
    ):
        say(f"isolation: {level.words}")
        return _graded(wanted, found, secret, level, sandbox, results, say, passed_over)


def _is_in(inner: Path, outer: Path) -> bool:
    return inner.resolve().is_relative_to(outer.resolve())


def _graded(wanted, found, secret, level, sandbox, results, say, notes) -> Outcome:  # noqa: ANN001
    known = exercises()
    people = reading.students(found.submissions, list(known), sandbox)
    counts = reading.topics_of(people, known)
    topics = wanted.topics or list(counts)
    few = [] if wanted.topics else reading.told_of_few(counts, len(people))
    if not topics:
        raise ValueError(
            "no exercise of the course was found in any file; --notebook 01 grades one all the same"
        )
    chosen = [one for one in known.values() if one.topic in topics]
    read = [student for student in people if not student.unread]
    tasks = [_task(student, one) for student in read for one in chosen]
    told = {student.name: student.to_json() for student in people}
    fitting.refuse_unknown(wanted.regrade or (), [*told, *(one.name for one in chosen), *topics])
    before = _book_before(wanted.out)
    gone = fitting.gone(before, told, wanted.out, wanted.submissions)
    gone += fitting.no_longer(before, [one.name for one in chosen])
    write(wanted.out / SUBMISSIONS, json.dumps(told, sort_keys=True, indent=1) + "\n")
    rounds = _rounds(wanted, tasks, results, level)
    todo = [task for task in tasks if _is_asked(task, rounds, results, level)]
    say(
        f"{counted(len(people), 'student')}, {counted(len(chosen), 'exercise')}: "
        f"{counted(len(todo), 'answer')} to grade, {len(tasks) - len(todo)} graded before"
    )
    jobs = wanted.jobs or min(cores(), _MOST_JOBS)
    workers = Workers(
        lambda: _sandbox(level.name, wanted), secret, wanted.points, results,
        wanted.out / "errors.log", say,
    )  # fmt: skip
    workers.work(todo, sandbox, jobs if level.side_by_side else 1)
    grades = results.current((task.student, task.exercise.name) for task in tasks)
    if wanted.points.text:  # what holds from now on, until another file is given
        write(wanted.out / POINTS, wanted.points.text)
    book = gradebook.make(grades, told, wanted.points)
    gradebook.write_to(book, wanted.out)
    if not any(_is_asked(task, rounds, results, level) for task in tasks):
        regrade.ended(wanted.out)
    look = fitting.to_look_at(people, grades)
    return Outcome(
        book, before, len(todo), len(tasks) - len(todo), level,
        [*found.notes, *notes, *gone, *few, *look],
    )  # fmt: skip


def _task(student: reading.Student, exercise: Exercise) -> Task:
    source, notes = student.answer(exercise.name)
    return Task(student.name, exercise, source, notes, digest(source, notes))


def _rounds(
    wanted: Wanted, tasks: Sequence[Task], results: Results, level: isolation.Level
) -> dict[tuple[str, str], int]:
    """The round that each task which is to be graded again is to reach."""
    if wanted.regrade is None:
        regrade.ended(wanted.out)
        return {}
    named = set(wanted.regrade)
    keys = [
        (task.student, task.exercise.name)
        for task in tasks
        if not named or named & {task.student, task.exercise.name, task.exercise.topic}
    ]
    asked = dict(
        only=sorted(named), topics=list(wanted.topics), isolation=level.name,
        seconds=wanted.seconds,
    )  # fmt: skip
    return regrade.to_reach(wanted.out, asked, keys, results)


def _is_asked(
    task: Task, rounds: dict[tuple[str, str], int], results: Results, level: isolation.Level
) -> bool:
    key = task.student, task.exercise.name
    if results.rounds(*key) < rounds.get(key, 0):
        return True
    return not results.has(*key, task.text, level.for_credit)


def _book_before(out: Path) -> dict | None:
    try:
        return gradebook.read(out)
    except ValueError:
        return None


@contextlib.contextmanager
def _folder(out: Path) -> Iterator[bytes]:
    """The results' folder, for this process alone; gives its secret. Raises ValueError."""
    if out.is_dir() and not _is_ours(out):
        raise ValueError(
            f"{out} holds other files than a grader's; give a new folder, or an empty one"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        out.chmod(0o700)  # nobody else's: not even a student with an account on this machine
        lock = os.open(out / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        why = "it is a file" if out.is_file() else error.strerror
        raise ValueError(f"{out} cannot be written to: {why}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"another `labs grade` is at work in {out}") from None
        for name in (SUBMISSIONS, gradebook.FILE, POINTS, regrade.FILE):
            for half in out.glob(f".{name}.*.part"):  # of a run that was killed amid writing it
                half.unlink(missing_ok=True)
        secret = out / SECRET
        if not secret.exists():
            new = out / f"{SECRET}.new"
            with open(os.open(new, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
                file.write(secrets.token_hex(32))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, secret)
        yield _secret(secret)
    finally:
        os.close(lock)


def _is_ours(out: Path) -> bool:
    """Whether a folder is empty, or one that a run has worked in."""
    names = [path.name for path in out.iterdir()]
    return not names or {SECRET, LOCK} & set(names) or all(n.endswith(".part") for n in names)


def _sandbox(level: str, wanted: Wanted) -> Sandbox:
    limits = Limits(wall_seconds=wanted.seconds, cpu_seconds=int(2 * wanted.seconds) + 1)
    return Sandbox(level, hidden=_private(wanted), limits=limits)


def _secret(file: Path) -> bytes:
    """What inputs are drawn from. Raises ValueError where the file holds something else."""
    try:
        return bytes.fromhex(file.read_text("ascii"))
    except (OSError, ValueError):
        raise ValueError(
            f"{file} holds no secret of this course's grader; give --out another folder"
        ) from None


def _private(wanted: Wanted) -> list[str]:
    """What no rank may see even where it lies in a folder that ranks see."""
    given = wanted.submissions.resolve()
    return [str(wanted.out.resolve()), str(given if given.is_dir() else given.parent)]


@contextlib.contextmanager
def _sandboxes(wanted: Wanted) -> Iterator[tuple[isolation.Level, Sandbox, list[str]]]:
    """The level, a sandbox that works, and what was passed over. Raises ValueError."""
    made: dict[str, Sandbox] = {}

    def attempt(name: str) -> str:
        try:
            made[name] = _sandbox(name, wanted)
        except (OSError, SandboxError) as error:
            return str(error)
        why = probe.works(made[name])
        if why:
            made.pop(name).close()
        return why

    try:
        level, passed_over = isolation.choose(wanted.isolation, attempt)
        yield level, made[level.name], passed_over
    finally:
        for sandbox in made.values():
            sandbox.close()
