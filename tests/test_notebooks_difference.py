"""The diff of two notebooks: of a long line the part that differs is on the screen."""

from __future__ import annotations

import pytest

from labs.notebooks.difference import WIDTH, difference
from labs.notebooks.make import Made

NAMES = ("n (committed)", "n (made now)")
LONG = '    "text": "' + " ".join(f"{i}" for i in range(400)) + '"'


def rows(old: str, new: str, **more: int) -> list[str]:
    """Without the two lines that name the texts."""
    told = difference(old, new, NAMES, **more).splitlines()
    assert told[:2] == ["--- n (committed)", "+++ n (made now)"]
    return told[2:]


def changed(told: list[str]) -> list[str]:
    return [row for row in told if row[0] in "+-"]


@pytest.mark.parametrize("word", ["0 1 2", " 57 ", " 150 ", " 398 ", '399"'])
def test_a_change_anywhere_in_a_long_line(word: str) -> None:
    """Both lines show it, and what stands around it."""
    old, new = LONG, LONG.replace(word, " ### ")
    removed, added = changed(rows(f"a\n{old}\nb", f"a\n{new}\nb"))
    assert word.strip() in removed and "###" in added
    assert removed[0] == "-" and added[0] == "+" and max(len(removed), len(added)) <= WIDTH


def test_a_line_that_got_longer() -> None:
    removed, added = changed(rows(LONG, LONG + " and more"))
    assert added.endswith('399" and more') and removed.endswith('399"')


def test_the_line_that_was_changed_is_found_among_others() -> None:
    """A line that came in before it does not hide which one it was."""
    new = LONG.replace(" 300 ", " ### ")
    told = changed(rows(LONG, f"first\n{new}"))
    assert [row[:3] for row in told] == ["-..", "+fi", "+.."]
    assert "300" in told[0] and "###" in told[2]


def test_a_long_line_without_a_partner_begins_at_its_beginning() -> None:
    (added,) = changed(rows("a", f"a\n{LONG}"))
    assert added.startswith('+    "text": "0 1 2') and added.endswith("...")
    assert len(added) == WIDTH


def test_short_lines_stand_whole() -> None:
    told = rows("a\n-- b\nc", "a\n++ d\nc")
    assert changed(told) == ["--- b", "+++ d"] and " a" in told


def test_the_number_of_lines_is_bounded() -> None:
    old, new = "\n".join("a" * 100), "\n".join("b" * 100)
    told = rows(old, new, lines=10)
    assert len(told) == 9 and told[-1] == "... 193 more lines"


def test_equal_texts() -> None:
    assert difference(LONG, LONG, NAMES) == ""


def test_a_notebook_shows_its_difference_so(tmp_path) -> None:
    """`python -m labs.notebooks --check` prints this."""
    made = Made(tmp_path / "notebooks" / "n.ipynb", LONG.replace(" 300 ", " ### "), LONG)
    head, _, *told = made.difference(tmp_path).splitlines()
    assert head == "--- notebooks/n.ipynb (committed)"
    assert "299 300 301" in told[1] and "299 ### 301" in told[2]
