"""When something was handed in, where a file beside it tells: each platform has its own."""

from __future__ import annotations

import csv
import datetime
import re
import zoneinfo
from dataclasses import dataclass

from labs import topics
from labs.grading.archive import Entry

# Abbreviations in hours from UTC: those of RFC 822, and Europe's in summer, which zoneinfo lacks.
_HOURS = {
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
    "WEST": 1, "CEST": 2, "EEST": 3,
}  # fmt: skip


@dataclass(frozen=True)
class Person:
    """Who handed in a Gradescope submission, and when."""

    name: str  # the address, where it is told: names are not unique
    submitted: float | None


def nbgrader(stamp: Entry | None) -> float | None:
    """The time in nbgrader's timestamp.txt; None where there is none that can be understood."""
    if stamp is None or stamp.problem:
        return None
    try:
        text = stamp.load().decode("utf-8-sig").strip()[:100]
        day, _, zone = text.rpartition(" ")
        if not re.fullmatch(r"[\d:.,+Zz-]+", zone):
            known = _zone(zone)
            return datetime.datetime.fromisoformat(day).replace(tzinfo=known).timestamp()
        told = datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return None
    return (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).timestamp()


def _zone(name: str) -> datetime.tzinfo:
    """Raises zoneinfo.ZoneInfoNotFoundError, or ValueError, for what is none."""
    if name in _HOURS:
        return datetime.timezone(datetime.timedelta(hours=_HOURS[name]))
    return zoneinfo.ZoneInfo(name)


def gradescope(content: bytes) -> dict[str, Person]:
    """{"submission_123456": who and when} of submission_metadata.yml, read line by line."""
    found: dict[str, Person] = {}
    text = content[:5_000_000].decode("utf-8", "replace")
    for part in re.split(r"^(?=submission_\d+:)", text, flags=re.MULTILINE):
        head = re.match(r"submission_\d+(?=:)", part)
        if not head:
            continue
        own = part.partition(":history:")[0]
        names = re.findall(r"^\s+(?:- )?:email: *['\"]?([^'\"\s]+)", own, re.MULTILINE)
        names = names or re.findall(r"^\s+(?:- )?:name: *['\"]?([^'\"\n]+)", own, re.MULTILINE)
        when = re.search(r"^\s+:created_at: *(\S+ [\d:]+)(?:\.\d+)? *(\S*)", own, re.MULTILINE)
        submitted = None
        if when:
            zone = "+00:00" if when[2] in ("Z", "UTC", "") else when[2]
            try:
                submitted = datetime.datetime.fromisoformat(when[1] + zone).timestamp()
            except (ValueError, OverflowError):
                submitted = None
        if names:
            found[head[0]] = Person("+".join(name.strip() for name in names), submitted)
    return found


def table(content: bytes, students: set[str]) -> dict[str, float]:
    """{student: seconds since 1970} of times.csv. Raises ValueError, with the line, for others."""
    if not content.removeprefix(b"\xef\xbb\xbf").strip():
        return {}
    try:
        rows = list(csv.reader(content.decode("utf-8-sig").splitlines()))
    except UnicodeDecodeError:
        raise ValueError("times.csv is not saved as UTF-8; save it anew as UTF-8") from None
    except csv.Error as error:
        raise ValueError(f"times.csv cannot be read: {error}") from None
    if [name.strip().lower() for name in rows[0]] != ["student", "submitted"]:
        raise ValueError(f"times.csv begins with student,submitted; got {','.join(rows[0])[:80]!r}")
    found: dict[str, float] = {}
    for number, row in enumerate(rows[1:], 2):
        if not any(row):
            continue
        where = f"times.csv, line {number}"
        if len(row) != 2:
            raise ValueError(f"{where}: a student and a time are needed, got {len(row)} values")
        student, text = (value.strip() for value in row)
        if student not in students:
            raise ValueError(
                f"{where}: no {student!r}; {topics.nearest(student, sorted(students))}"
            )
        if student in found:
            raise ValueError(f"{where}: {student} is there a second time")
        try:
            told = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                f"{where}: a time is written as 2027-01-31T18:00:00+01:00, got {text[:80]!r}"
            ) from None
        if told.tzinfo is None:
            day = told.isoformat()  # with a time, where it has none
            raise ValueError(f"{where}: {text} has no zone; write {day}+00:00 for UTC")
        found[student] = told.timestamp()
    return found
