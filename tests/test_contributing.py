"""What CONTRIBUTING.md shows is run: a lab in at most twenty lines gets all that a lab gets.

What it says of a notebook's bounds are the bounds that the tests hold.
"""

import importlib
import re
from pathlib import Path

import pytest

from labs.notebooks import hygiene

COURSE = Path(__file__).resolve().parents[1]


@pytest.mark.ranks
def test_the_lab_that_is_shown_runs(tmp_path, monkeypatch):
    text = (COURSE / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(shown.splitlines()) <= 20
    module, launch = shown.split("\nrun = ", 1)
    (tmp_path / "shown_lab.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    names = vars(importlib.import_module("shown_lab"))
    exec("run = " + launch, names)
    run = names["run"]
    assert run.ledger.count(op="send") == 4
    assert [kept["sum"] for kept in run.kept] == [8.0] * 4
    assert {event["op"] for event in run.timeline} == {"send", "recv"}


def test_it_names_the_bounds_of_a_notebook():
    text = (COURSE / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (rules,) = [part for part in text.split("\n\n") if "labs/notebooks/hygiene.py" in part]
    told = " ".join(rules.split())
    assert f"at most {hygiene.CODE_LINES} lines (a solved exercise may have more)" in told
    assert f"at most {hygiene.PROSE_WORDS} words" in told
    assert hygiene.COMPARED_CELLS == 5 and "at least five cells are compared" in told
