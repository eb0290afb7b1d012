"""Grades and gradebooks as grading makes them, for the tests of what happens after it."""

from __future__ import annotations

from types import SimpleNamespace

from labs.grading import gradebook
from labs.grading.points import Points
from labs.grading.records import GRADER_ERROR, PASS, Grade, PropertyGrade


def exercise(name: str, *properties: str, kind: str = "graded", topic: str = "tp_linear_pair"):
    return SimpleNamespace(name=name, topic=topic, kind=kind, properties=properties)


KNOWN = {
    one.name: one
    for one in (
        exercise("formula", "values", kind="practice"),
        exercise("column", "forward values", "gradients", "traffic"),
        exercise("row", "forward values", "gradients", "traffic"),
        exercise("order", "rules", "time", topic="one_f_one_b"),
    )
}
"""Exercises as a points file knows them, in the order of the course."""

POINTS = Points(KNOWN)


def grade(
    student: str,
    name: str,
    state: str = PASS,
    held: str = "",
    *,
    points: Points = POINTS,
    hidden: tuple[int, int] = (2, 2),
    detail: str = "",
    hint: str = "",
    isolation: str = "namespaces",
    **rest,
) -> Grade:
    """held: a letter for each property, "y" or "n"; without it all hold where the state is PASS.

    Of a property that holds all hidden cases passed, of another `hidden` says how many.
    """
    one = KNOWN[name]
    held = held or ("y" if state == PASS else "n") * len(one.properties)
    shares = points.shares(name, one.properties)
    properties = tuple(
        PropertyGrade(
            prop,
            "passed" if yes == "y" else "failed",
            shares[prop] if yes == "y" else 0.0,
            shares[prop],
            "" if yes == "y" else detail,
            "" if yes == "y" else hint,
            hidden[1] if yes == "y" else 0,
            hidden[1],
        )
        for prop, yes in zip(one.properties, held, strict=True)
    )
    total = None if state == GRADER_ERROR else round(sum(p.points for p in properties), 2)
    of = points.of(name)
    return Grade(
        student, one.topic, name, one.kind, state, total, of, isolation, properties, **rest
    )


def submission(file: str = "a.ipynb", submitted: float | None = None, *problems: str) -> dict:
    return {"file": file, "submitted": submitted, "problems": list(problems)}


def book(*grades: Grade, points: Points = POINTS, submissions: dict | None = None) -> dict:
    """The gradebook of these grades; each student handed in a file without a time."""
    told = {g.student: submission(f"{g.student}.ipynb") for g in grades}
    return gradebook.make(grades, {**told, **(submissions or {})}, points)
