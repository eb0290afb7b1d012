"""Where a student's code may run, strongest first, and what each level does not stop.

`choose` tries the levels on this machine, with two real ranks each, and says why one was passed
over. The level stands on every grade.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

CONTAINER, NAMESPACES, USER, NONE = "container", "namespaces", "user", "none"


@dataclass(frozen=True)
class Level:
    """One way to shut ranks in."""

    name: str
    words: str
    for_credit: bool
    side_by_side: bool  # whether several submissions can be judged at a time: each has its counters
    does_not_stop: str


LEVELS: dict[str, Level] = {
    level.name: level
    for level in (
        Level(
            CONTAINER, "container, and namespaces for each rank in it", True, True,
            "a fault of the kernel's; how fast ranks run, as a signal between them",
        ),
        Level(
            NAMESPACES, "namespaces for each rank: files, processes, network, memory between them",
            True, True,
            "a fault of the kernel's, which the host shares; how fast ranks run, as a signal "
            "between them",
        ),
        Level(
            USER, "another user for each rank, and limits", True, False,
            "reading what every user of this machine may read, the network, sockets between the "
            "ranks that are counted only where they use this machine's loopback",
        ),
        Level(
            NONE, "none: practice, not for credit", False, False,
            "anything that you could do yourself: files, network, the gradebook",
        ),
    )
}  # fmt: skip


def unsuitable(name: str) -> str:
    """Why a level cannot be had here, as far as that is known without trying; or ""."""
    if name not in LEVELS:
        return f"there is no isolation {name!r}; there are auto, {', '.join(LEVELS)}"
    if name != NONE and not sys.platform.startswith("linux"):
        return f"{name} needs Linux"
    if name == CONTAINER:
        from labs.grading.sandbox import container

        return container.unsuitable()
    if name == USER and os.geteuid() != 0:
        return "only root can start processes as another user"
    return ""


def choose(asked: str, attempt: Callable[[str], str]) -> tuple[Level, list[str]]:
    """The level to use, and what was passed over, with the reason.

    asked: "auto" (the strongest that works) or a level's name. attempt(name): "" where two ranks
    could be run so, else the reason. Raises ValueError where `asked` is no level, or does not work.
    """
    if asked != "auto":
        if asked not in LEVELS:
            raise ValueError(unsuitable(asked))
        why = unsuitable(asked) or attempt(asked)
        if why:
            raise ValueError(f"isolation {asked} cannot be had here: {why}")
        return LEVELS[asked], []
    passed_over: list[str] = []
    for name in LEVELS:
        why = unsuitable(name) or attempt(name)
        if not why:
            return LEVELS[name], passed_over
        passed_over.append(f"{name}: {why}")
    raise ValueError("no rank can be started here: " + "; ".join(passed_over))


def words(names: Sequence[str]) -> str:
    """Levels in words, for a reader."""
    return "; ".join(LEVELS[name].words for name in names)
