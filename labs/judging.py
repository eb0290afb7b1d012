"""What judges of exercises have in common: an answer that broke, and a formula's answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real

from labs import ranks
from labs.exercise import FAILED, NOT_REACHED, PASSED, Verdict
from labs.ranks.ship import Source

FORMULA = "values"  # the one property of a formula
_LIMIT = 30.0  # seconds


def not_reached(properties: Sequence[str], first: Verdict) -> list[Verdict]:
    """Nothing but the first property was reached."""
    return [first, *(Verdict(name, NOT_REACHED) for name in properties[1:])]


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
    hint = hint or (found.advice if found else "")
    picture = found.picture() if found else None
    told = f"{where}\n{why}" if where else why
    first = Verdict(properties[0], FAILED, told, hint, failed.run.output, picture)
    return not_reached(properties, first)


def formula_on_rank(function: Callable, points: list[tuple]) -> list[float]:
    """On a rank: the formula at each point. Raises TypeError for what is not a real number."""
    got = [function(*point) for point in points]
    for point, value in zip(points, got, strict=True):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"for {point} the function returned {value!r}, not a number")
    return [float(value) for value in got]


def judge_formula(
    function: Callable | Source,
    points: list[tuple],
    formula: Callable[..., float],
    told: Callable[..., str],
    hint: Callable[[tuple, float], str] = lambda point, value: "",
    smallest: float = 1.0,
) -> list[Verdict]:
    """A formula runs on one rank: a process of its own, with a limit and the learner's own line.

    told(*point, got, expected): the numbers of a point in words, with units; hint(point, got): what
    a wrong value probably forgot. Equal means within 1e-9 of the value, or of `smallest`.
    """
    try:
        run = ranks.launch(formula_on_rank, 1, args=(function, points), limit=_LIMIT, status=False)
    except ranks.RunFailed as failed:
        return broke((FORMULA,), failed)
    except ValueError as refused:  # it cannot be sent to a rank
        return [Verdict(FORMULA, FAILED, str(refused))]
    for point, value in zip(points, run.values[0], strict=True):
        want = formula(*point)
        if not abs(value - want) <= 1e-9 * max(abs(want), smallest):
            words = told(*point, value, want)
            return [Verdict(FORMULA, FAILED, words, hint(point, value), run.output)]
    return [Verdict(FORMULA, PASSED, output=run.output)]
