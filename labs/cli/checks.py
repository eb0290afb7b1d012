"""A lab's checks in a terminal: what failed in full, what held in a line for each kind.

    ok   18 × difference of gradients: worst 5.6e-16 <= 1.0e-12 of the largest (1F1B, p=4, m=2)
    FAIL 1F1B, p=4, m=32: wall time beyond the simulated: 8.02 within 4 of 0 ms   [simulator]

Of a check's name the last part says what was measured, the rest of which run: checks that measure
the same, in the same unit, by the same relation, are of one kind. What is measured only once is
counted with others of the same beginning.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from labs.result import Check, Result

FEW = 30
"""Up to that many checks are printed one by one."""


def told(result: Result, everything: bool = False) -> str:
    """The result in lines: all checks where they are few or `everything` is asked for, else kinds.

    What failed stands in `labs.cli.run.verdict`, which follows.
    """
    if everything or len(result.checks) <= FEW:
        return repr(result)
    head = repr(Result(result.topic, {}, [], notes=result.notes, stored=result.stored))
    held = [check for check in result.checks if check.ok]
    lines = [f"{result.topic}: {len(held)} of {len(result.checks)} checks ok"]
    lines += head.splitlines()[1:]
    kinds: dict[tuple[str, str, str], list[Check]] = {}
    for check in held:
        kinds.setdefault((what(check), check.relation, check.unit), []).append(check)
    alone = Counter(_about(alike[0]) for alike in kinds.values() if len(alike) == 1)
    for (name, *_), alike in kinds.items():
        about = _about(alike[0])
        if len(alike) > 1:
            lines.append(_kind(name, alike))
        elif alone[about] == 1:
            lines.append(str(alike[0]))
        elif alone.pop(about, 0):  # once for all of them
            singles = [same[0] for same in kinds.values() if len(same) == 1]
            n = sum(_about(check) == about for check in singles)
            lines.append(f"ok   {n} × {about}, each of another kind")
    lines.append(f"{len(held)} checks that held, by kind; --all-checks prints each of them")
    return "\n".join(lines)


def what(check: Check) -> str:
    """What was measured: the last part of its name, without what stands in brackets behind it."""
    return check.name.partition(" (")[0].rpartition(": ")[2]


def _about(check: Check) -> str:
    """What its name begins with."""
    return re.split("[,:(]", check.name)[0].strip()


def _kind(name: str, alike: Sequence[Check]) -> str:
    """Checks of one kind that all held, in a line with the one that was nearest to failing."""
    first = alike[0]
    unit = f" {first.unit}" if first.unit else ""
    start = f"ok   {len(alike)} × {name}: "
    if first.relation == "==":
        return f"{start}each as expected{unit and ',' + unit}"
    worst = max(alike, key=_used)
    measured, target = worst.shown
    of = worst.name.partition(" (")[0].removesuffix(name).removesuffix(": ")
    return f"{start}worst {measured} {worst.relation} {target}{unit}{f' ({of})' if of else ''}"


def _used(check: Check) -> float:
    """How near to its bound a check is; the larger the nearer."""
    measured, expected = float(check.measured), float(check.expected)
    if check.relation == "<=":
        return measured / check.bound if check.bound else measured
    if check.relation == ">=":
        return -measured / check.bound if check.bound else -measured
    return abs(measured - expected)
