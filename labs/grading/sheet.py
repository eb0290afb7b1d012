"""Sheets: CSV that no spreadsheet takes for a program.

A spreadsheet runs a cell that begins like a formula, also when it stands in quotes in the CSV. What
anybody typed is text here and gets an apostrophe before it where it could be one: = + - @, a tab
or a line's end, after blanks too, and the full-width forms of these. Numbers are numbers.
"""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Sequence

from labs.grading.words import number


class Own(str):
    """Text of this program, written as it is."""


Cell = str | float | None
"""Text as somebody typed it, a number, or nothing."""

NOTHING = Own("-")
"""How Moodle writes that there is no grade. Alone in its cell it is no formula."""

_FORMULA = "=+-@"
# Minus signs and dashes that some programs read as "-"; NFKC knows the full-width forms.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"


def safe(text: str) -> str:
    """The text as a cell that stays text: with an apostrophe before it where it needs one."""
    seen = unicodedata.normalize("NFKC", text).replace("\0", "")
    bare = seen.lstrip().lstrip("\ufeff\u200b\u200c\u200d\u2060").lstrip()
    begins = text[:1] in ("\t", "\r", "\n", "\0") or bare[:1] in tuple(_FORMULA + _DASHES)
    return "'" + text if begins else text


def text(rows: Iterable[Sequence[Cell]]) -> str:
    """The rows as CSV (RFC 4180: commas, quotes doubled, lines end in CR LF)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for row in rows:
        writer.writerow([_cell(cell) for cell in row])
    return out.getvalue()


def _cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, Own):
        return cell
    if isinstance(cell, str):
        # A NUL ends the file for some readers; half a UTF-16 character cannot be written.
        whole = cell.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
        return whole if safe(cell) == cell else "'" + whole
    return number(cell)
