"""Sheets: CSV that no spreadsheet takes for a program.

A spreadsheet runs a cell that begins like a formula, also when it stands in quotes in the CSV. What
anybody typed is text here and gets an apostrophe before it where it could be one: = + - @, a tab
or a line's end, after blanks too, and the full-width forms of these. So does what follows a
semicolon, a tab or a line's end in it: where one of these parts the cells of a sheet, as the
semicolon does in half of Europe, quotes amid a line hold nothing together and a cell begins there.
Numbers are numbers.
"""

from __future__ import annotations

import csv
import io
import re
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


# Where another reader begins a cell, also inside quotes. The last two look like semicolons.
_PARTED = re.compile("([;\t\r\n\uff1b\u037e])")


def safe(text: str) -> str:
    """The text as cells that stay text, however they are parted: with apostrophes before them."""
    first, *more = _PARTED.split(text)
    begins = text[:1] in ("\t", "\r", "\n", "\0") or _is_formula(text)
    # A quote that is doubled in the CSV is an empty pair to a reader that begins a cell there.
    rest = ["'" + part if _is_formula(part.replace('"', "")) else part for part in more]
    return "".join(["'" if begins else "", first, *rest])


def _is_formula(text: str) -> bool:
    seen = unicodedata.normalize("NFKC", text).replace("\0", "")
    bare = seen.lstrip().lstrip("\ufeff\u200b\u200c\u200d\u2060").lstrip()
    return bare[:1] in tuple(_FORMULA + _DASHES)


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
        return safe(cell).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return number(cell)
