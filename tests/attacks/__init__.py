"""Attacks on the grader: each file here is what a student might hand in to cheat or to do harm.

They are the tests of a defence. Each is bounded in itself, in number, bytes and seconds, so that a
hole shows as a failed test and not as a harmed machine, and each reaches for this machine alone.

A file says at its top what it tries and what must come of it, one `# name: text` a line:

    tries      what it does, in a sentence
    exercise   the function that it hands in
    states     the states that are right
    zero       the properties that get no points, with a semicolon between; "all"; or "none"
    told       words that the reason must have, where there is one
    calls      "yes": only a filter of system calls stops it (labs/grading/sandbox/calls.py)

What is taken from `tests.attacks.parts` is written into the file before it is handed in: a rank
does not see the tests. `finish(found)` ends an attack that looks for something: "GOT" in the reason
means that it found it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
_PART = re.compile(r"^from tests\.attacks\.parts\.(\w+) import .*$", re.MULTILINE)
_FIELD = re.compile(r"^# (\w+): (.*(?:\n#   .*)*)$", re.MULTILINE)


@dataclass(frozen=True)
class Attack:
    """One file, and what must come of it."""

    name: str
    tries: str
    exercise: str
    states: tuple[str, ...]
    zero: tuple[str, ...]
    text: str
    told: str = ""
    calls: bool = False

    def source(self, facts: Mapping[str, object] | None = None) -> str:
        """What is handed in. facts: values of the names in parts/facts.py."""
        return _written(self.text, facts or {}, set())


def _written(text: str, facts: Mapping[str, object], done: set[str]) -> str:
    """The text with each part in the place where it is first imported."""

    def part(found: re.Match) -> str:
        name = found[1]
        if name in done:
            return ""
        done.add(name)
        inner = (HERE / "parts" / f"{name}.py").read_text()
        if name == "facts":
            inner = "\n".join(f"{fact} = {value!r}" for fact, value in facts.items())
        return _written(inner, facts, done)

    return _PART.sub(part, text)


def read(path: Path) -> Attack:
    """An attack's file. Raises KeyError for one without a line that is needed."""
    text = path.read_text()
    told = {name: re.sub(r"\n#\s+", " ", value) for name, value in _FIELD.findall(text)}
    return Attack(
        path.stem, told["tries"], told["exercise"], tuple(told["states"].split()),
        tuple(one.strip() for one in told["zero"].split(";")), text, told.get("told", ""),
        told.get("calls") == "yes",
    )  # fmt: skip


def every() -> list[Attack]:
    """All attacks, by name."""
    return [read(path) for path in sorted(HERE.glob("*.py")) if path.name != "__init__.py"]
