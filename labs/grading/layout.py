"""Which folders of a collection are the class's, a student's, nbgrader's, or the course itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from labs.grading import students
from labs.grading.archive import Entry

_NOISE = ("__MACOSX", ".ipynb_checkpoints", "__pycache__", ".git", ".DS_Store", "Thumbs.db",
          "desktop.ini", "Icon\r")  # fmt: skip
# Parts of the course itself, where a student packed all of it.
_COURSE = ("labs", "solutions", "tests", "benchmarks", "scripts", "instructor", "site-packages")
_NBGRADER = (
    "source", "release", "autograded", "feedback", "gradebook.db", "nbgrader_config.py",
)  # fmt: skip
TOLD = ("times.csv", "submission_metadata.yml")


def is_noise(entry: Entry) -> bool:
    """Whether a system or Jupyter put it there: nobody handed it in."""
    return any(part in _NOISE or part.startswith("._") for part in entry.path)


def unwrapped(entries: list[Entry], name: str) -> tuple[list[Entry], dict[str, bytes]]:
    """The entries without folders that hold the whole class, and the files that tell of them.

    At most one such folder is taken off, and one with a name that can be no student's.
    """
    told: dict[str, bytes] = {}
    done = name.lower() in students.CLASSES
    while True:
        for one in entries:
            if one.path in [(table,) for table in TOLD] and not one.problem:
                told[one.name] = _content(one)
        entries = [one for one in entries if one.path not in [(table,) for table in TOLD]]
        inner = [one for one in entries if len(one.path) > 1]
        tops = {one.path[0] for one in entries}
        if len(tops) != 1 or not inner:
            return entries, told
        top = next(iter(tops))
        named = top.lower() in students.CLASSES
        if not named and (done or _is_student(top, inner)):
            return entries, told
        done = True
        entries = [replace(one, path=one.path[1:]) for one in inner]


def _content(table: Entry) -> bytes:
    try:
        return table.load()
    except ValueError as error:
        raise ValueError(f"{table.name} {error}") from None


def _is_student(folder: str, inner: list[Entry]) -> bool:
    """Whether the only folder is a student's, not one that holds the class."""
    files = [one for one in inner if not one.folder]
    mine = [one for one in files if len(one.path) == 2]
    alone = len(files) == len(mine) == 1
    stamped = any(one.name == "timestamp.txt" and len(one.path) == 3 for one in files)
    lessons = bool(mine) and all(students.is_lesson(one.name) for one in mine)
    return students.is_platform(folder) or alone or stamped or lessons


def only_submitted(entries: list[Entry]) -> list[Entry]:
    """Of an nbgrader course the folder `submitted`; of others everything."""
    tops = {one.path[0] for one in entries}
    if "submitted" not in tops or not tops & set(_NBGRADER):
        return entries
    return [
        replace(one, path=one.path[1:])
        for one in entries
        if one.path[0] == "submitted" and len(one.path) > 1
    ]


def of_one_course(entries: list[Entry], name: str) -> list[Entry]:
    """Where all is one copy of the course, it is one student's, called as the collection is."""
    tops = {one.path[0] for one in entries}
    if not tops >= {"notebooks", "labs"}:
        return entries
    return [replace(one, path=(name, *one.path)) for one in entries]


def copies_in(paths: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Folders that hold a copy of the course: `notebooks` lies beside `labs` in them."""
    folders = {path[: at + 1] for path in paths for at in range(len(path) - 1)}
    return {
        one[:-1] for one in folders if one[-1] == "notebooks" and (*one[:-1], "labs") in folders
    }


def is_of_course(path: tuple[str, ...], copies: set[tuple[str, ...]]) -> bool:
    """Whether a file is part of one of these copies, and no notebook of the student's."""
    return any(path[:at] in copies and part in _COURSE for at, part in enumerate(path[:-1]))
