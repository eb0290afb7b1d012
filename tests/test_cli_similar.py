"""`labs similar`: submissions as a platform exports them, read as text, compared, reported."""

from __future__ import annotations

import json
from pathlib import Path

from tests.mutants.planner import RIGHT
from tests.test_cli import labs, refused

SORTED = RIGHT["best by sorting"][1]
LOWEST = RIGHT["best by min"][1]


def hand_in(folder: Path, student: str, *sources: str) -> None:
    from textwrap import dedent

    cells = [
        dict(cell_type="code", source=dedent(source), execution_count=None, outputs=[], metadata={})
        for source in sources
    ]
    told = dict(nbformat=4, nbformat_minor=5, metadata={}, cells=cells)
    (folder / f"{student}.ipynb").write_text(json.dumps(told), encoding="utf-8")


def test_a_pair_is_named_and_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    folder = tmp_path / "in"
    folder.mkdir()
    hand_in(folder, "ada", f"open({str(mark)!r}, 'w')", SORTED)
    hand_in(folder, "grace", SORTED.replace("layouts", "them"), "best_layout(1)")
    hand_in(folder, "marie", LOWEST)
    hand_in(folder, "emmy", "def best_layout(layouts):\n    ...")
    told = labs("similar", str(folder))
    assert told.exit_code == 0 and told.stderr == ""
    assert told.stdout.startswith("Similarity of 4 submissions: a question to ask, not a verdict.")
    assert "\nbest_layout: 3 answers\n  100%  ada and grace  (" in told.stdout
    assert told.stdout.count("%  ") == 1 and not mark.exists()
    assert labs("similar", str(folder), "--exercise", "best_layout").stdout == told.stdout
    other = labs("similar", str(folder), "--exercise", "row_parallel").stdout
    assert "best_layout" not in other and "100%" not in other


def test_what_cannot_be_read_is_named_and_the_rest_compared(tmp_path: Path) -> None:
    hand_in(tmp_path, "ada", SORTED)
    hand_in(tmp_path, "grace", SORTED, "def broken(:")
    (tmp_path / "marie.ipynb").write_text("{")
    told = labs("similar", str(tmp_path))
    assert told.exit_code == 0 and "ada and grace" in told.stdout
    assert "warning: grace: code cell 2, line 1" in told.stderr
    assert "warning: marie: " in told.stderr and "Traceback" not in told.output


def test_bad_input(tmp_path: Path) -> None:
    refused(labs("similar", str(tmp_path / "none")), "none")
    refused(labs("similar", str(tmp_path), "--exercise", "best_layou"), "did you mean best_layout")
    refused(labs("similar", str(tmp_path), "--exercise", "regime"), "no graded exercise 'regime'")
