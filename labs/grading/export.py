"""Exports: the gradebook as other programs read it.

    export.csv(book, roster)          for people: everything, a row a student
    export.canvas(book, roster)       Canvas, Gradebook > Import
    export.moodle(book, roster)       Moodle, Grades > Import > CSV file
    gradescope.results(book)          Gradescope, a results.json a student (gradescope.py)

Where there is no total (the grader failed, nothing could be read) there is no grade: an empty cell,
never 0. What that rests on, as of 2024, in the platforms' own code:

Canvas     The first cells of the head must be Student, ID, SIS User ID, SIS Login ID, Section. A
           row whose first cell has "Points Possible" describes the assignments. An assignment is
           found by the number in brackets at the end of its column, else by its name, else it is
           made. A student is found by ID, then SIS User ID, SIS Login ID, name. Columns called
           "Final Score" and the like are not read.
Moodle     Which column means what is chosen while importing. One identifier that is not known stops
           the whole import. No grade is "-": an empty cell becomes 0 where the import makes a new
           grade item, since its database layer writes 0 for an empty number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from labs.grading import sheet
from labs.grading.roster import Roster, cell, label
from labs.grading.sheet import Cell
from labs.grading.words import NOT_FOR_CREDIT, number

ASSIGNMENT = "Model parallelism labs"
_CANVAS_OWN = re.compile(
    "(Current|Final) (Score|Points|Grade)|Override (Score|Grade|Status)", re.IGNORECASE
)
Book = Mapping[str, Any]


def csv(book: Book, roster: Roster | None = None) -> str:
    """A row a student: points of each exercise, sum, lateness, total, remarks."""
    head = ["student", *(["identifier"] if roster else []), "file", "submitted"]
    head += [f"{name} ({_of(book, name) or 'practice'})" for name in book["order"]]
    head += ["points", "of", "late factor", "late", "total", "isolation", "remarks"]
    rows: list[list[Cell]] = [head]
    for student, one in book["students"].items():
        row: list[Cell] = [student]
        row += [roster.who(student)] if roster else []
        row += [one["file"], _utc(one["submitted"])]
        row += [_outcome(one["exercises"].get(name)) for name in book["order"]]
        row += [one["points"], one["of"], one["late"]["factor"], one["late"]["words"], one["total"]]
        rows.append([*row, book["isolation"], "; ".join([*one["says"], *one["problems"]])])
    for absent in roster.without if roster else ():
        empty: list[Cell] = [None] * (len(head) - 3)
        remarks = [*book["says"], "nothing handed in"]
        rows.append([label(absent), absent.get(roster.identifier, ""), *empty, "; ".join(remarks)])
    return sheet.text(rows)


def canvas(book: Book, roster: Roster | None = None, assignment: str = ASSIGNMENT) -> str:
    """What Canvas's gradebook imports. assignment: its name, best with its number: "Labs (1234)".

    Raises ValueError for a name that Canvas does not read as an assignment's.
    """
    roster = roster or Roster()
    if _CANVAS_OWN.search(assignment) or not assignment.strip():
        raise ValueError(f"Canvas does not import a column named {assignment!r}; choose another")
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", _title(book, assignment)]
    rows: list[list[Cell]] = [head, ["    Points Possible", "", "", "", "", _most(book)]]
    for student, one in book["students"].items():
        row = roster.row_of.get(student, {})
        rows.append([*_canvas_person(row, student), one["total"]])
    rows += [[*_canvas_person(row, label(row)), None] for row in roster.without]
    return sheet.text(rows)


def moodle(book: Book, roster: Roster | None = None) -> str:
    """What Moodle's gradebook imports: identifier, grade, feedback.

    With a roster, whoever is not in it is left out: one unknown name would stop the import, and a
    row without one gives its grade to the row before.
    """
    rows: list[list[Cell]] = [["identifier", "grade", "feedback"]]
    for student, one in book["students"].items():
        who = roster.who(student) if roster else student
        if who:
            grade = sheet.NOTHING if one["total"] is None else one["total"]
            rows.append([who, grade, _feedback(one)])
    return sheet.text(rows)


def without_grade(book: Book) -> list[str]:
    """A sentence for each student who gets no grade in an export."""
    return [
        f"{student} gets no grade: {'; '.join(one['says'])}"
        for student, one in book["students"].items()
        if one["total"] is None
    ]


def _canvas_person(row: Mapping[str, str], name: str) -> list[Cell]:
    login = cell(row, "sis login id", "username", "login")
    known = [cell(row, "id"), cell(row, "sis user id"), login, cell(row, "section")]
    who = cell(row, "student") or name
    # a row of that name would be read as the assignment's own
    return [who.replace("Points Possible", "Points-Possible"), *known]


def _title(book: Book, assignment: str) -> str:
    """The column's name; where nothing was shut in, with the words that say so."""
    if book["for_credit"]:
        return assignment
    found = re.fullmatch(r"(.*?)(\s*\(\d+\))?", assignment.strip(), re.DOTALL)
    return f"{found[1]} - {NOT_FOR_CREDIT}{found[2] or ''}"


def _feedback(one: Mapping[str, Any]) -> str:
    """A student's result in one line."""
    parts = [*one["says"], *one["problems"]]
    for name, grade in one["exercises"].items():
        if grade["of"]:
            points = "none" if grade["points"] is None else number(grade["points"])
            parts.append(f"{name}: {grade['state']}, {points} of {number(grade['of'])}")
    if one["total"] is not None:
        parts.append(f"total {number(one['total'])} of {number(one['of'])}")
    return "; ".join([*parts, one["late"]["words"]])


def _of(book: Book, exercise: str) -> str:
    """What an exercise is worth, for the head of its column; nothing for practice."""
    found = [one["exercises"].get(exercise) for one in book["students"].values()]
    grade = next(grade for grade in found if grade)
    return "" if grade["kind"] == "practice" else number(grade["of"])


def _outcome(grade: Mapping[str, Any] | None) -> Cell:
    """The points of a grade; of practice, which has none, what came of it."""
    if grade is None:
        return None
    return grade["state"] if grade["kind"] == "practice" else grade["points"]


def _most(book: Book) -> float:
    return max((one["of"] for one in book["students"].values()), default=0.0)


def _utc(submitted: float | None) -> str:
    if submitted is None:
        return ""
    try:
        return datetime.fromtimestamp(submitted, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return "not a time"
