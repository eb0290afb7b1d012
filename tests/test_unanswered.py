"""Where an answer is missing a notebook says which and goes on; every other error is as always."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labs import answers, unanswered
from labs.answers import Missing, references
from labs.result import Result

COURSE = Path(__file__).resolve().parents[1]
# A kernel's shell without its kernel, in a process without answers.
_SHELL = """
import io, json, sys
from contextlib import redirect_stdout
from IPython.core.interactiveshell import InteractiveShell
sys.modules["solutions"] = None
shell = InteractiveShell.instance(history_length=0, colors="NoColor")
shell.history_manager.enabled = False
shell.kernel = None
told = []
for cell in json.loads(sys.argv[1]):
    out = io.StringIO()
    with redirect_stdout(out):
        result = shell.run_cell(cell, store_history=True)
    told.append([result.success, out.getvalue()])
print("TOLD" + json.dumps(told))
"""


def cells_run(*cells: str) -> list[tuple[bool, str]]:
    """(whether it counts as run, what it printed) of each cell."""
    done = subprocess.run(
        [sys.executable, "-c", _SHELL, json.dumps(cells)], cwd=COURSE, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(one) for one in json.loads(done.stdout.rpartition("TOLD")[2])]


_BEGIN = "from labs import bubble_math, or_answer\ndef fill_and_drain(p, m):\n    ..."


def test_what_needs_an_answer_says_so_and_counts_as_run() -> None:
    told = cells_run(
        _BEGIN,
        "grid = or_answer(fill_and_drain)(4, 6)\nlen(grid)",
        "rows = [len(row) for row in grid]",
        "done = bubble_math.gpipe(ranks=2, micro_batches=2)",
        "print(done.orders)",
        "lab = bubble_math.run(ranks=2)",
        "print('after it')",
    )
    assert [success for success, _ in told] == [True] * 7
    assert told[0][1] == "" and told[6][1] == "after it\n"
    assert told[1][1].splitlines()[1] == (
        "The rest of this cell was left out: it needs fill_and_drain (TypeError: object of type "
        "'NoneType' has no len())."
    )
    assert "it needs fill_and_drain (TypeError: 'NoneType' object is not iterable)" in told[2][1]
    assert told[3][1].startswith("This cell was left out: gpipe_order is not attempted yet")
    assert "it needs gpipe_order (NameError: name 'done' is not defined)." in told[4][1]
    assert told[5][1] == "Nothing was run for this cell: it needs gpipe_order.\n"


def test_other_errors_are_shown_as_always() -> None:
    told = cells_run(
        _BEGIN,
        "held = or_answer(fill_and_drain)",
        "unrelated = [1, 2][5]",
        "print(nothing)",
        "print(unrelated)",
    )
    assert [success for success, _ in told] == [True, True, False, False, False]
    assert "IndexError" in told[2][1] and "left out" not in told[2][1]
    assert "NameError: name 'nothing' is not defined" in told[3][1]
    assert "name 'unrelated' is not defined" in told[4][1] and "left out" not in told[4][1]


def test_an_answer_that_was_written_since_is_whole() -> None:
    told = cells_run(
        _BEGIN,
        "grid = or_answer(fill_and_drain)(2, 2)\nlen(grid)",
        "def fill_and_drain(p, m):\n    return [[0], [1]]\ngrid = fill_and_drain(2, 2)",
        "grid[7]",
        "held = or_answer(fill_and_drain)",
    )
    assert [success for success, _ in told] == [True, True, True, False, True]
    assert "IndexError" in told[3][1] and "left out" not in told[3][1]
    assert told[4][1] == "fill_and_drain: yours\n"


def test_a_notebook_with_answers_is_not_watched() -> None:
    told = cells_run(
        "import sys\ndel sys.modules['solutions']\nfrom labs import bubble_math, unanswered",
        "schedule = bubble_math.gpipe(ranks=2, micro_batches=2)",
        "print(unanswered._notebook, get_ipython().custom_exceptions)",
    )
    assert [success for success, _ in told] == [True] * 3 and told[2][1] == "[] ()\n"


def test_outside_of_a_notebook_nothing_happens() -> None:
    missing = Missing("gone", ["f"])
    unanswered.lacks(missing)
    result = Result("bubble_math", {})
    assert unanswered.told(result, missing) is result and result.notes == ["gone"]
    assert unanswered.watch() is None or "IPython" in sys.modules


def test_all_that_is_missing_is_named(monkeypatch) -> None:
    def nothing(name: str, mine: object = None) -> object:
        topic, _, function = name.partition(".")
        if mine is None:
            raise answers._missing({function: topic})
        return mine

    monkeypatch.setattr(answers, "reference", nothing)
    of = dict(ring_forward="ring_attention", row_parallel="tp_linear_pair", shard_of="mesh_3d")
    with pytest.raises(Missing) as refused:
        references(of, dict(row_parallel=len))
    assert refused.value.exercises == ("ring_forward", "shard_of")
    assert str(refused.value) == (
        "ring_forward and shard_of are not attempted yet and this copy of the course has no "
        "answers: write them first, or pass your own (04_ring_attention and 05_mesh_3d ask for "
        "them)"
    )
    assert references(dict(row_parallel="tp_linear_pair"), dict(row_parallel=len)) == {
        "row_parallel": len
    }


def test_names_in_words() -> None:
    assert [unanswered.words("abc"[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]
    assert unanswered._few("abcdef") == "a, b, c and 3 more"
