"""The gradebook: what the grades, the times of submission and the points file come to.

    book = make(grades, submissions, points)      # plain data
    write_to(book, folder)                        # DIR/gradebook.json, the same bytes each time
    diff(old, new)                                # lines: which grades changed

A total stands only where every counted exercise has a grade: where the grader failed, or a
submission could not be read, it is null, with the reason beside it, and never 0. Lateness is
applied to the total; the points before it, the factor and its reason are kept apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from labs.grading.points import Points
from labs.grading.records import GRADER_ERROR, NOT_ATTEMPTED, Grade
from labs.grading.words import NOT_FOR_CREDIT, counted, hundredths, number, visible, write

FILE = "gradebook.json"
_UNLIKE = ("seconds", "measured")  # what differs from machine to machine: not in the gradebook


def make(
    grades: Iterable[Grade], submissions: Mapping[str, Mapping[str, Any]], points: Points
) -> dict[str, Any]:
    """The gradebook as plain data.

    grades       of several of one exercise of one student the last counts, as after a regrade
    submissions  what submissions.json holds: by student "file", "submitted", "problems"

    Points are those of `points`, also where the grades were made with others. Raises ValueError
    for the grade of an exercise that there is none of.
    """
    last = {(g.student, g.exercise): _honest(points.priced(g)) for g in grades}
    place = {name: at for at, name in enumerate(points.known)}
    order = sorted({exercise for _, exercise in last}, key=place.__getitem__)
    isolation = _isolation(last.values())
    students = {}
    for student in sorted({*submissions, *(student for student, _ in last)}):
        told = submissions.get(student, {})
        own = {name: last[student, name] for name in order if (student, name) in last}
        students[student] = _student(own, told, order, points, isolation == "none")
    for_credit = isolation != "none"
    return {
        "isolation": isolation,
        "for_credit": for_credit,
        "says": [] if for_credit else [NOT_FOR_CREDIT],
        "order": order,
        "students": students,
    }


def text(book: Mapping[str, Any]) -> str:
    """The gradebook as JSON: sorted keys, plain ASCII, the same for the same content."""
    return json.dumps(book, sort_keys=True, indent=1, allow_nan=False) + "\n"


def write_to(book: Mapping[str, Any], folder: str | Path) -> Path:
    """Write gradebook.json whole or not at all. Raises ValueError where that cannot be."""
    path = Path(folder) / FILE
    write(path, text(book))
    return path


def read(folder: str | Path) -> dict[str, Any]:
    """The gradebook of a folder that `labs grade` wrote. Raises ValueError, in a sentence."""
    path = Path(folder) / FILE
    try:
        book = json.loads(path.read_bytes())
        for one in book["students"].values():
            one["exercises"] = {
                name: Grade.from_json({**grade, "seconds": 0.0, "measured": {}}).to_json()
                for name, grade in one["exercises"].items()
            }
            missing = {"file", "submitted", "problems", "points", "of", "late", "total", "says"}
            if not missing <= set(one) or not {"factor", "words"} <= set(one["late"]):
                raise KeyError(*(missing - set(one)))
        if not {"isolation", "for_credit", "says", "order"} <= set(book):
            raise KeyError("order")
    except FileNotFoundError:
        raise ValueError(
            f"{folder} has no {FILE}; give the folder that `labs grade SUBMISSIONS --out` wrote"
        ) from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(
            f"{path} is not a gradebook of this version of the course; run `labs grade` again"
        ) from None
    return book


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line for each grade, lateness and total that changed, or that is in one book alone."""
    lines = []
    if old["isolation"] != new["isolation"]:
        lines.append(f"isolation: {old['isolation']} → {new['isolation']}")
    for student in sorted({*old["students"], *new["students"]}):
        who = visible(student)
        before, after = old["students"].get(student), new["students"].get(student)
        if before is None or after is None:
            lines.append(f"{who}: {'new' if before is None else 'no longer there'}")
            continue
        for name in sorted({*before["exercises"], *after["exercises"]}):
            pair = before["exercises"].get(name), after["exercises"].get(name)
            lines += [f"{who}: {name}: {told}" for told in _changes(*pair)]
        for what in ("total", "late"):
            was, now = _value(before, what), _value(after, what)
            if was != now:
                lines.append(f"{who}: {what}: {was} → {now}")
    return lines or ["no grade changed"]


def _student(
    own: dict[str, Grade], told: Mapping[str, Any], order: list[str], points: Points, idle: bool
) -> dict[str, Any]:
    counted_ones = [name for name in order if points.of(name)]
    failed = [name for name in counted_ones if name in own and own[name].points is None]
    missing = [name for name in counted_ones if name not in own]
    says = [NOT_FOR_CREDIT] if idle else []
    if failed:
        says.append(
            f"no total yet: the grader failed at {', '.join(failed)}, which is not the answer's "
            "fault and not counted as 0; grade it again"
        )
    if missing and not own:
        says.append("no total: nothing of what was handed in could be graded")
    elif missing:
        says.append(f"no total yet: there is no grade for {', '.join(missing)}")
    lost = [visible(one) for one in told.get("lost", ())]
    if lost and own:
        says.append(
            f"no total yet: {', '.join(lost)} could not be read, and nobody knows what is in it; "
            "ask for it anew, or take it away, and grade again"
        )
    raw = total = None
    late = points.late(told.get("submitted"))
    if not failed and not missing and not lost:
        exact = sum((hundredths(own[n].points or 0) for n in counted_ones), Decimal(0))
        raw = float(exact)
        total = float(hundredths(exact * Decimal(repr(late.factor))))
    return {
        "file": told.get("file", ""),
        "submitted": told.get("submitted"),
        "problems": list(told.get("problems", ())),
        "exercises": {name: _plain(grade) for name, grade in own.items()},
        "points": raw,
        "of": float(sum(hundredths(points.of(name)) for name in counted_ones)),
        "late": {"factor": late.factor, "words": late.words},
        "total": total,
        "says": says,
    }


def _honest(grade: Grade) -> Grade:
    """Where the grader failed there are no points, whatever the record says."""
    return replace(grade, points=None) if grade.state == GRADER_ERROR else grade


def _plain(grade: Grade) -> dict[str, Any]:
    return {key: value for key, value in grade.to_json().items() if key not in _UNLIKE}


def _isolation(grades: Iterable[Grade]) -> str:
    """How the students' code was shut in; "none" where any of it was not, or nobody says how."""
    grades = list(grades)
    ran = [g for g in grades if g.state != NOT_ATTEMPTED] or grades
    levels = sorted({g.isolation for g in ran})
    return "none" if not levels or {"none", ""} & set(levels) else ", ".join(levels)


def _changes(old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[str]:
    if old is None or new is None:
        there = old or new or {}
        return [f"{'graded now' if old is None else 'no longer graded'}: {_grade(there)}"]
    lines = [f"{_grade(old)} → {_grade(new)}"] if _grade(old) != _grade(new) else []
    was = {p["name"]: _property(p) for p in old["properties"]}
    now = {p["name"]: _property(p) for p in new["properties"]}
    for name in [*was, *(name for name in now if name not in was)]:
        pair = was.get(name, "not there"), now.get(name, "not there")
        if pair[0] != pair[1]:
            lines.append(f"{name}: {pair[0]} → {pair[1]}")
    return lines


def _grade(one: Mapping[str, Any]) -> str:
    points = "no points" if one["points"] is None else f"{number(one['points'])}"
    return f"{one['state']} {points} of {number(one['of'])}"


def _property(one: Mapping[str, Any]) -> str:
    hidden = f", {one['hidden_passed']} of {counted(one['hidden'], 'hidden case')}"
    return f"{one['state']}{hidden if one['hidden'] else ''}, {number(one['points'])}"


def _value(student: Mapping[str, Any], what: str) -> str:
    if what == "late":
        return student["late"]["words"]
    total = student["total"]
    return f"{'none' if total is None else number(total)} of {number(student['of'])}"
