"""Gradescope: a results.json for each student, as its autograder writes one.

Of each property there is a visible test that has the points, with what the public cases showed, and
one with visibility "hidden", without points, that says how many hidden cases passed: hidden tests
with points would keep students from seeing their score. The score on top is the total after
lateness; Gradescope takes it instead of the sum. Where there is no total no score stands anywhere,
and Gradescope reports the submission as not graded instead of 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from labs.grading.records import GRADER_ERROR, NOT_ATTEMPTED, STATES
from labs.grading.words import counted, file_names, shown

FILE = "results.json"


def results(book: Mapping[str, Any]) -> dict[str, str]:
    """The content of each student's file, by its path below the export's folder."""
    names = file_names(book["students"])
    return {
        f"{names[student]}/{FILE}": json.dumps(
            result(book, student), sort_keys=True, indent=1, allow_nan=False
        )
        + "\n"
        for student in book["students"]
    }


def result(book: Mapping[str, Any], student: str) -> dict[str, Any]:
    """The results.json of one student as plain data."""
    one = book["students"][student]
    scored = one["total"] is not None
    told = [*one["says"], *one["problems"], one["late"]["words"]]
    told.append(f"isolation: {book['isolation']}")
    tests = []
    for name in book["order"]:
        if name in one["exercises"]:
            tests += _tests(one["exercises"][name], scored)
    found: dict[str, Any] = {
        "output": shown("\n".join(told)),
        "output_format": "text",
        "test_output_format": "text",
        "stdout_visibility": "hidden",
        "extra_data": {"isolation": book["isolation"], "for_credit": book["for_credit"]},
        "tests": tests,
    }
    if scored:
        found |= {"score": one["total"], "max_score": one["of"]}
    return found


def _tests(grade: Mapping[str, Any], scored: bool) -> list[dict[str, Any]]:
    """The tests of one exercise; one for the whole of it where its properties were not tried."""
    name, state = grade["exercise"], grade["state"]
    above = [f"{state}: {STATES[state]}", grade["told"], *grade["notes"]]
    if state in (NOT_ATTEMPTED, GRADER_ERROR) or not grade["properties"]:
        return [_test(name, grade, state == "PASS", above, scored)]
    tests = []
    for one in grade["properties"]:
        hidden = f"{one['hidden_passed']} of {counted(one['hidden'], 'hidden case')} passed"
        public = one["state"] == "passed"
        told = [*above, f"public checks: {one['state']}", one["detail"]]
        told += [f"hint: {one['hint']}"] if one["hint"] else []
        told += [hidden] if one["hidden"] else []
        all_hold = public and one["hidden_passed"] == one["hidden"]
        label = f"{name}: {one['name']}"
        tests.append(_test(label, one, all_hold, told, scored))
        if one["hidden"]:
            tests.append(
                {
                    "name": f"{label} (hidden cases)",
                    "status": "passed" if one["hidden_passed"] == one["hidden"] else "failed",
                    "output": hidden,
                    "visibility": "hidden",
                }
            )
    return tests


def _test(
    name: str, one: Mapping[str, Any], passed: bool, told: list[str], scored: bool
) -> dict[str, Any]:
    test = {
        "name": name,
        "status": "passed" if passed else "failed",
        "output": shown("\n".join(filter(None, told))),
        "visibility": "visible",
    }
    if one.get("state") == GRADER_ERROR:
        del test["status"]  # neither passed nor failed
    if scored and one["of"]:
        test |= {"score": one["points"], "max_score": one["of"]}
    return test
