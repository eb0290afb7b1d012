"""Words and numbers that go out: made harmless to show, kept in safe files.

What students wrote ends in pages, sheets and terminals. Here control characters become visible,
numbers become short, and a student's name becomes a file name that no other student has.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

NOT_FOR_CREDIT = "practice, not for credit"
"""What is said of everything that was graded without isolation."""

# Control characters, marks that turn the direction of writing, half characters of UTF-16.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
# What Windows takes for a device, and the instructor's own page.
_TAKEN = {"index", "con", "prn", "aux", "nul"} | {
    f"{port}{number}" for port in ("com", "lpt") for number in range(10)
}


def shown(text: str, lines: int = 60, width: int = 300) -> str:
    """The text with every control character made visible, cut to so many lines and columns."""
    told = text.replace("\r\n", "\n").split("\n")
    cut = [line if len(line) <= width else line[:width] + " […]" for line in told[:lines]]
    if len(told) > lines:
        cut.append(f"[… {counted(len(told) - lines, 'more line')} …]")
    return "\n".join(visible(line.expandtabs(4)) for line in cut)


def visible(text: str) -> str:
    """One line of text, each control character as its number: ⟨U+001B⟩ is Escape."""
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def visible_lines(text: str) -> str:
    """Some lines of text, each as `visible` has it."""
    return "\n".join(map(visible, text.split("\n")))


def number(value: float | None) -> str:
    """A number of points as people write it: 10, 7.5, 3.33; nothing for None."""
    if value is None:
        return ""
    told = f"{value:.2f}"
    return told.rstrip("0").rstrip(".") if "." in told else told


def counted(many: int, one: str, more: str = "") -> str:
    """A number with its noun: "1 check", "3 checks"."""
    return f"{many} {one if many == 1 else more or one + 's'}"


def hundredths(value: float | Decimal) -> Decimal:
    """The number in whole hundredths, halves away from 0. Exact: 0.1 is a tenth."""
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    return exact.quantize(Decimal("0.01"), ROUND_HALF_UP)


def file_names(students: Iterable[str]) -> dict[str, str]:
    """A file name without ending for each student, safe on every system, no two alike.

    A plain lower-case name stays as it is. Another keeps what is plain of it and gets a part of
    its digest, so "Ada", "ada " and "../ada" have three files, also where case does not count.
    """
    asked = sorted(set(students))
    plain = [one for one in asked if _PLAIN.fullmatch(one) and one not in _TAKEN]
    names = dict(zip(plain, plain, strict=True))
    used = set(plain)
    for student in asked:
        if student in names:
            continue
        kept = re.sub(r"[^a-z0-9]+", "-", student.casefold())[:40].strip("-") or "student"
        digest = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()
        tries = (f"{kept}-{digest[:size]}" for size in range(8, 65))
        names[student] = next(name for name in tries if name not in used)
        used.add(names[student])
    return names


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all: what stood there before stays until the new one is ready.

    It can be read by this user alone. Raises ValueError, in a sentence, where it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8", "replace"))
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(beside)
            raise
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None
