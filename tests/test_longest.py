"""The order in which `make test` begins its files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from tests import longest

ROOT = Path(__file__).resolve().parents[1]


def test_the_files_are_there() -> None:
    assert [name for name in longest.FIRST if not (ROOT / name).is_file()] == []
    assert len(set(longest.FIRST)) == len(longest.FIRST)


def test_long_ones_come_first_and_a_file_keeps_its_order() -> None:
    names = ["tests/test_a.py", longest.FIRST[1], "notebooks/99_new.ipynb", longest.FIRST[0]]
    items = [SimpleNamespace(path=ROOT / name, at=at) for name in names for at in range(3)]
    told = [
        (item.path.relative_to(ROOT).as_posix(), item.at) for item in longest.first(items, ROOT)
    ]
    order = [names[3], names[1], names[2], names[0]]
    assert told == [(name, at) for name in order for at in range(3)]


def test_xdist_keeps_that_order() -> None:
    assert "--no-loadscope-reorder" in (ROOT / "Makefile").read_text(encoding="utf-8")
