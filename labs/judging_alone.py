"""A function that needs no other rank: asked many times in a process of its own, then judged here.

What it returned is made plain there, so that a wrong type is a value like any other, with a hint.
Its arguments as it left them come back too; whether they are right, or as they were, is said here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real

from labs import ranks
from labs.exercise import FAILED, NOT_REACHED, PASSED, Verdict
from labs.judging import as_asked, broke, not_reached
from labs.ranks.ship import Source
from labs.staying import must_return

Asked = tuple[str, tuple]
"""A label, and the arguments."""
Made = tuple[object, bool]
"""What came back, made plain; whether an argument was changed."""
Judged = Callable[[Sequence[Asked], Sequence[Made], str], list[Verdict]]
Wrong = Callable[[tuple, object], tuple[str, str, str] | None]
"""(arguments, what came back) -> (property, what is wrong, hint), or None."""
Shows = Callable[[tuple, object, str], Collection[str]]
"""(arguments, what came back, the property of its fault or "") -> properties that it speaks for."""

LIMIT = 20.0
"""Seconds a launch may take."""
CHANGED = "work on copies: what was handed in still belongs to the caller"
_AT, _MADE = "at", "made"


def on_rank(
    function: Callable, asked: Sequence[Asked], plain: Callable
) -> list[tuple[object, str]]:
    """On a rank: each question put to the function, and the arguments afterwards, as text.

    If it breaks, what came before is kept.
    """
    found: list[tuple[object, str]] = []
    for label, args in asked:
        handed = copy.deepcopy(args)
        try:
            with must_return():
                made = plain(function(*handed))
        except BaseException:  # kept only now: a file for each question would take longer
            ranks.keep(_AT, label)
            ranks.keep(_MADE, found)
            raise
        found.append((made, repr(handed)))  # == does not see a dict in another order
    return found


def _made(asked: Sequence[Asked], told: Sequence[tuple[object, str]]) -> list[Made]:
    """What came back, with whether the arguments are still those that were handed in."""
    pairs = zip(asked, told, strict=False)
    return [(made, after != repr(args)) for (_, args), (made, after) in pairs]


def judge(
    function: Callable | Source,
    asked: Sequence[Asked],
    plain: Callable,
    properties: Sequence[str],
    judged: Judged,
    of_failure: Callable[[str], str] = lambda text: "",
) -> list[Verdict]:
    """The verdicts; where the function broke, a wrong answer before that goes first."""
    try:
        run = ranks.launch(on_rank, 1, args=(function, asked, plain), limit=LIMIT, status=False)
    except ranks.RunFailed as failed:
        kept = failed.run.kept[0] if failed.run.kept else {}
        told = judged(asked, _made(asked, kept.get(_MADE, [])), failed.run.output)
        if any(verdict.state == FAILED for verdict in told):
            return [v if v.state == FAILED else Verdict(v.name, NOT_REACHED) for v in told]
        return broke(properties, failed, of_failure(str(failed)), str(kept.get(_AT, "")))
    except ValueError as refused:  # it cannot be sent to a rank
        return not_reached(properties, Verdict(properties[0], FAILED, str(refused)))
    return judged(asked, _made(asked, as_asked(run.values[0], asked)), run.output)


def first_faults(
    properties: Sequence[str],
    passed: Mapping[str, str],
    asked: Sequence[Asked],
    made: Sequence[Made],
    wrong: Wrong,
    output: str,
    shows: Shows | None = None,
) -> list[Verdict]:
    """Of each property the first fault. passed: what is told of one that held.

    shows: which properties an answer speaks for; without it a right one for all, another for none.
    A property without a fault has not held where no answer speaks for it.
    """
    told = {name: Verdict(name, PASSED, passed[name]) for name in properties}
    shown: set[str] = set()
    for (label, args), (got, changed) in zip(asked, made, strict=False):
        found = wrong(args, got)
        if found is None and changed:
            found = properties[0], "right, but an argument was changed in place", CHANGED
        if shows:
            shown.update(shows(args, got, found[0] if found else ""))
        elif not found:
            shown.update(properties)
        if found and told[found[0]].state == PASSED:
            name, what, hint = found
            told[name] = Verdict(name, FAILED, f"{label}: {what}", hint)
    held = [
        v if v.state == FAILED or v.name in shown else Verdict(v.name, NOT_REACHED)
        for v in told.values()
    ]
    return [replace(verdict, output=output) for verdict in held]


def number(value: object) -> object:
    """A whole number as int, another as float, of anything else what type it has."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, Real) else type(value).__name__


def by_axis(value: object) -> object:
    """A dict of numbers; of anything else what type it has."""
    if not isinstance(value, Mapping):
        return type(value).__name__
    return {str(axis): number(one) for axis, one in value.items()}


def of_sizes(sizes: Mapping[str, int]) -> str:
    """Axes and sizes, the slowest first."""
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())
