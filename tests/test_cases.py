"""The table of reported cases: every row names a test that is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
TABLE = (TESTS / "cases.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([A-G]\d\d) \|.*\| `([^`]+)` \|$", re.MULTILINE)
ROWS = ROW.findall(TABLE)


def names(path: Path) -> set[str]:
    """test functions of a file, those of a class as Class::test."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{n.name}" for n in node.body if isinstance(n, ast.FunctionDef)}
    return found


@pytest.mark.parametrize(("case", "test"), ROWS)
def test_case_has_its_test(case: str, test: str) -> None:
    file, _, name = test.partition("::")
    assert name in names(TESTS / file), f"{case} names {test}, which is not there"


def test_every_row_of_the_table_is_read() -> None:
    lines = [line for line in TABLE.splitlines() if re.match(r"\| [A-G]\d\d ", line)]
    assert len(ROWS) == len(lines) == len({case for case, _ in ROWS}) > 20


def test_a_name_that_is_not_there_is_noticed() -> None:
    assert "test_nobody_wrote_this" not in names(TESTS / "test_cases.py")
    row = "| A99 | x | y | `test_cases.py::gone` |"
    assert ROW.findall(row) == [("A99", "test_cases.py::gone")]
