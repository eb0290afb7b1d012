"""Whose file it is: the student's id, from the names that learning platforms give to files.

    ada.ipynb, ada_01_tp_linear_pair.ipynb, ada/01_tp_linear_pair.ipynb       ada
    lovelaceada_LATE_123_456_01_tp_linear_pair-1.ipynb       (Canvas)         lovelaceada_123
    Ada Lovelace_12345_assignsubmission_file_/x.ipynb        (Moodle)         Ada Lovelace_12345
    submission_123456/x.ipynb                                (Gradescope)     submission_123456
    submitted/ada/ASSIGNMENT/x.ipynb                         (nbgrader)       ada

An id depends on the file's own place alone, not on what lies beside it. It has letters, digits and
a few marks; a name that had others gets a few letters more, so that two stay two.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from labs import topics

_LESSONS = "|".join(
    rf"(?:{topic.lesson.partition('_')[0]}_)?{topic.name}" for topic in topics.TOPICS.values()
)
_COPY = r"(?:[ _-]*(?:\(\d+\)|copy ?\d*|\d{1,3}))*"
_ENDS = re.compile(rf"^(?P<who>.*?)[ _.-]*(?:{_LESSONS}){_COPY}$", re.IGNORECASE)
_BEGINS = re.compile(rf"^(?:{_LESSONS})[ _.-]+(?P<who>.+)$", re.IGNORECASE)
_CANVAS = re.compile(r"^(?P<who>[^_]+)_(?:LATE_)?(?P<user>\d+)_\d+_.+$")
_MOODLE = re.compile(r"^(?P<who>.+?_\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?$")
_GRADESCOPE = re.compile(r"^submission_\d+$")
# Folders that hold a class, whatever is in them.
CLASSES = ("submitted", "submissions", "notebooks", "export", "assignments")
_LONGEST = 80


@dataclass(frozen=True)
class Owner:
    """Whose a file is. sure: its name says so in a platform's way, or beside a lesson's name."""

    student: str
    sure: bool
    part: str  # the folder's or file's name that it was taken from


def is_lesson(name: str) -> bool:
    """Whether a file has the name of one of the course's notebooks, and nothing of a student's."""
    found = _ENDS.match(stem(name))
    return found is not None and not found["who"]


def is_platform(folder: str) -> bool:
    """Whether a folder has the name that a platform gives to one student's folder."""
    return bool(_MOODLE.match(folder) or _GRADESCOPE.match(folder))


def owner(path: tuple[str, ...], collection: str) -> Owner:
    """Whose the file at this path is; `collection` names what a lesson's name alone belongs to."""
    part = path[0]
    name = part if len(path) > 1 else stem(part)
    if found := _MOODLE.match(name):
        return Owner(clean(found["who"]), True, part)
    if len(path) > 1:
        return Owner(clean(name), bool(_GRADESCOPE.match(name)), part)
    if found := _CANVAS.match(name):
        return Owner(clean(f"{found['who']}_{found['user']}"), True, part)
    if found := _ENDS.match(name) or _BEGINS.match(name):
        return Owner(clean(found["who"] or collection), True, part)
    return Owner(clean(name), False, part)


def stem(name: str) -> str:
    """A file's name without its ending, also that of a browser: x.ipynb.json."""
    return re.sub(r"(?:\.(?:ipynb|py|zip|json|txt))+$", "", name, flags=re.IGNORECASE) or name


def clean(name: str) -> str:
    """An id from a name: what may stand in file names, tables and pages, and is unique still."""
    kept = "".join(c if c.isalnum() or c in " _-.@+,'" else "_" for c in name)
    kept = " ".join(kept.split()).strip(" .") or "nameless"
    if kept == name and len(kept) <= _LONGEST:
        return kept
    return f"{kept[: _LONGEST - 10]}~{hashlib.sha256(name.encode()).hexdigest()[:6]}"
