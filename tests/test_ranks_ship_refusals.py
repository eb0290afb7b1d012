"""Notebook code that cannot be sent to a rank, and code that is sent as text."""

import ast
import importlib

import pytest

from labs import ranks
from labs.ranks import unpack
from tests.notebooks_in_main import notebook_in_main

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def notebook(monkeypatch):
    yield from notebook_in_main(monkeypatch)


@pytest.mark.parametrize(
    ("cell", "name", "sentence"),
    [
        ("def make():\n    def inner(): return 1\n    return inner\nf = make()", "f",
         "inner is defined inside another function; define it at the top of a cell to send it"),
        ("held = (i for i in range(3))\ndef f(): return held", "f",
         "f uses 'held', which cannot be sent to a rank: cannot pickle 'generator' object"),
        ("parts = {'a': lambda x: x}\ndef f(): return parts", "f",
         "a lambda has no name to be found by; give it one with `def`"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_before_launch(notebook, monkeypatch, cell, name, sentence):
    notebook.cell(cell)
    never(monkeypatch)
    with pytest.raises(ValueError) as refused:
        notebook.run(name)
    assert str(refused.value) == sentence


def never(monkeypatch):
    """No supervisor may be asked for."""

    def started(mode):
        raise AssertionError("something was started")

    monkeypatch.setattr(importlib.import_module("labs.ranks.launching"), "supervisor", started)


def test_arguments_that_cannot_be_sent_are_refused(notebook, monkeypatch):
    notebook.cell("def f(x):\n    return 1\n")
    never(monkeypatch)
    with pytest.raises(ValueError, match=r"^f uses something that cannot be sent to a rank: "):
        notebook.run("f", (i for i in ()))


def test_a_closure_of_an_importable_module_is_refused(monkeypatch):
    never(monkeypatch)
    with pytest.raises(ValueError, match=r"cannot be sent to a rank: .*<locals>"):
        ranks.launch(lambda: 1, 1, status=False)


def test_a_function_whose_text_is_gone_says_what_to_do(notebook):
    exec(compile("def lost():\n    return 1\n", "/tmp/ipykernel_1/gone.py", "exec"), notebook.scope)
    with pytest.raises(ValueError, match="the text of lost is not known; run the cell"):
        notebook.run("lost")


def test_source_given_as_text_runs_its_definitions_only():
    """What a check of a file or of a notebook that is not running sends."""
    text = "import math\nFACTOR = 2\nNOISE = print('no')\n"
    text += "def f(x):\n    return FACTOR * math.floor(x)\n"
    done = ranks.launch(
        ranks.Source("f", [ranks.Cell("answers.py", text)]), 1, args=(2.5,), status=False,
        mode="warm",
    )  # fmt: skip
    assert (done.values, done.output) == ([4], "")


def test_a_name_missing_from_the_source_is_told():
    with pytest.raises(ranks.RunFailed, match="NameError: g is not defined in what was sent"):
        ranks.launch(
            ranks.Source("g", [ranks.Cell("answers.py", "def f(): pass\n")]), 1, status=False
        )


def test_future_annotations_stay_in_force():
    tree = ast.parse("from __future__ import annotations\nx = 1\n")
    assert [unpack._wanted(node, at, {7}) for at, node in enumerate(tree.body)] == [True, False]
