"""Of one student's files the one that counts for each exercise: the newest with an answer.

A file's own time orders it, and not the time at which the student is taken to have handed in, which
an extension changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from labs.grading.records import Submission

_COPY = re.compile(r"(.*\S) ?(?:-|\(|_\()(\d{1,3})\)?")  # lab-1, lab (1): a copy's number


def chosen(
    files: Iterable[tuple[Submission, dict]], names: Iterable[str]
) -> dict[str, tuple[Submission, dict] | None]:
    """Of one student's files the one that counts for each exercise, with what `read` told of it.

    The newest file with an answer counts; where none has one, the newest with a stub. Files of one
    time count by their names, the last first. A note in the entry names those that do not count.
    """
    in_order = sorted(files, key=lambda one: _age(one[0]), reverse=True)
    return {name: _newest(in_order, name) for name in names}


def _newest(files: list[tuple[Submission, dict]], name: str) -> tuple[Submission, dict] | None:
    having = [(one, told["exercises"].get(name)) for one, told in files]
    having = [(one, entry) for one, entry in having if entry is not None]
    answers = [(one, entry) for one, entry in having if not entry["stub"]]
    if not having:
        return None
    counts, entry = (answers or having)[0]
    others = [one.file for one, _ in answers if one is not counts]
    if others:
        note = f"{name} is in {_words([counts.file, *others])}; the newest, {counts.file}, counts"
        entry = {**entry, "notes": [*entry["notes"], note]}
    return counts, entry


def _age(one: Submission) -> tuple:
    """What files are ordered by: their own time, then the name with its numbers as numbers.

    Of lab.py, lab-1.py and "lab (2).py" the last is the newest: a platform or browser numbered it.
    """
    when = one.submitted if one.changed is None else one.changed
    folder, _, name = one.file.rpartition("/")
    stem, dot, ending = name.partition(".")
    numbered = _COPY.fullmatch(stem)
    stem, copy = (numbered[1], int(numbered[2])) if numbered else (stem, 0)
    parts = re.split(r"(\d+)", f"{folder}/{stem}")
    in_words = tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts if p)
    return (when is not None, when or 0.0, in_words, copy, dot + ending)


def _words(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1]
