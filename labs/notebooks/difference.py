"""Two texts of a notebook, line by line, where a line may be very long: what differs is shown."""

import difflib
import os
from collections.abc import Iterator, Sequence

WIDTH = 160  # characters of a line that are shown
_BEFORE = 60  # of them, what stands before the first character that differs


def difference(old: str, new: str, names: tuple[str, str], lines: int = 60) -> str:
    """A unified diff with at most `lines` lines, each at most WIDTH characters.

    Of a long line that was changed, the part that is shown begins shortly before the change.
    """
    rows = list(difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm=""))
    shown = [*rows[:2], *_shown(rows[2:])]  # the first two say which text is which
    left = len(shown) - lines
    return "\n".join(shown[:lines] + ([f"... {left} more lines"] if left > 0 else []))


def _shown(rows: Sequence[str]) -> Iterator[str]:
    """The rows of a diff, cut: removed lines, and those that stand in their place, side by side."""
    at = 0
    while at < len(rows):
        removed = _block(rows, at, "-")
        added = _block(rows, at + len(removed), "+")
        yield from (_cut(row, added) for row in removed)
        yield from (_cut(row, removed) for row in added)
        if not removed and not added:
            yield _cut(rows[at], [])
        at += max(1, len(removed) + len(added))


def _block(rows: Sequence[str], at: int, sign: str) -> Sequence[str]:
    end = at
    while end < len(rows) and rows[end].startswith(sign):
        end += 1
    return rows[at:end]


def _cut(row: str, others: Sequence[str]) -> str:
    """A row that is no longer than WIDTH; dots where something is left out.

    others: the rows in whose place it stands, or that stand in its place. The one that shares its
    beginning for longest is taken for the same line, changed.
    """
    if len(row) <= WIDTH:
        return row
    same = 1 + max((len(os.path.commonprefix([row[1:], other[1:]])) for other in others), default=0)
    text = row
    if same > WIDTH - _BEFORE:
        text = f"{row[0]}...{row[same - _BEFORE :]}"
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."
