"""Points: what an exercise is worth, how its properties share that, what lateness takes off.

    points = load("my-points.toml")          # without a name: points.toml beside this file
    points.of("row_parallel")                # 10.0
    points.shares("row_parallel", ["forward values", "gradients", "traffic"])
    points.late(submitted)                   # Late(factor, words)

The file is read before anything is graded: a name that no exercise has, or a deadline without a
time zone, is refused in a sentence. Points are whole hundredths, so that sums are exact.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labs import topics
from labs.grading import late
from labs.grading.late import Late
from labs.grading.records import LOOK, Grade, PropertyGrade
from labs.grading.words import hundredths

if TYPE_CHECKING:
    from labs.exercise import Exercise

DEFAULT = Path(__file__).with_name("points.toml")
"""The file that holds when none is given, and that an instructor copies."""

_LARGEST_FILE = 1 << 20  # bytes
_MOST = 10_000  # points an exercise, or weight of a property


@dataclass(frozen=True)
class Points:
    """A points file, held against the exercises that there are."""

    known: Mapping[str, Exercise] = field(repr=False)  # in the order of the course
    graded: float = 10.0
    by_exercise: Mapping[str, float] = field(default_factory=dict)
    by_topic: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    policy: late.Policy = field(default_factory=late.Policy)
    text: str = field(default="", repr=False)  # the file's own, where one was named

    def of(self, exercise: str) -> float:
        """What the exercise is worth; practice 0. Raises ValueError for a name that none has."""
        one = _find(exercise, self.known, "exercise")
        if one.kind != "graded":
            return 0.0
        topic = self.by_topic.get(one.topic, self.graded)
        return float(self.by_exercise.get(exercise, topic))

    def shares(self, exercise: str, properties: Sequence[str]) -> dict[str, float]:
        """The points of each property. They sum to `of(exercise)` exactly, in hundredths.

        What rounding down leaves goes to the first property that weighs anything. Raises
        ValueError where none of them does, or there is none, and the exercise has points.
        """
        whole = hundredths(self.of(exercise))
        own = self.weights.get(exercise, {})
        weights = {name: Decimal(repr(float(own.get(name, 1)))) for name in properties}
        if not whole:
            return dict.fromkeys(weights, 0.0)
        total = sum(weights.values())
        if not total:
            raise ValueError(
                f"{exercise} is worth {self.of(exercise):g} points, but none of its properties "
                f"weighs anything: {', '.join(weights) or 'there is none'}"
            )
        hundred = Decimal("0.01")
        parts = {
            name: (whole * weight / total // hundred) * hundred for name, weight in weights.items()
        }
        first = next(name for name, weight in weights.items() if weight)
        parts[first] += whole - sum(parts.values())
        return {name: float(part) for name, part in parts.items()}

    def late(self, submitted: float | None) -> Late:
        """What the time of submission, in seconds since 1970, makes of the points."""
        return self.policy.late(submitted)

    def priced(self, grade: Grade) -> Grade:
        """The grade with the points of this file: nothing is graded anew.

        What held gets its new share, what did not gets 0, and so does all of a grade whose ranks'
        account was contradicted. A grade with these points already comes back as it is, and one
        without points (GRADER_ERROR) keeps having none.
        """
        of = self.of(grade.exercise)
        shares = self.shares(grade.exercise, [p.name for p in grade.properties] or ["all"])
        if of == grade.of and all(shares[p.name] == p.of for p in grade.properties):
            return grade
        none = LOOK in grade.notes
        parts = tuple(
            replace(
                p, of=shares[p.name],
                points=0.0 if none else float(hundredths(shares[p.name] * _held(p))),
            )
            for p in grade.properties
        )  # fmt: skip
        if grade.points is None:
            return replace(grade, of=of, properties=parts)
        before = hundredths(sum(hundredths(p.points) for p in grade.properties))
        if parts and before == hundredths(grade.points):
            points = float(sum(hundredths(p.points) for p in parts))
        else:  # the grader gave the whole something else than its parts
            points = float(hundredths(of * grade.points / grade.of)) if grade.of else 0.0
        return replace(grade, of=of, properties=parts, points=points)


def load(path: str | Path | None = None, known: Mapping[str, Exercise] | None = None) -> Points:
    """Read a points file. Raises ValueError, in a sentence that names the file, for a bad one.

    known: the exercises that there are; without it those of the course.
    """
    named = path is not None
    path = Path(path) if named else DEFAULT
    if known is None:
        from labs.exercise import exercises

        known = exercises()
    try:
        text = _text(path)
        found = _points(_toml(text), known)
        return replace(found, text=text or "\n") if named else found
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None
    if len(content) > _LARGEST_FILE:
        raise ValueError("a points file has at most 1 MB")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ValueError("it is not saved as UTF-8") from None


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from None
    except RecursionError:
        raise ValueError("it is not a points file: it is nested too deeply") from None


def _points(told: dict[str, Any], known: Mapping[str, Exercise]) -> Points:
    tables = ("points", "topics", "weights", "late")
    for name, table in told.items():
        _find(name, dict.fromkeys(tables), "table")
        if not isinstance(table, dict):
            raise ValueError(f"{name} is a table; write [{name}] and below it what it holds")
    by_exercise, graded = {}, 10.0
    for name, value in told.get("points", {}).items():
        points = _points_of(f"[points] {name}", value)
        if name == "graded":
            graded = points
        else:
            if _find(name, known, "exercise").kind != "graded":
                raise ValueError(f"[points] {name} is practice, which is never for credit")
            by_exercise[name] = points
    courses = dict.fromkeys(one.topic for one in known.values())
    by_topic = {}
    for name, value in told.get("topics", {}).items():
        _find(name, courses, "topic")
        by_topic[name] = _points_of(f"[topics] {name}", value)
    weights = {
        name: _weights(name, table, known) for name, table in told.get("weights", {}).items()
    }
    policy = late.read(told.get("late", {}))
    found = Points(known, graded, by_exercise, by_topic, weights, policy)
    for name, one in known.items():
        found.shares(name, one.properties)  # refuses weights that are all 0
    return found


def _weights(name: str, table: Any, known: Mapping[str, Exercise]) -> dict[str, float]:
    one = _find(name, known, "exercise")
    if not isinstance(table, dict):
        example = f'{name} = {{ "{one.properties[0]}" = 2 }}'
        raise ValueError(f"[weights] {name} is a table of properties, as in {example}")
    for prop, value in table.items():
        if prop not in one.properties:
            raise ValueError(
                f"[weights] {name} has no property {prop!r}; {topics.nearest(prop, one.properties)}"
            )
        _number(f"[weights] {name}, {prop}", value)
    return {prop: float(value) for prop, value in table.items()}


def _points_of(what: str, value: Any) -> float:
    points = _number(what, value)
    if hundredths(points) != Decimal(repr(points)):
        raise ValueError(f"{what}: points are counted in hundredths, got {value}")
    return points


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{what} must be a number, got {value!r}")
    if not 0 <= value <= _MOST:  # nan is not in any range
        raise ValueError(f"{what} must be 0 to {_MOST}, got {value}")
    return float(value)


def _find(name: str, known: Mapping[str, Any], what: str) -> Any:
    if name not in known:
        raise ValueError(f"there is no {what} {name!r}; {topics.nearest(name, known)}")
    return known[name]


def _held(one: PropertyGrade) -> float:
    """The part of its points that a property has: 1 or 0, or whatever the grader gave."""
    if one.of:
        return one.points / one.of
    return float(one.state == "passed" and one.hidden_passed == one.hidden)
