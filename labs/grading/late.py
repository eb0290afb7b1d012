"""Lateness: what a submission's time makes of its points.

    [late]
    policy = "per day"
    deadline = 2026-03-31T23:59:59+02:00
    grace_minutes = 15
    percent_per_day = 10
    floor_percent = 40

Times are compared as instants, so summer time and the machine's own zone change nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from labs import topics
from labs.grading.words import counted

POLICIES = ("none", "per day", "steps")
_KEYS = {
    "none": (),
    "per day": ("deadline", "grace_minutes", "percent_per_day", "floor_percent"),
    "steps": ("deadline", "grace_minutes", "steps", "floor_percent"),
}
_EXAMPLE = "deadline = 2026-03-31T23:59:59+02:00"
_FIRST, _LAST = -62_000_000_000, 250_000_000_000  # seconds since 1970 that are years 5 to 9892


@dataclass(frozen=True)
class Late:
    """factor: what the points are multiplied with, 0 to 1. words: why, for the student."""

    factor: float
    words: str


@dataclass(frozen=True)
class Policy:
    """How lateness counts. steps: (hours after the deadline, percent off until then)."""

    name: str = "none"
    deadline: datetime | None = None
    grace_minutes: float = 0
    percent_per_day: float = 0
    steps: tuple[tuple[float, float], ...] = ()
    floor_percent: float = 0

    def late(self, submitted: float | None) -> Late:
        """What the time of submission (seconds since 1970; None: not known) makes of the points.

        An unknown time takes nothing off and says so.
        """
        if self.name == "none" or self.deadline is None:
            return Late(1.0, "there is no deadline")
        due = f"the deadline, {_time(self.deadline)}"
        if submitted is None or not _FIRST < submitted < _LAST:
            return Late(1.0, f"the time of submission is not known; nothing is taken off for {due}")
        after = submitted - self.deadline.timestamp()
        when = datetime.fromtimestamp(submitted, self.deadline.tzinfo)
        told = f"handed in {_time(when)}"
        if after <= 0:
            return Late(1.0, f"{told}, in time for {due}")
        told += f", {_span(after)} after {due}"
        if after <= self.grace_minutes * 60:
            return Late(1.0, f"{told}, within {self.grace_minutes:g} minutes of grace")
        off, why = self._off(after)
        kept = max(Decimal(100) - off, Decimal(repr(float(self.floor_percent))))
        if kept > Decimal(100) - off:
            why += f", but never below {self.floor_percent:g} % of the points"
        return Late(float(kept / 100), f"{told}: {why}")

    def _off(self, after: float) -> tuple[Decimal, str]:
        """Percent off, and the reason, for so many seconds after the deadline."""
        if self.name == "per day":
            days = math.ceil(after / 86400)
            off = min(Decimal(100), days * Decimal(repr(float(self.percent_per_day))))
            begun = counted(days, "day")
            return (
                off,
                f"{off.normalize():f} % off ({self.percent_per_day:g} % a day, {begun} begun)",
            )
        for hours, percent in self.steps:
            if after <= hours * 3600:
                return Decimal(repr(float(percent))), f"{percent:g} % off (up to {hours:g} h late)"
        last = self.steps[-1][0]
        return Decimal(100), f"100 % off (more than {last:g} h late)"


def read(told: dict[str, Any]) -> Policy:
    """The policy of a `[late]` table. Raises ValueError, in a sentence, for what cannot be."""
    name = told.get("policy", "none")
    if name not in POLICIES:
        known = ", ".join(f'"{one}"' for one in POLICIES)
        raise ValueError(f"[late] policy is {name!r}; the policies are {known}")
    for key in told:
        every = sorted({"policy", *(key for keys in _KEYS.values() for key in keys)})
        if key not in every:
            raise ValueError(f"[late] has no key {key!r}; {topics.nearest(key, every)}")
    if name == "none":
        return Policy()
    for key in told:
        if key != "policy" and key not in _KEYS[name]:
            used = ", ".join(_KEYS[name])
            raise ValueError(f'[late] {key} says nothing under policy "{name}", which uses {used}')
    deadline = told.get("deadline")
    if not isinstance(deadline, datetime):
        raise ValueError(f'[late] policy "{name}" needs a date with a time, as in {_EXAMPLE}')
    if deadline.tzinfo is None:
        raise ValueError(
            f"[late] deadline {deadline.isoformat()} has no time zone; say which, as in {_EXAMPLE}"
        )
    if not 5 <= deadline.year <= 9000:
        raise ValueError(f"[late] deadline {deadline.isoformat()} lies outside the years 5 to 9000")
    grace = _number(told, "grace_minutes", 0, 7 * 24 * 60)
    floor = _number(told, "floor_percent", 0, 100)
    if name == "steps":
        return Policy(name, deadline, grace, steps=_steps(told.get("steps")), floor_percent=floor)
    if "percent_per_day" not in told:
        raise ValueError(
            '[late] policy "per day" needs percent_per_day, as in percent_per_day = 10'
        )
    percent = _number(told, "percent_per_day", 0, 100)
    return Policy(name, deadline, grace, percent, floor_percent=floor)


def _steps(told: Any) -> tuple[tuple[float, float], ...]:
    example = "steps = [{ hours = 24, percent_off = 10 }, { hours = 72, percent_off = 50 }]"
    if not isinstance(told, list) or not told or not all(isinstance(one, dict) for one in told):
        raise ValueError(f'[late] policy "steps" needs its steps, as in {example}')
    found = []
    for one in told:
        if set(one) != {"hours", "percent_off"}:
            raise ValueError(f"a step of [late] has hours and percent_off, as in {example}")
        hours = _number(one, "hours", 0, 24 * 366)
        found.append((hours, _number(one, "percent_off", 0, 100)))
    for (hours, off), (later, more) in zip(found, found[1:], strict=False):
        if not (hours < later and off <= more):
            raise ValueError(
                f"the steps of [late] must grow: {hours:g} h with {off:g} % is followed by "
                f"{later:g} h with {more:g} %"
            )
    if found[0][0] == 0:
        raise ValueError("a step of [late] ends some hours after the deadline; the first has 0")
    return tuple(found)


def _number(told: dict[str, Any], key: str, least: float, most: float) -> float:
    value = told.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"[late] {key} is a number, got {value!r}")
    if not least <= value <= most:  # nan is not in any range
        raise ValueError(f"[late] {key} is {least:g} to {most:g}, got {value}")
    return value


def _time(when: datetime) -> str:
    """2026-03-31 23:59 UTC+02:00; with seconds where there are any."""
    seconds = when.strftime(":%S") if when.second else ""
    zone = when.strftime("%z")
    return f"{when:%Y-%m-%d %H:%M}{seconds} UTC{zone[:3]}:{zone[3:5]}"


def _span(seconds: float) -> str:
    """A time span in its two largest units: 2 d 3 h, 10 h 15 min, 4 min, 7 s."""
    if seconds < 60:
        return f"{math.ceil(seconds)} s"
    left = timedelta(seconds=math.floor(seconds))
    hours, minutes = left.seconds // 3600, left.seconds % 3600 // 60
    parts = [(left.days, "d"), (hours, "h"), (minutes, "min")]
    while not parts[0][0]:
        parts.pop(0)
    return " ".join(f"{many} {unit}" for many, unit in parts[:2] if many)
