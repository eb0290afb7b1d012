"""results.jsonl: a line a grade, written as it is made, and read again when a run is taken up.

A line says what was graded (student, exercise, a digest of the answer's text) and the grade. Lines
are only ever added. A run that was killed leaves at most one half line, its last, which is cut off.
Where several lines are of one exercise of one student, the last counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from labs.grading.isolation import NONE
from labs.grading.records import GRADER_ERROR, Grade
from labs.ranks.ship import Source

FILE = "results.jsonl"
_Key = tuple[str, str]


def digest(source: Source | None, notes: Sequence[str] = ()) -> str:
    """What tells one answer's text from another's; where there is none, one reason from another."""
    told: list = [list(notes)]
    if source is not None:
        told = [(cell.label, cell.text) for cell in source.cells]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


class Results:
    """The grades of a folder, oldest first."""

    def __init__(self, folder: Path) -> None:
        """Raises ValueError where the file is there and holds something else."""
        self.path = folder / FILE
        self.grades: list[Grade] = []
        self._done: dict[_Key, tuple[str, str]] = {}  # the answer's digest, where it ran
        self._rounds: dict[_Key, int] = {}
        self._lock = threading.Lock()
        kept = self._read()
        self._file = open(self.path, "ab", opener=_private)  # noqa: SIM115 - open until `close`
        self._file.truncate(kept)

    def _read(self) -> int:
        """Take in what is there. Returns the bytes of its whole lines."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        kept = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:kept].splitlines(), 1):
            try:
                told = json.loads(line)
                self._take(Grade.from_json(told["grade"]), told["digest"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{FILE}, line {number}, is no grade ({type(error).__name__}); give --out "
                    "another folder, or take the line away"
                ) from None
        return kept

    def _take(self, grade: Grade, text: str) -> None:
        key = grade.student, grade.exercise
        self.grades.append(grade)
        if grade.state == GRADER_ERROR:  # to be tried again, as if it had not been tried
            self._done.pop(key, None)
            return
        self._rounds[key] = self._rounds.get(key, 0) + 1
        self._done[key] = text, grade.isolation

    def has(self, student: str, exercise: str, text: str, for_credit: bool) -> bool:
        """Whether this very answer is graded; for_credit: a grade without isolation is none."""
        known, isolation = self._done.get((student, exercise), ("", ""))
        return known == text and not (for_credit and isolation == NONE)

    def rounds(self, student: str, exercise: str) -> int:
        """How often an exercise of a student was graded: each time with other inputs."""
        return self._rounds.get((student, exercise), 0)

    def add(self, grade: Grade, text: str) -> None:
        """Write a grade; it is on the disk when this returns."""
        line = json.dumps({"digest": text, "grade": grade.to_json()}, sort_keys=True)
        with self._lock:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
            self._take(grade, text)

    def current(self, keys: Iterable[_Key]) -> list[Grade]:
        """The last grade of each of these exercises of students, as far as there is one."""
        last = {(grade.student, grade.exercise): grade for grade in self.grades}
        return [last[key] for key in keys if key in last]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o600)
