"""Whether what is asked of `labs grade` fits what was handed in and what was graded before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from labs.grading import borrowed, extract
from labs.grading.reading import Student
from labs.grading.records import LOOK, Grade
from labs.grading.words import counted, visible
from labs.topics import nearest


def refuse_unknown(named: Sequence[str], there: Collection[str]) -> None:
    """Raises ValueError for a name after --only that nothing in `there` has."""
    for name in named:
        if name not in there:
            raise ValueError(
                f"--only {visible(name)}: there is no such student, exercise or topic here; "
                f"{nearest(name, there)}"
            )


def gone(
    before: Mapping | None, students: Collection[str], out: Path, submissions: Path
) -> list[str]:
    """A note on each student who was in the gradebook and has handed in nothing now.

    before: the gradebook in `out`, or None. Raises ValueError where that would be all of its
    students: then it is another class's, and would be lost.
    """
    was = sorted(before["students"]) if before else []
    missing = [student for student in was if student not in students]
    if was and len(missing) == len(was):
        raise ValueError(
            f"{out} has the grades of another class: nobody of its "
            f"{counted(len(was), 'student')}, as {visible(was[0])}, is in {submissions.name}; "
            "give another --out"
        )
    return [f"was in the gradebook, handed in nothing now: {visible(one)}" for one in missing]


def no_longer(before: Mapping | None, exercises: Collection[str]) -> list[str]:
    """A note where exercises of an earlier run are not in this one: the gradebook has one run's."""
    left = [name for name in (before or {}).get("order", ()) if name not in exercises]
    if not left:
        return []
    return [
        f"the gradebook has the notebooks of this run only: {', '.join(left)} "
        f"{'was' if len(left) == 1 else 'were'} in it before; give each assignment its own --out"
    ]


def to_look_at(students: Iterable[Student], grades: Iterable[Grade]) -> list[str]:
    """A note on each file that could not be read, and each grade that somebody should look at."""
    unread = [
        f"{visible(one.name)} {'has no total' if one.lost else 'was graded without it'}: "
        f"{visible(problem)}"
        for one in students
        for problem in one.problems[: 1 if one.unread else None]
    ]
    return unread + [
        f"{visible(one.student)}, {one.exercise}: {note}"
        for one in grades
        for note in one.notes
        if note in (LOOK, borrowed.NOTE, borrowed.LOOKS) or note.startswith(extract.ONLY_THE_STUB)
    ]
