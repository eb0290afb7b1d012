"""The answers of a class: each student's files, read where students' code runs, never here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from labs.exercise import Exercise
from labs.grading import extract, newest
from labs.grading.records import Submission
from labs.grading.sandbox.launcher import Sandbox
from labs.ranks.run import RunFailed
from labs.ranks.ship import Source

_SECONDS = 10.0


@dataclass
class Student:
    """What one student has handed in."""

    name: str
    files: list[str] = field(default_factory=list)
    submitted: float | None = None  # the newest of the files that could be read; of none, of all
    problems: list[str] = field(default_factory=list)
    told: list[tuple[Submission, dict]] = field(default_factory=list)

    lost: list[str] = field(default_factory=list)  # files in which nothing could be read

    def to_json(self) -> dict:
        """As submissions.json has it."""
        return dict(
            file=", ".join(self.files), submitted=self.submitted, problems=list(self.problems),
            lost=list(self.lost),
        )  # fmt: skip

    @property
    def unread(self) -> bool:
        """Whether nothing of what was handed in could be read: nobody knows what is in it."""
        return bool(self.problems) and not any(_found(told) for _, told in self.told)

    def answer(self, exercise: str) -> tuple[Source | None, tuple[str, ...]]:
        """The answer to an exercise, None where it is not there or a stub; and notes."""
        chosen = newest.chosen(self.told, [exercise])[exercise]
        if chosen is None:
            why = [told["missing"].get(exercise, "") for _, told in self.told]
            return None, tuple(dict.fromkeys(filter(None, why))) or ("answer not found",)
        entry = chosen[1]
        told = {"exercises": {exercise: entry}}
        source = None if entry["stub"] else extract.source_of(told, exercise)
        return source, tuple(entry["notes"])


def students(found: Sequence[Submission], names: list[str], sandbox: Sandbox) -> list[Student]:
    """The class, by name. names: of the exercises to look for.

    Each file is read by a process in the sandbox: Python's parser is made for programs, not for
    attacks. Raises labs.grading.sandbox.launcher.SandboxError.
    """
    known: dict[str, Student] = {}
    for one in found:
        student = known.setdefault(one.student, Student(one.student))
        student.files.append(one.file)
        student.problems += one.problems
        if one.problems:
            student.lost.append(one.file)
            continue
        told = _read(one, names, sandbox)
        student.problems += [f"{one.file}: {problem}" for problem in told["problems"]]
        student.told.append((one, told))
        if told["problems"] and not _found(told):
            student.lost.append(one.file)
    for student in known.values():
        student.submitted = _submitted(found, student)
    return [known[name] for name in sorted(known)]


def _submitted(found: Sequence[Submission], student: Student) -> float | None:
    """When a student handed in: a file in which nothing can be read makes nobody late."""
    own = [one for one in found if one.student == student.name]
    read = [one for one, told in student.told if _found(told) or not told["problems"]]
    return max((one.submitted for one in read or own if one.submitted is not None), default=None)


def _found(told: dict) -> bool:
    """Whether something was found in a file."""
    return bool(told["functions"] or any(told["exercises"].values()))


def _read(one: Submission, names: list[str], sandbox: Sandbox) -> dict:
    try:
        run = sandbox.launch(extract.read, 1, args=(one.text, one.suffix, names), limit=_SECONDS)
        return run.values[0]
    except RunFailed as failed:
        why = f"it cannot be read: {str(failed).splitlines()[0]}"
        return dict(exercises=dict.fromkeys(names), missing={}, problems=[why], functions=[])
    finally:
        sandbox.launched.clear()


def topics_of(found: Sequence[Student], known: dict[str, Exercise]) -> dict[str, int]:
    """How many students have handed in something for a topic, in the course's order."""
    counts = dict.fromkeys((one.topic for one in known.values()), 0)
    for student in found:
        names = {
            name for _, told in student.told
            for name, entry in told["exercises"].items() if entry is not None
        }  # fmt: skip
        for topic in {known[name].topic for name in names}:
            counts[topic] += 1
    return {topic: count for topic, count in counts.items() if count}


def told_of_few(counts: dict[str, int], students: int) -> list[str]:
    """A note for each topic that not even half of the students have: it counts for all of them."""
    often = [topic for topic, count in counts.items() if 2 * count >= students]
    alone = " ".join(f"--notebook {topic}" for topic in often)
    return [
        f"{topic} was handed in by {count} of {students} students, and counts for all of them; "
        f"{alone or '--notebook'} grades only what was set"
        for topic, count in counts.items()
        if topic not in often
    ]
