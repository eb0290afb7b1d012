"""What a class handed in: a folder or a zip, as a learning platform exports it, file by file.

    found = collected("submissions.zip")
    found.submissions      # each notebook and Python file, with its student and time
    found.notes            # what was left out, and which files were taken as one student's

A file that cannot be read is a Submission with problems; it is never left out. Contents stay in
memory. Where a file `times.csv` (student,submitted) lies beside the submissions, its times count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from labs.grading import archive, clocks, layout, students
from labs.grading.archive import Entry
from labs.grading.records import Submission

MOST_TOTAL = 1_000_000_000  # bytes of all files that are read
MOST_OF_ONE = 40  # files of one student
MOST_BYTES_OF_ONE = 25_000_000


@dataclass
class Collected:
    """What was found. notes: sentences for the instructor."""

    submissions: list[Submission] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def collect(path: str | Path) -> list[Submission]:
    """The submissions in a folder, a zip or one file. Raises ValueError as `collected` does."""
    return collected(path).submissions


def collected(path: str | Path) -> Collected:
    """The submissions in a folder, a zip or one file, sorted by student and file, and notes.

    Raises ValueError, in a sentence, where there is nothing to collect, where there is more than
    any class hands in, or where times.csv cannot be understood.
    """
    path = Path(path)
    entries, name = _opened(path)
    entries = [one for one in entries if not layout.is_noise(one)]
    entries, at_root = layout.unwrapped(entries, name)
    entries = layout.of_one_course(layout.only_submitted(entries), name)
    _refuse_much(entries, name)
    found = Collected()
    people = clocks.gradescope(at_root.get("submission_metadata.yml", b""))
    by_student: dict[str, list[tuple[Entry, students.Owner]]] = {}
    for entry in entries:
        whose = students.owner(entry.path, students.clean(name))
        if whose.student in people:
            whose = replace(whose, student=students.clean(people[whose.student].name))
        by_student.setdefault(whose.student, []).append((entry, whose))
    when = {students.clean(p.name): p.submitted for p in people.values() if p.submitted}
    for student in sorted(by_student):
        _add(found, student, by_student[student])
        if sum(len(one.text) for one in found.submissions) > MOST_TOTAL:
            raise ValueError(f"{name} holds, unpacked, more than {MOST_TOTAL:,} bytes")
    if not found.submissions:
        raise ValueError(f"{name} holds no notebooks (.ipynb), Python files (.py) or zips of them")
    table = at_root.get("times.csv") or _beside(path)
    when |= clocks.table(table, {one.student for one in found.submissions})
    found.submissions = [
        replace(
            one,
            submitted=when.get(one.student, one.submitted),
            changed=one.changed or one.submitted,
        )
        for one in found.submissions
    ]
    found.notes += _alike(by_student)
    return found


def _opened(path: Path) -> tuple[list[Entry], str]:
    """The entries, and what the collection is called. A folder with one zip in it is that zip."""
    if path.is_dir():
        entries = archive.of_folder(path)
        real = [one for one in entries if not layout.is_noise(one) and one.name not in layout.TOLD]
        if len(real) == 1 and _is_export(real[0]):
            inner = path / real[0].file
            beside = [one for one in entries if one.name in layout.TOLD]
            return [*archive.of_zip(inner.name, inner), *beside], inner.stem
        return entries, path.resolve().name
    if not path.exists():
        raise ValueError(f"there is no file or folder {path.name} there")
    if path.suffix.lower() == ".zip":
        return archive.of_zip(path.name, path), path.stem
    if _suffix(path.name) is None:
        raise ValueError(f"{path.name} is neither a folder, a zip, a notebook nor a Python file")
    return archive.of_file(path), path.stem


def _is_export(alone: Entry) -> bool:
    """Whether the only file of a folder is the zip of a class, not that of one student."""
    is_zip = alone.name.lower().endswith(".zip") and not alone.problem
    return is_zip and not students.owner(alone.path, "").sure


def _refuse_much(entries: list[Entry], name: str) -> None:
    total = sum(one.size for one in entries if not one.problem and not one.folder)
    if total > MOST_TOTAL:
        raise ValueError(f"{name} holds {total:,} bytes; at most {MOST_TOTAL:,} are read at once")


def _add(found: Collected, student: str, owned: list[tuple[Entry, students.Owner]]) -> None:
    """Add one student's submissions, and a note of each file that is none."""
    entries, others, course = [], [], 0
    stamps = {one.path[:-1]: one for one, whose in owned if _is_stamp(one, whose)}
    copies = layout.copies_in(one.path for one, _ in owned)
    for one, whose in owned:
        if one.folder or _is_stamp(one, whose):
            continue
        if layout.is_of_course(one.path, copies):
            course += 1
        elif _suffix(one.name) or one.name.lower().endswith(".zip"):
            entries.append(one)
        else:
            others.append(one)
    if course:
        found.notes.append(f"{student}: {course} files of the course itself were left out")
    added: list[Submission] = []

    def when(one: Entry) -> float | None:
        stamp = stamps.get(one.path[:2])
        return one.modified if stamp is None else clocks.nbgrader(stamp)

    found.notes += [
        f"{student}: the time in {stamp.file} cannot be understood, so nobody knows when it was "
        "handed in; times.csv can tell it"
        for stamp in stamps.values()
        if clocks.nbgrader(stamp) is None
    ]

    few, more = _few(entries)
    added += [_problem(student, one, told, when(one)) for one, told in more]
    for one in few:
        if one.name.lower().endswith(".zip") and not one.problem:
            added += _inside(student, one, when(one), found)
        else:
            added.append(replace(_submission(student, one, when(one)), changed=one.modified))
    for one in others:
        if added:
            found.notes.append(f"{student}: {one.file} is no notebook and was left out")
        else:
            why = one.problem or "is neither a notebook (.ipynb) nor a Python file (.py)"
            found.submissions.append(_problem(student, one, f"{one.name} {why}", when(one)))
    if not added and not others:
        at = owned[0][0]
        added.append(_problem(student, at, f"{at.path[0]} holds no notebook", when(at)))
    found.submissions += added


def _is_stamp(one: Entry, whose: students.Owner) -> bool:
    """nbgrader's own STUDENT/ASSIGNMENT/timestamp.txt; one that a student packed is none."""
    return one.name == "timestamp.txt" and len(one.path) == 3 and not whose.sure


def _few(entries: list[Entry]) -> tuple[list[Entry], list[tuple[Entry, str]]]:
    """The entries within one student's bounds; the first that is not, with what is wrong."""
    kept, size = [], 0
    for at, one in enumerate(entries):
        size += 0 if one.problem else one.size
        if len(kept) == MOST_OF_ONE or size > MOST_BYTES_OF_ONE:
            what = f"{one.name} and {len(entries) - at - 1} more" if entries[at + 1 :] else one.name
            told = f"{MOST_OF_ONE} files and {MOST_BYTES_OF_ONE:,} bytes of one student are read"
            return kept, [(one, f"{what} not read: at most {told}")]
        kept.append(one)
    return kept, []


def _inside(
    student: str, outer: Entry, when: float | None, found: Collected
) -> Iterable[Submission]:
    """What is in a student's own zip, handed in when the zip was. A zip in it is not opened."""
    try:
        inner = archive.of_zip(outer.name, outer.load())
    except ValueError as error:
        told = str(error)
        told = told if told.startswith(outer.name) else f"{outer.name} {told}"
        return [_problem(student, outer, told, when)]
    entries, others = [], 0
    copies = layout.copies_in(one.path for one in inner)
    for one in inner:
        if one.folder or layout.is_noise(one) or layout.is_of_course(one.path, copies):
            continue
        if one.name.lower().endswith(".zip"):
            one = replace(one, problem=one.problem or f"is a zip in {outer.name}; unpack it")
        elif not _suffix(one.name):
            others += 1
            continue
        entries.append(replace(one, path=(*outer.path, *one.path)))
    few, more = _few(entries)
    added = [_problem(student, one, told, when) for one, told in more]
    added += [_submission(student, one, when) for one in few]
    if others and added:
        found.notes.append(f"{student}: {others} files in {outer.file} are no notebooks")
    return added or [_problem(student, outer, f"{outer.name} holds no notebook", when)]


def _submission(student: str, one: Entry, when: float | None) -> Submission:
    problem, content = one.problem, b""
    if not problem:
        try:
            content = one.load()
            problem = "" if content.strip() else "is empty"
        except ValueError as error:
            problem = str(error)
    if problem:
        return _problem(student, one, f"{one.name} {problem}", when)
    return Submission(student, one.file, content, _suffix(one.name), when)


def _problem(student: str, one: Entry, told: str, when: float | None) -> Submission:
    """A file that cannot be read, handed in at the time of the submission that it is in."""
    return Submission(student, one.file, b"", _suffix(one.name) or "", when, (told,))


def _suffix(name: str) -> str | None:
    """ ".ipynb" or ".py"; a notebook also where a browser saved it as x.ipynb.json."""
    lower = name.lower()
    if lower.endswith((".ipynb", ".ipynb.json", ".ipynb.txt")):
        return ".ipynb"
    return ".py" if lower.endswith(".py") else None


def _beside(path: Path) -> bytes:
    """times.csv beside a zip or a file."""
    table = path.parent / "times.csv"
    return b"" if path.is_dir() or not table.is_file() else table.read_bytes()[:1_000_000]


def _alike(by_student: dict[str, list[tuple[Entry, students.Owner]]]) -> list[str]:
    """A note of files that only their names make one student's, and of students alike in name."""
    notes = []
    for student, owned in sorted(by_student.items()):
        parts = sorted({whose.part for _, whose in owned})
        if len(parts) > 1 and not all(whose.sure for _, whose in owned):
            notes.append(f"taken as {student}'s: {', '.join(parts[:9])}")
    seen: dict[str, str] = {}
    for student in sorted(by_student):
        if (other := seen.setdefault(student.casefold(), student)) != student:
            notes.append(f"{other} and {student} are two students here; is it one?")
    return notes
