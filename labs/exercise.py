"""Exercises: what is asked, how it is checked, and the card that tells the learner.

    check(row_parallel)      # the learner's function, found by its name; real ranks; a card
    hint("row_parallel")     # the next rung of the hint ladder

A card never raises in a notebook. Under LABS_STRICT=1 (tests) a failed one does.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html import escape

from labs import topics
from labs.answers import attempted, stubs_used
from labs.ranks.ship import Source

PASSED, FAILED, NOT_ATTEMPTED, NOT_REACHED = "passed", "failed", "not attempted", "not reached"
_MARK = {PASSED: "✓", FAILED: "✗", NOT_ATTEMPTED: "·", NOT_REACHED: "·"}


@dataclass(frozen=True)
class Verdict:
    """One property of an answer: forward values, gradients, traffic, …"""

    name: str
    state: str
    detail: str = ""  # expected and got, or how large a difference and what its bound is
    hint: str = ""  # names the fault, where it is known


@dataclass(frozen=True)
class Exercise:
    """What a learner is asked to write."""

    name: str
    topic: str
    kind: str  # "graded" or "practice"
    objective: str
    difficulty: int  # 1 to 5
    minutes: int
    hints: tuple[str, ...]
    properties: tuple[str, ...]
    judge: Callable[[Callable | Source, int], list[Verdict]] = field(repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.difficulty <= 5:
            raise ValueError(f"{self.name}: difficulty is 1 to 5, got {self.difficulty}")

    def header(self) -> str:
        """Kind, difficulty and minutes on one line."""
        return (
            f"{self.kind} · difficulty {'●' * self.difficulty}{'○' * (5 - self.difficulty)} · "
            f"{self.minutes} minutes"
        )


@dataclass(frozen=True)
class Card:
    """The outcome of a check, as text and as HTML."""

    exercise: Exercise
    verdicts: list[Verdict]
    seconds: float
    notes: tuple[str, ...] = ()  # what stands in the way, besides the verdicts' hints

    @property
    def passed(self) -> int:
        return sum(verdict.state == PASSED for verdict in self.verdicts)

    @property
    def ok(self) -> bool:
        judged = {verdict.name for verdict in self.verdicts}
        return judged >= set(self.exercise.properties) and self.passed == len(self.verdicts)

    @property
    def attempted(self) -> bool:
        return not any(verdict.state == NOT_ATTEMPTED for verdict in self.verdicts)

    @property
    def title(self) -> str:
        score = f"({self.passed}/{len(self.verdicts)})"
        if not self.attempted:
            return f"{self.exercise.name}: not attempted yet {score}"
        return f"{self.exercise.name}: {'passed' if self.ok else 'not yet right'} {score}"

    @property
    def advice(self) -> list[str]:
        """Hints that name a fault, each once; else where to find the ladder."""
        named = list(dict.fromkeys([*self.notes, *(v.hint for v in self.verdicts if v.hint)]))
        if self.ok:
            return []
        return named or [f'hint("{self.exercise.name}") shows a hint']

    def __repr__(self) -> str:
        lines = [self.title]
        for verdict in self.verdicts:
            detail = verdict.detail and ": " + verdict.detail.replace("\n", "\n      ")
            lines.append(f"  {_MARK[verdict.state]} {verdict.name}{detail}")
        lines += [f"  → {text}" for text in self.advice]
        if self.seconds:
            lines.append(f"  {self.seconds:.1f} s")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_MARK[v.state]}</td><td style='text-align:left'>{escape(v.name)}</td>"
            f"<td style='text-align:left'><pre style='margin:0'>{escape(v.detail)}</pre></td></tr>"
            for v in self.verdicts
        )
        advice = "".join(f"<div>→ {escape(text)}</div>" for text in self.advice)
        took = f"<div><small>{self.seconds:.1f} s</small></div>" if self.seconds else ""
        colour = "#009E73" if self.ok else "#D55E00" if self.attempted else "#56B4E9"
        return (
            f"<div style='border-left:4px solid {colour};padding-left:8px'>"
            f"<b>{escape(self.title)}</b><table>{rows}</table>{advice}{took}</div>"
        )


class CheckFailed(AssertionError):
    """Raised instead of a failed card under LABS_STRICT=1."""


def exercises(topic: str | None = None) -> dict[str, Exercise]:
    """All exercises, or those of one topic, by name. Raises ValueError for an unknown topic."""
    chosen = [topics.find(topic)] if topic is not None else topics.TOPICS.values()
    return {name: found for one in chosen for name, found in one.exercises().items()}


def find(name: str) -> Exercise:
    """The exercise of that name. Raises ValueError, with the names that are near."""
    known = exercises()
    if name not in known:
        raise ValueError(f"there is no exercise {name!r}; {topics.nearest(name, known)}")
    return known[name]


def not_attempted(exercise: Exercise) -> Card:
    """The card of an answer that is not there yet. Nothing is launched for it."""
    return Card(exercise, [Verdict(name, NOT_ATTEMPTED) for name in exercise.properties], 0.0)


def judged(function: Callable | Source) -> Card:
    """The card of an answer, whatever it says: `check` without LABS_STRICT."""
    name = getattr(function, "__name__", None)
    if name is None or not callable(function) and not isinstance(function, Source):
        raise ValueError(
            f"check needs the function itself, as in check(row_parallel): {function!r}"
        )
    exercise = find(name)
    if not attempted(function):
        return not_attempted(exercise)
    begun = time.monotonic()
    card = Card(exercise, exercise.judge(function, seed()), time.monotonic() - begun)
    if card.ok:
        return card
    stubs = stubs_used(function, [other for other in exercises(exercise.topic) if other != name])
    notes = tuple(f"{stub}, which {name} calls, is not attempted yet" for stub in stubs)
    return replace(card, notes=notes)


def seed() -> int:
    """What the inputs are drawn from: LABS_SEED, or another number each time."""
    asked = os.environ.get("LABS_SEED", "").strip()
    if not asked:
        return secrets.randbelow(2**31)
    if not asked.isdecimal():
        raise ValueError(f"LABS_SEED must be a whole number, 0 or more, got {asked!r}")
    return int(asked)


def check(function: Callable | Source) -> Card:
    """Check an answer on real ranks, with fresh random inputs, and show what held.

    The exercise is found by the function's name. LABS_SEED fixes the inputs. Under LABS_STRICT=1 a
    card that is not passed raises CheckFailed.
    """
    card = judged(function)
    if os.environ.get("LABS_STRICT") == "1" and not card.ok:
        raise CheckFailed(repr(card))
    return card


_rung: dict[str, int] = {}


def hint(name: str | Callable) -> None:
    """Print the next hint for an exercise; after the last, start again with the first."""
    exercise = find(name if isinstance(name, str) else name.__name__)
    at = _rung.get(exercise.name, 0) % len(exercise.hints)
    _rung[exercise.name] = at + 1
    print(f"hint {at + 1} of {len(exercise.hints)}: {exercise.hints[at]}")
