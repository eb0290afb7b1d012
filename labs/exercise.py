"""Exercises: what is asked, how it is checked, and the card that tells the learner.

    check(row_parallel)      # the learner's function, found by its name; real ranks; a card
    hint("row_parallel")     # the next rung of the hint ladder
    row_parallel = or_answer(row_parallel)     # the course's where the learner's is a stub

A card never raises in a notebook. Under LABS_STRICT=1 (tests) a failed one does.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING

from labs import printed, topics, unanswered, undefined
from labs.answers import Missing, attempted, is_own, own_used, reference, stubs_used
from labs.ranks.ship import Source

if TYPE_CHECKING:
    from labs.figure import Picture

PASSED, FAILED, NOT_ATTEMPTED, NOT_REACHED = "passed", "failed", "not attempted", "not reached"
_PRINTED = 20  # lines of the ranks' output on a card that is not passed; a passed one shows 3
_PLAIN = "style='margin:0;background:none'"
_MARK = {PASSED: "✓", FAILED: "✗", NOT_ATTEMPTED: "·", NOT_REACHED: "·"}


@dataclass(frozen=True)
class Verdict:
    """One property of an answer: forward values, gradients, traffic, …"""

    name: str
    state: str
    detail: str = ""  # expected and got, or how large a difference and what its bound is
    hint: str = ""  # names the fault, where it is known; of what passed: what to know besides
    output: str = ""  # what the ranks printed in the case that this is about
    picture: Picture | None = None  # of ranks that waited for each other


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
    notes: tuple[str, ...] = ()  # what stands in the way of a pass, besides the verdicts' hints

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
        """Hints that name a fault, each once; else where a notebook's reader finds the ladder."""
        return self._advice(f'hint("{self.exercise.name}")')

    def _advice(self, ask: str) -> list[str]:
        told = [v.hint for v in self.verdicts if v.hint and (v.state == PASSED) == self.ok]
        named = list(dict.fromkeys([*self.notes, *told]))
        return named or ([] if self.ok else [f"{ask} shows a hint"])

    @property
    def printed(self) -> list[str]:
        """What the ranks printed, ordered by rank and capped: of the case that failed, if one did.

        Of a passed answer a few lines, of its last case. Warnings stand last, each once.
        """
        told = [v for v in self.verdicts if v.state == FAILED] or self.verdicts
        lines = [line[:200] for line in printed.lines(told[0].output)] if told else []
        most = 3 if self.ok else _PRINTED
        more = [f"[… {len(lines) - most} more lines …]"] if len(lines) > most else []
        return lines[:most] + more

    def __repr__(self) -> str:
        return self.text(f'hint("{self.exercise.name}")')

    def text(self, ask: str) -> str:
        """The card in lines. ask: what its reader types to get a hint, in a cell or a terminal."""
        lines = [self.title]
        for verdict in self.verdicts:
            detail = verdict.detail and ": " + verdict.detail.replace("\n", "\n      ")
            lines.append(f"  {_MARK[verdict.state]} {verdict.name}{detail}")
        lines += [f"  → {text}" for text in self._advice(ask)]
        if self.printed:
            lines += ["  printed:", *(f"    {line}" for line in self.printed)]
        if self.seconds:
            lines.append(f"  {self.seconds:.1f} s")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_MARK[v.state]}</td><td style='text-align:left'>{escape(v.name)}</td>"
            f"<td style='text-align:left'><pre {_PLAIN}>{escape(v.detail)}</pre></td></tr>"
            for v in self.verdicts
        )
        advice = "".join(f"<div>→ {escape(text)}</div>" for text in self.advice)
        if self.printed:
            told = escape("\n".join(self.printed))
            advice += f"<div>printed:<pre {_PLAIN}>{told}</pre></div>"
        advice += "".join(v.picture._repr_html_() for v in self.verdicts if v.picture)
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
    name = _name_of(function)
    exercise = find(name)
    if not attempted(function):
        return not_attempted(exercise)
    begun = time.monotonic()
    card = Card(exercise, exercise.judge(function, seed()), time.monotonic() - begun)
    if card.ok:
        return card
    others = [other for other in exercises(exercise.topic) if other != name]
    stubs = stubs_used(function, others)
    notes = [f"{stub}, which {name} calls, is not attempted yet" for stub in stubs]
    notes += [
        f"{other}, which {name} calls, did not pass its last check"
        for other in own_used(function, others)
        if other not in stubs and _last.get(other) is False
    ]
    notes += undefined.advice(exercise.topic, function, (v.detail for v in card.verdicts))
    return replace(card, notes=tuple(notes))


def _name_of(function: Callable | Source) -> str:
    """The name that finds the exercise. Raises ValueError for what has none."""
    name = getattr(function, "__name__", None)
    if name is None or not callable(function) and not isinstance(function, Source):
        raise ValueError(
            f"check needs the function itself, as in check(row_parallel): {function!r}"
        )
    owner = getattr(function, "__self__", None)
    if name != "apply" or not isinstance(owner, type):
        return name
    main = vars(sys.modules["__main__"])  # the name that a notebook gave to it
    meant = next((known for known in exercises() if main.get(known) == function), "NAME")
    given = [p for p in inspect.signature(owner.forward).parameters if p != "ctx"]
    told = ", ".join(f"{p}=None" if p == "group" else p for p in given)
    raise ValueError(
        f"an exercise is found by the function's name, and that of {owner.__name__}.apply is "
        f"'apply'; wrap it:\n\ndef {meant}({told}):\n"
        f"    return {owner.__name__}.apply({', '.join(given)})"
    )


def seed() -> int:
    """What the inputs are drawn from: LABS_SEED, or another number each time."""
    asked = os.environ.get("LABS_SEED", "").strip()
    if not asked:
        return secrets.randbelow(2**31)
    if not asked.isdecimal():
        raise ValueError(f"LABS_SEED must be a whole number, 0 or more, got {asked!r}")
    if len(asked) > 18:  # torch takes 64 bits
        raise ValueError(f"LABS_SEED must have at most 18 digits, got {len(asked)}")
    return int(asked)


def check(function: Callable | Source) -> Card:
    """Check an answer on real ranks, with fresh random inputs, and show what held.

    The exercise is found by the function's name. LABS_SEED fixes the inputs. Under LABS_STRICT=1 a
    card that is not passed raises CheckFailed.
    """
    card = judged(function)
    if card.attempted:
        _last[card.exercise.name] = card.ok
    if os.environ.get("LABS_STRICT") == "1" and not card.ok:
        raise CheckFailed(repr(card))
    return card


def or_answer(mine: Callable) -> Callable:
    """`mine` when it is attempted; else the course's answer, so that a notebook can go on.

    Says which it is. Where there is no answer either, `mine` comes back as it is.
    """
    exercise = find(_name_of(mine))
    if attempted(mine):
        failed = _last.get(exercise.name) is False
        yours = "yours, though its last check failed" if failed else "yours"
        print(f"{exercise.name}: {yours if is_own(mine) else 'the answer of the course'}")
        return mine
    try:
        answer = reference(f"{exercise.topic}.{exercise.name}")
    except Missing as missing:
        unanswered.lacks(missing, said=True)
        print(f"{exercise.name}: not attempted yet, and this copy of the course has no answers")
        return mine
    print(f"{exercise.name}: not attempted yet, so the course's answer stands in for it below")
    return answer


_last: dict[str, bool] = {}  # whether the last check of an exercise in this process passed
_rung: dict[str, int] = {}


def hint(name: str | Callable) -> None:
    """Print the next hint for an exercise; after the last, say where the answer is, and start anew.

    Raises ValueError for what names no exercise.
    """
    if not isinstance(name, (str, Source)) and not callable(name):
        raise ValueError(f'hint needs a name or a function, as in hint("row_parallel"): {name!r}')
    exercise = find(name if isinstance(name, str) else _name_of(name))
    at = _rung.get(exercise.name, 0) % (len(exercise.hints) + 1)
    _rung[exercise.name] = at + 1
    if at < len(exercise.hints):
        print(rung(exercise, at + 1))
    else:
        print(f"no more hints{where_answer(exercise, ': ')}")


def where_answer(exercise: Exercise, before: str) -> str:
    """`before`, and in which file the answer is; nothing where this copy has no answers."""
    there = importlib.util.find_spec("solutions") is not None
    try:
        there = there and importlib.util.find_spec(f"solutions.{exercise.topic}") is not None
    except ModuleNotFoundError:
        there = False
    return f"{before}the answer is in solutions/{exercise.topic}.py" if there else ""


def rung(exercise: Exercise, number: int) -> str:
    """Hint `number` of an exercise, counted from 1, with its place on the ladder."""
    return f"hint {number} of {len(exercise.hints)}: {exercise.hints[number - 1]}"
