"""regrade.json: how far a `--regrade` is to come, so that one that was killed goes on from there.

It says what was asked for and, for each exercise of each student, the round that it is to reach.
It is there from the beginning of a `--regrade` until all has been graded again. What is asked for
otherwise, or a run without `--regrade`, begins anew.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from labs.grading.results import Results
from labs.grading.words import write

FILE = "regrade.json"


def to_reach(
    out: Path, asked: Mapping[str, object], keys: Iterable[tuple[str, str]], results: Results
) -> dict[tuple[str, str], int]:
    """The round that each (student, exercise) of `keys` is to reach: one more than it had.

    asked: what was asked for, as JSON has it. Of the same as in the file the file's rounds hold.
    Raises ValueError where the file cannot be written.
    """
    before = _rounds(out / FILE, asked)
    rounds = {key: before.get(key, results.rounds(*key) + 1) for key in keys}
    told: dict[str, dict[str, int]] = {}
    for (student, exercise), number in rounds.items():
        told.setdefault(student, {})[exercise] = number
    content = json.dumps(dict(asked=asked, rounds=told), sort_keys=True, indent=1)
    write(out / FILE, content + "\n")
    return rounds


def _rounds(file: Path, asked: Mapping[str, object]) -> dict[tuple[str, str], int]:
    """The file's, where it is there and of the same; else none."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        told = json.loads(file.read_bytes())
        if told["asked"] == asked:
            return {
                (student, exercise): int(number)
                for student, one in told["rounds"].items()
                for exercise, number in one.items()
            }
    return {}


def ended(out: Path) -> None:
    """All is graded again, or something else was asked for. Raises OSError."""
    (out / FILE).unlink(missing_ok=True)
