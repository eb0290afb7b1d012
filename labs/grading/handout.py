"""The README of the students' copy: the course's own, less what is not in the copy."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PREFACE = """
**This copy is a release for students.** It has the notebooks, the labs and the environment, and no
answers{given}, tests or benchmarks. Where a lab needs an answer that you have not written yet, it
says which, and the notebook goes on. What stands below about `make test` and other tests is about
the whole course.
"""
_FOR_TEACHERS = "**Teaching it**"  # begins a paragraph
_ROW = re.compile(r"^\| (`[^|]+`) \|")  # of the table of what lies where


def readme(text: str, names: Iterable[str], given: Iterable[str]) -> str:
    """text: the course's README; names: the files of the copy; given: topics with answers in it."""
    names = list(names)
    title, _, rest = text.partition("\n")
    paragraphs = [one for one in rest.split("\n\n") if not one.startswith(_FOR_TEACHERS)]
    lines = [line for line in "\n\n".join(paragraphs).split("\n") if _is_there(line, names)]
    answers = f" but those of {', '.join(given)}" if given else ""
    return "\n".join([title, _PREFACE.format(given=answers) + lines[0], *lines[1:]])


def _is_there(line: str, names: list[str]) -> bool:
    """Whether a line is another one than a table's row about something that did not go out."""
    row = _ROW.match(line)
    told = re.findall(r"`([\w./]+)`", row[1]) if row else []
    files = [one for one in told if "/" in one or "." in one]
    return not files or any(name.startswith(file) for file in files for name in names)
