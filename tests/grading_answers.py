"""The course's own answers and others, read and judged as `labs grade` does it.

    with judging() as sandbox:
        grade = graded("row_parallel", own("tp_linear_pair"), sandbox, secret)

Beside the grade stands how near it came to what would have been refused: bytes by an answer's own
account against the network's counters, and memory against the bound.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from labs.exercise import Exercise, exercises
from labs.grading import accounts, isolation, judge, points, reading
from labs.grading.records import Grade, Submission
from labs.grading.sandbox import probe
from labs.grading.sandbox.launcher import Launched, Sandbox

SOLUTIONS = Path(__file__).resolve().parents[1] / "solutions"


def own(topic: str) -> str:
    """The course's answers to a notebook, as the text of one cell."""
    return (SOLUTIONS / f"{topic}.py").read_text(encoding="utf-8")


def notebook(cells: Sequence[str]) -> bytes:
    """A notebook with these code cells, as a student hands it in."""
    told = [
        dict(cell_type="code", execution_count=None, metadata={}, outputs=[], source=text)
        for text in cells
    ]
    return json.dumps(dict(cells=told, metadata={}, nbformat=4, nbformat_minor=5)).encode()


@dataclass
class Extremes:
    """How near right answers came to a bound. 1: at it."""

    most: float = 0.0  # bytes counted, of those that an account allows
    least: float = float("inf")  # bytes counted, of those that an account needs
    ratio: float = 0.0  # bytes counted, of those that the ledger has, above 64 KiB
    grown: float = 0.0  # a rank's memory, of a case's bound
    seconds: float = 0.0
    where: str = ""  # the account nearest to its upper bound

    def see(self, launched: Launched) -> None:
        """Take in one launch."""
        for one in accounts.accounts(launched):
            if one.most and one.counted / one.most > self.most:
                self.most, self.where = one.counted / one.most, str(one)
            if one.told > 0:
                needed = (1 - accounts._SHARE) * one.told
                self.least = min(self.least, one.counted / needed)
            if one.told > 2**16:
                self.ratio = max(self.ratio, one.counted / one.told)


@contextlib.contextmanager
def watched(extremes: Extremes) -> Iterator[None]:
    """What is judged meanwhile is taken in."""
    real_account, real_memory = judge.contradiction, judge._memory

    def contradiction(launched: Launched) -> str:
        extremes.see(launched)
        return real_account(launched)

    def memory(exercise: Exercise, case: object, launched: Sequence[Launched]) -> list:
        if case.most_grown:
            most = max((max(one.outside.grown) for one in launched), default=0)
            extremes.grown = max(extremes.grown, most / case.most_grown)
        return real_memory(exercise, case, launched)

    with (
        mock.patch.object(judge, "contradiction", contradiction),
        mock.patch.object(judge, "_memory", memory),
    ):
        yield


@contextlib.contextmanager
def judging(level: str = "auto") -> Iterator[Sandbox]:
    """A sandbox of the strongest level, or of one. Raises ValueError where there is none."""
    made: dict[str, Sandbox] = {}

    def attempt(name: str) -> str:
        made[name] = Sandbox(name)
        why = probe.works(made[name])
        if why:
            made.pop(name).close()
        return why

    try:
        chosen, _ = isolation.choose(level, attempt)
        yield made[chosen.name]
    finally:
        for sandbox in made.values():
            sandbox.close()


@dataclass
class Handed:
    """A file, read once: every answer in it can be graded."""

    content: bytes
    suffix: str = ".ipynb"
    student: reading.Student | None = field(default=None, repr=False)

    def grade(self, name: str, sandbox: Sandbox, secret: bytes) -> Grade:
        """The grade of one exercise, with the points that the course gives."""
        if self.student is None:
            one = Submission("ada", f"ada{self.suffix}", self.content, self.suffix)
            self.student = reading.students([one], list(exercises()), sandbox)[0]
            assert self.student.problems == [], self.student.problems
        source, notes = self.student.answer(name)
        assert source is not None, notes
        asked = judge.Asked("ada", exercises()[name], source, notes)
        return judge.grade(asked, sandbox, secret, points.load().shares)
