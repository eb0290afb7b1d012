"""What must be said of a fault, held against what was said."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from labs.ranks.doctor.diagnosis import LINES, Diagnosis

_SOME = r"\d+(?:–\d+)?"
_OF_RANKS = re.compile(rf"\s*ranks? ({_SOME}(?:, {_SOME})*(?: and {_SOME})?) (.*)")


@dataclass(frozen=True)
class Expected:
    """kind: one of the doctor's; headline: what the first lines must say; each: what the line of a
    rank must say; waits: who waits for whom; culprit: the rank at fault."""

    kind: str
    headline: tuple[str, ...] = ()
    each: dict[int, tuple[str, ...]] = field(default_factory=dict)
    waits: dict[int, list[int]] | None = None
    culprit: int | None = None


def complaints(expected: Expected, found: Diagnosis, told: str, culprit: int | None) -> list[str]:
    """In what the explanation is wrong. told: the words that the learner reads."""
    wrong = []
    if found.kind != expected.kind:
        wrong.append(f"kind: {found.kind!r} instead of {expected.kind!r}")
    wrong += [f"not said: {part!r}" for part in expected.headline if part not in told]
    lines = by_rank(found.told)
    for rank, parts in expected.each.items():
        line = lines.get(rank, "")
        wrong += [f"not said of rank {rank}: {part!r}" for part in parts if part not in line]
    if expected.waits is not None and found.waits != expected.waits:
        wrong.append(f"waits: {found.waits} instead of {expected.waits}")
    if expected.culprit is not None and culprit != expected.culprit:
        wrong.append(f"culprit: {culprit} instead of {expected.culprit}")
    if len(found.told.splitlines()) > LINES:
        wrong.append(f"{len(found.told.splitlines())} lines instead of {LINES} at most")
    return wrong


def by_rank(told: str) -> dict[int, str]:
    """The last line that says something of each rank."""
    found = {}
    for match in filter(None, map(_OF_RANKS.match, told.splitlines()[1:])):
        found.update({rank: match[2] for rank in _ranks(match[1])})
    return found


def _ranks(text: str) -> list[int]:
    """ "0, 2 and 4–7" as numbers."""
    found = []
    for first, last in re.findall(r"(\d+)(?:–(\d+))?", text):
        found += range(int(first), int(last or first) + 1)
    return found
