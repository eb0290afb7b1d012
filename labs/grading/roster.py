"""The roster: who takes the course, from a CSV that a learning platform exports.

Each row is held against the names under which submissions were collected. A cell that equals such a
name, whatever the case, or the name of Canvas's files ("Lovelace, Ada" is lovelaceada), is a match.
Of names that case alone tells apart it is the one written as the cell is. What matches twice
matches nothing: it is named, so that nobody gets the grade of another.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from labs.grading.words import visible

_LARGEST = 10_000_000  # bytes
# What can tell who somebody is, in the order in which a row is shown by one of them.
COLUMNS = (
    "file id", "student", "sis login id", "username", "login", "email address", "email",
    "sis user id", "id number", "identifier", "id", "name", "full name",
)  # fmt: skip

_NUMBERED = re.compile(r"(?P<who>.+)_\d+")
_LAST_NUMBER = re.compile(r"\d+$")

# What a platform knows people by, best first.
_IDENTIFIERS = (
    "sis login id", "username", "login", "email address", "email", "sis user id", "id number",
    "identifier", "id", "file id", "student", "name", "full name",
)  # fmt: skip


@dataclass(frozen=True)
class Roster:
    """rows: as the file has them. row_of: by student. Unmatched: named in `warnings`."""

    rows: list[dict[str, str]] = field(default_factory=list)
    row_of: Mapping[str, dict[str, str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def identifier(self) -> str:
        """The column that tells most people apart: the first in which all differ, if one does."""
        rows = list(self.row_of.values()) or self.rows
        return max(_IDENTIFIERS, key=lambda name: len(_once(rows, name)))

    def who(self, student: str) -> str:
        """What identifies a student in the roster's own words; empty where nothing does."""
        return self.row_of.get(student, {}).get(self.identifier, "")

    @property
    def without(self) -> list[dict[str, str]]:
        """Rows of people who handed nothing in, or whose match is not clear."""
        taken = [id(row) for row in self.row_of.values()]
        return [row for row in self.rows if id(row) not in taken]


def _once(rows: Iterable[Mapping[str, str]], column: str) -> set[str]:
    """What stands in a column for one person alone."""
    often = Counter(row.get(column, "") for row in rows)
    return {told for told, count in often.items() if told and count == 1}


def cell(row: Mapping[str, str], *columns: str) -> str:
    """The first of these cells of a row that is not empty; columns in lower case."""
    return next((row[name] for name in columns if row.get(name)), "")


def read(path: str | Path, students: Iterable[str]) -> Roster:
    """The roster of a CSV file, held against the students of the gradebook.

    Raises ValueError, in a sentence, for a file that cannot be read or has no column that tells
    who somebody is.
    """
    path = Path(path)
    rows = _rows(path)
    students = sorted(set(students))
    names: dict[str, set[str]] = {}
    without_number: dict[str, set[str]] = {}
    for student in students:
        names.setdefault(_folded(student), set()).add(student)
        if numbered := _NUMBERED.fullmatch(_folded(student)):
            without_number.setdefault(numbered["who"], set()).add(student)
    found: dict[str, list[dict[str, str]]] = {}
    warnings = []
    for row in rows:
        keys = _keys(row)
        who = set().union(*(_called(key, names) for key in keys))
        if not who and not _numbers(row):  # then a name alone has to do
            who = set().union(*(without_number.get(_folded(key), set()) for key in keys))
        if len(who) > 1:
            warnings.append(
                f"{visible(label(row))} of the roster fits {_list(who)}; neither is used"
            )
        for student in who if len(who) == 1 else ():
            found.setdefault(student, []).append(row)
    for student, fits in sorted(found.items()):
        if len(fits) > 1:
            told = _list(label(row) for row in fits)
            warnings.append(f"{visible(student)} fits {told} of the roster; neither is used")
    row_of = {student: fits[0] for student, fits in found.items() if len(fits) == 1}
    roster = Roster(rows, row_of, warnings)
    for column in dict.fromkeys(("id", roster.identifier)):
        for told in sorted({row.get(column, "") for row in rows} - _once(rows, column) - {""}):
            warnings.append(
                f"{visible(told)} stands for several people in the roster's column {column}; it is "
                "used for none of them"
            )
            for row in rows:
                row[column] = "" if row.get(column) == told else row.get(column, "")
    warnings += [f"not in the roster: {visible(s)}" for s in students if s not in row_of]
    warnings += [
        f"in the roster, but without a submission: {visible(label(row))}" for row in roster.without
    ]
    return roster


def _called(key: str, names: Mapping[str, set[str]]) -> set[str]:
    """The students of that name; where case alone tells several apart, the one written so."""
    alike = names.get(_folded(key), set())
    return {student for student in alike if _composed(student) == key} or alike


def label(row: Mapping[str, str]) -> str:
    """What a person of the roster is called in a message."""
    full = " ".join(filter(None, (row.get("first name"), row.get("last name", row.get("surname")))))
    return full or cell(row, "student", "name", "full name", *COLUMNS) or "a row without a name"


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ValueError(f"the roster {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the roster {path} is not saved as UTF-8; save it anew") from None
    if len(content) > _LARGEST:
        raise ValueError(f"the roster {path} has more than {_LARGEST:,} bytes")
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise ValueError(f"the roster {path} is not CSV: {error}") from None
    head = [name.strip().casefold() for name in lines[0]] if lines else []
    if not set(head) & set(COLUMNS):
        raise ValueError(
            f"the roster {path} has no column that tells who somebody is; its first line has one "
            f"of {', '.join(COLUMNS)}"
        )
    found = []
    for line in lines[1:]:
        row = {name: value.strip() for name, value in zip(head, line, strict=False)}
        # Canvas writes the points of each assignment into a second row.
        if any(row.values()) and "points possible" not in cell(row, "student").casefold():
            found.append(row)
    return found


def _keys(row: Mapping[str, str]) -> set[str]:
    """Everything that a submission of this person can be called, in the roster's own case."""
    told = [row[name] for name in COLUMNS if row.get(name)]
    full = [row.get("student", ""), row.get("full name", ""), row.get("name", "")]
    first, last = row.get("first name", ""), row.get("last name", row.get("surname", ""))
    if first or last:
        full += [f"{last}, {first}", f"{first} {last}"]
        told.append(f"{first} {last}")
    # Canvas names a file by the sortable name without blanks and marks.
    full += [re.sub(r"[\W_]+", "", name) for name in full]
    told += full
    # As labs/grading/students.py calls who comes from Canvas or Moodle: lovelaceada_123.
    told += [f"{name}_{number}" for name in full if name for number in _numbers(row)]
    return {_composed(one) for one in told} - {""}


def _numbers(row: Mapping[str, str]) -> list[str]:
    """The number in the names of a person's files: Canvas's ID, Moodle's "Participant 12345"."""
    told = (_LAST_NUMBER.search(row.get(name, "")) for name in ("id", "identifier"))
    return [found[0] for found in told if found]


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name).strip()


def _folded(name: str) -> str:
    return _composed(name).casefold()


def _list(names: Iterable[str]) -> str:
    told = [visible(name) for name in sorted(names)]
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 1 else told)
