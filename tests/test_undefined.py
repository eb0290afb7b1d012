"""A NameError in an answer: the card says which line of the notebook brings the name."""

from __future__ import annotations

import pytest

from labs import topics, undefined
from labs.exercise import judged
from labs.ranks import Cell, Source

NAME_ERROR = "rank 0: NameError: name '{}' is not defined\n  mine.py, line 2, in f\n"


def advice(topic: str, text: str, *raised: str) -> list[str]:
    found = Source("f", [Cell("mine.py", text)])
    return undefined.advice(topic, found, [NAME_ERROR.format(name) for name in raised])


def notebook_of(topic: str) -> str:
    return topics.TOPICS[topic].notebook


@pytest.mark.parametrize(
    ("topic", "name", "line"),
    [
        ("tp_linear_pair", "torch", "import torch"),
        ("tp_linear_pair", "dist", "import torch.distributed as dist"),
        ("tp_linear_pair", "F", "import torch.nn.functional as F"),
        ("one_f_one_b", "forward", "from labs.schedules import "),
        ("one_f_one_b", "backward_input", "from labs.schedules import backward_input"),
        ("one_f_one_b", "Iterator", "from collections.abc import Iterator"),
    ],
)
def test_the_line_of_the_topics_notebook(topic: str, name: str, line: str) -> None:
    (told,) = advice(topic, f"def f():\n    return {name}", name)
    assert told.startswith(f"{name}: imported in {notebook_of(topic)}, but not in your file; add: ")
    brought: dict[str, object] = {}
    added = told.partition("add: ")[2]
    exec(added, brought)
    assert added.startswith(line) and name in brought


def test_names_that_would_be_missed_next_are_told_at_once() -> None:
    text = "import math\nAHEAD = 2\ndef f(x):\n    y = dist.all_reduce(x)\n    return torch.sum(y)"
    (told,) = advice("tp_linear_pair", text, "dist")
    assert told.startswith("dist and torch: ")
    assert told.endswith("add: import torch.distributed as dist; import torch")
    text = "import torch\n" + text
    assert advice("tp_linear_pair", text, "dist")[0].startswith("dist: ")


def test_a_name_that_another_notebook_imports() -> None:
    (told,) = advice("one_f_one_b", "def f():\n    return F", "F")
    assert told.startswith(f"F: imported in {notebook_of('tp_linear_pair')}, ")


def test_an_exercise_that_the_file_lacks() -> None:
    told = advice(
        "tp_linear_pair", "def f(x):\n    return reduce_from_ranks(x)", "reduce_from_ranks"
    )
    assert told == [
        "reduce_from_ranks, which f calls, is an exercise too, and not defined in your file"
    ]


@pytest.mark.parametrize(
    "told",
    [
        ["rank 0: NameError: name 'nowhere_to_be_found' is not defined"],
        ["rank 0: ImportError: torch"],
        [""],
        [],
    ],
)
def test_nothing_to_say(told: list[str]) -> None:
    found = Source("f", [Cell("mine.py", "def f():\n    return torch + nowhere_to_be_found")])
    at_all = undefined.advice("tp_linear_pair", found, told)
    assert all("nowhere" not in text for text in at_all)
    assert bool(at_all) == any("NameError" in text for text in told)  # torch is missing as well


def test_a_function_of_a_notebook_is_told_to_run_the_cell() -> None:
    def f(x):
        return x

    told = undefined.advice("tp_linear_pair", f, [NAME_ERROR.format("dist")])
    assert told == [
        f"dist: not imported here; run the cell of {notebook_of('tp_linear_pair')} that has: "
        "import torch.distributed as dist"
    ]


def test_a_copy_of_the_course_without_notebooks(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(undefined, "ROOT", tmp_path)
    assert advice("tp_linear_pair", "def f():\n    return dist", "dist") == []


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        (
            "gpipe_order",  # the signature alone, as it stands in the notebook
            "def gpipe_order(rank, ranks, micro_batches) -> Iterator[Instruction]:\n"
            "    yield from map(forward, range(micro_batches))",
            "from labs.schedules import Instruction",
        ),
        (
            "row_parallel",
            "def row_parallel(x, w, b):\n    y = torch.matmul(x, w)\n    return y + b",
            "import torch",
        ),
    ],
)
def test_on_the_card_of_real_ranks(name: str, text: str, line: str) -> None:
    card = judged(Source(name, [Cell("mine.py", text)]))
    assert "NameError" in repr(card) and not card.ok
    assert any(line in told for told in card.advice), card
    assert "shows a hint" not in repr(card)
