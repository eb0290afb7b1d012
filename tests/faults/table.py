"""Many trials, counted: how often each fault is tried in which way, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from tests.faults.trial import How, Seen

# Seconds until a run is ended. On a busy machine eight ranks take a while to meet, and a cold one
# first imports torch.
LIMITS = {
    ("warm", 2): 5.0, ("warm", 3): 6.0, ("warm", 4): 7.0, ("warm", 8): 12.0,
    ("cold", 2): 30.0, ("cold", 3): 35.0, ("cold", 4): 40.0, ("cold", 8): 70.0,
}  # fmt: skip
_HEAD = (
    "fault", "runs (warm, cold × ranks)", "worst s, warm", "worst s, cold", "worst over the limit",
    "deadlock to words", "right words", "left behind", "next run works",
)  # fmt: skip


def plan(worlds: Sequence[int], times: int) -> list[How]:
    """`times` ways to try a fault: each combination twice, and warm ones of few ranks for the rest.

    Fewer than that for a small `times`, warm ones first.
    """
    ways = [("warm", n) for n in worlds] + [("cold", n) for n in worlds]
    chosen = ways * 2
    few = [("warm", n) for n in sorted(worlds) for _ in range(3 if n == min(worlds) else 2)]
    while len(chosen) < times:
        chosen.append(few[len(chosen) % len(few)])
    if times < 2 * len(ways):
        chosen = chosen[:times]
    chosen.sort(key=lambda way: (way[0] == "cold", way[1]))
    return [How(mode, n, i % n, LIMITS[mode, n]) for i, (mode, n) in enumerate(chosen)]


def rows(found: Sequence[Seen], not_here: dict[str, str]) -> list[tuple[str, ...]]:
    """One row of text for each fault. not_here: faults that cannot be made here, and why."""
    told = []
    for name in dict.fromkeys(seen.fault for seen in found):
        told.append(_row(name, [seen for seen in found if seen.fault == name]))
    return told + [(name, f"not applicable here: {why}") for name, why in not_here.items()]


def _row(name: str, tried: list[Seen]) -> tuple[str, ...]:
    n = len(tried)
    judged = [seen for seen in tried if seen.judged]
    explained = [seen.explained for seen in tried if seen.explained is not None]
    right = sum(not seen.wrong for seen in judged)
    return (
        name, f"{n}: {_ways(tried)}", _worst(tried, "warm"), _worst(tried, "cold"),
        f"{max(seen.over for seen in tried):+.1f}",
        f"{max(explained):.1f}" if explained else "–",
        f"{right}/{len(judged)}" if judged else "nobody to tell",
        f"{sum(bool(seen.left) for seen in tried)}/{n}",
        f"{sum(not seen.after for seen in tried)}/{n}",
    )  # fmt: skip


def _ways(tried: list[Seen]) -> str:
    told = []
    for mode in ("warm", "cold"):
        counts = [
            f"{sum(s.ranks == n for s in tried if s.mode == mode)}×{n}"
            for n in sorted({s.ranks for s in tried if s.mode == mode})
        ]
        told += [f"{mode} {' '.join(counts)}"] if counts else []
    return ", ".join(told)


def _worst(tried: list[Seen], mode: str) -> str:
    seconds = [seen.seconds for seen in tried if seen.mode == mode]
    return f"{max(seconds):.1f}" if seconds else "–"


def markdown(found: Sequence[Seen], not_here: dict[str, str]) -> str:
    """The table, and one sentence on what it comes to."""
    lines = [_HEAD, ("---",) * len(_HEAD), *rows(found, not_here)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    bad = [seen for seen in found if not seen.ok]
    explained = [seen.explained for seen in found if seen.explained is not None]
    told = f"{len(found)} trials, {len(bad)} not as they should be"
    if explained:
        within = sum(seconds <= 2 for seconds in explained)
        told += f"; {within} of {len(explained)} deadlocks explained within 2 s"
    return f"{table}\n\n{told}\n"


def trouble(seen: Seen) -> str:
    """What was seen of a trial that is not as it should be."""
    lines = [f"{seen.fault}, {seen.mode}, {seen.ranks} ranks, {seen.seconds:.1f} s:"]
    lines += [f"  late: {seen.over:.1f} s over"] if seen.late else []
    for what in ("wrong", "left", "after"):
        lines += [f"  {what}: {text}" for text in getattr(seen, what)]
    return "\n".join([*lines, "  told:", *(f"    {line}" for line in seen.told.splitlines()[:40])])


def as_json(found: Sequence[Seen]) -> list[dict]:
    return [asdict(seen) for seen in found]


def from_json(text: str) -> list[Seen]:
    """Trials as `--json` has written them. Raises ValueError for another text."""
    return [Seen(**told) for told in json.loads(text)]
