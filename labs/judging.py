"""What judges of exercises have in common: an answer that broke, and a formula's answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral, Real

from labs import ranks
from labs.exercise import FAILED, NOT_REACHED, PASSED, Verdict
from labs.ranks.ship import Source
from labs.staying import must_return

FORMULA = "values"  # the one property of a formula
_LIMIT = 30.0  # seconds
_GOT = "got"  # the values of a formula so far


def not_reached(properties: Sequence[str], first: Verdict) -> list[Verdict]:
    """Nothing but the first property was reached."""
    return [first, *(Verdict(name, NOT_REACHED) for name in properties[1:])]


def as_asked(told: object, asked: Sequence) -> list:
    """What a run that came to its end reports: something for each question.

    Raises ValueError for anything else, which no course's code reports.
    """
    if not isinstance(told, list) or len(told) != len(asked):
        raise ValueError(f"{len(asked)} answers were due, and something else was reported")
    return told


_NOISE = re.compile(r"^(rank \d+: )?(terminate called after throwing|\s*what\(\):)")


def _said(failed: ranks.RunFailed) -> str:
    """What the ranks printed, without a native abort's own words: the doctor has put it better."""
    lines = failed.run.output.splitlines()
    return "\n".join(line for line in lines if not _NOISE.match(line))


def broke(
    properties: Sequence[str], failed: ranks.RunFailed, hint: str = "", where: str = ""
) -> list[Verdict]:
    """An answer that did not run to its end: what happened, its hint, what the ranks printed.

    hint: for this exercise; without one the doctor's advice stands in. where: what stands before.
    """
    found = failed.run.diagnosis
    why = replace(found, advice="").told if found else str(failed)
    # without the lines of the course's own files that called the answer
    why = re.sub(r"\n  labs/.*\n    .*", "", why)
    if found and found.starved:  # what stood still did so for want of a core
        hint = "this machine was too busy to judge the answer: check once more"
    hint = hint or (found.advice if found else "")
    picture = found.picture() if found else None
    told = f"{where}\n{why}" if where else why
    first = Verdict(properties[0], FAILED, told, hint, _said(failed), picture)
    return not_reached(properties, first)


def formula_on_rank(function: Callable, points: list[tuple]) -> list[tuple[float, str]]:
    """On a rank: the formula at each point, and the type of a value that is no whole number's.

    Raises TypeError for what is not a real number.
    """
    got = []
    for point in points:
        ranks.keep(_GOT, got)  # if it raises at this point, or never ends
        with must_return():
            value = function(*point)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"the function returned {value!r}, not a number")
        got.append((float(value), "" if isinstance(value, Integral) else type(value).__name__))
    return got


def judge_formula(
    function: Callable | Source,
    points: list[tuple],
    formula: Callable[..., float],
    inputs: Callable[..., str],
    unit: str = "",
    *,
    hint: Callable[[tuple, float], str] = lambda point, value: "",
    smallest: float = 1.0,
    whole: bool = False,
) -> list[Verdict]:
    """A formula runs on one rank: a process of its own, with a limit and the learner's own line.

    inputs(*point): the numbers of a point in words; unit: that of the value; hint(point, got): what
    a wrong value probably forgot. Equal means within 1e-9 of the value, or of `smallest`.
    whole: the value counts something, so its type must be that of whole numbers, too.
    """
    try:
        run = ranks.launch(formula_on_rank, 1, args=(function, points), limit=_LIMIT, status=False)
        got, output, end = None, run.output, [Verdict(FORMULA, PASSED, output=run.output)]
    except ranks.RunFailed as failed:
        got = failed.run.kept[0].get(_GOT) if failed.run.kept else None
        where = "" if got is None else inputs(*points[len(got)])
        got, output, end = got or [], failed.run.output, broke((FORMULA,), failed, where=where)
    except ValueError as refused:  # it cannot be sent to a rank
        return [Verdict(FORMULA, FAILED, str(refused))]
    if got is None:
        got = as_asked(run.values[0], points)
    for point, (value, kind) in zip(points, got, strict=False):  # wrong goes before what broke
        want = formula(*point)
        if not abs(value - want) <= 1e-9 * max(abs(want), smallest):
            numbers = f"got {value:,.9g}, expected {want:,.9g}"
            words = f"{inputs(*point)}: {numbers}{' ' + unit if unit else ''}"
            return [Verdict(FORMULA, FAILED, words, hint(point, value), output)]
        if whole and kind:
            words = f"{inputs(*point)}: got {value:,.9g} as {kind}, expected {want} as int"
            advice = f"{unit} are counted: a whole number, as int(...) and math.ceil(...) give it"
            return [Verdict(FORMULA, FAILED, words, advice, output)]
    return end
