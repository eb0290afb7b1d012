"""Answers that use the course's own judges: seen by their text, told, and worth what they are."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from labs.exercise import exercises
from labs.grading import borrowed, fitting
from labs.grading.extract import read
from labs.grading.records import LOOK
from tests.grading_answers import notebook
from tests.grading_records import grade as graded
from tests.grading_run import IMPORTS, RIGHT, book_of, grade, stood_in
from tests.handed_in import laid_out

NAMES = list(exercises())
ROOT = Path(__file__).resolve().parents[1]
USED = {
    "from": "from labs.mesh_3d.judging.groups import groups",
    "from a package": "from labs.mesh_3d import judging as j",
    "import": "import labs.ring_attention.judging.places",
    "import as": "import labs.planner_widget.judging.tables as t",
    "in a function": "def f():\n    from labs.mesh_3d.judging.groups import groups",
    "the grader": "from labs import grading",
    "the helpers of judges": "import labs.judging",
    "answers": "from solutions.mesh_3d import groups_of",
    "all answers": "import solutions",
    "search": "from labs.planner.search import search",
    "search of the package": "from labs.planner import search",
    "through labs": "import labs\ndef f():\n    return labs.mesh_3d.judging.groups.groups",
    "through a topic": "from labs import mesh_3d as m\ndef f():\n    return m.judging.groups",
    "getattr": "from labs import mesh_3d\ndef f():\n    return getattr(mesh_3d, 'judging')",
    "importlib": "import importlib\nM = importlib.import_module('labs.mesh_3d.judging.groups')",
    "importlib, relative": "M = import_module('.judging', 'labs.mesh_3d')",
    "by keyword": "M = import_module(name='solutions')",
    "__import__": "M = __import__('solutions')",
    "sys.modules": "import sys\ndef f():\n    return sys.modules['labs.mesh_3d.judging.groups']",
    "exec": "def f():\n    exec('from labs.mesh_3d.judging.groups import groups')",
    "its file": "def f():\n    return open('labs/mesh_3d/judging/groups.py').read()",
    "the answers' file": "def f():\n    return open('../solutions/mesh_3d.py').read()",
}
UNUSED = {
    "the lesson's own": "from labs import mesh_3d\nfrom labs.planner import lesson, units",
    "another judging": "from mine import judging\ndef f(x):\n    return judging.g(x.judging)",
    "another solutions": "def f():\n    solutions = ['solutions', 'judging', 'grading']\n"
                         "    return solutions.index('search')",
    "words": '"""As in labs.mesh_3d.judging"""\ndef f():\n    "labs.mesh_3d.judging"',
    "a comment": "x = 1  # from labs.mesh_3d.judging.groups import groups",
    "another search": "from labs.planner import lesson\nimport re\nM = re.search('a', 'b')",
    "no Python": "from labs.mesh_3d.judging import (",
    "names alike": "from labs import judging_alone\nx = 'labs.judging_alone', 'solutions.txt'",
    "importing something else": "M = __import__('math')\nN = import_module()\nO = getattr(a, 'b')",
    "deep": "x = " + "(" * 3000,
    "relative": "from . import judging\nfrom .solutions import x",
}  # fmt: skip


@pytest.mark.parametrize("text", USED.values(), ids=USED)
def test_used(text: str) -> None:
    assert borrowed.uses(["x = 1", text])


@pytest.mark.parametrize("text", UNUSED.values(), ids=UNUSED)
def test_not_used(text: str) -> None:
    assert not borrowed.uses([text])


LOOKING = {
    "frames": "import sys\ndef f():\n    return sys._getframe(1).f_locals",
    "frames, by import": "from sys import _getframe as g",
    "frames, by inspect": "import inspect\nF = inspect.currentframe",
    "what a function holds": "def f(g):\n    return g.__globals__['groups']",
    "what it closes over": "def f(attend):\n    return attend.__closure__[0]",
    "in text": "def f(g):\n    return getattr(g, '__globals__')",
    "all modules": "import sys as s\nM = s.modules",
    "all modules, by import": "from sys import modules",
    "all objects": "import gc\nO = gc.get_objects()",
    "torch's modes": "from torch.utils._python_dispatch import _disable_current_modes",
}


@pytest.mark.parametrize("text", LOOKING.values(), ids=LOOKING)
def test_looks_at_its_callers(text: str) -> None:
    assert borrowed.looks(["x = 1", text])


@pytest.mark.parametrize(
    "text", ["import sys\nx = sys.path", "modules = []\nmodules.append(1)", "s = 'the f_back'",
             "model.modules()", "x = ("],
)  # fmt: skip
def test_does_not_look_at_its_callers(text: str) -> None:
    assert not borrowed.looks([text])


def test_imported_in_one_cell_and_used_in_another() -> None:
    texts = ["from labs import mesh_3d", "def f():\n    return mesh_3d.judging.groups.groups"]
    assert borrowed.uses(texts) and not borrowed.uses(texts[1:])


def test_much_text_takes_no_time() -> None:
    began = time.monotonic()
    assert not borrowed.uses([f"x = '{'labs/' * 100_000}'"])
    assert time.monotonic() - began < 2.0


@pytest.mark.parametrize("folder", ["notebooks", "solutions"])
def test_what_the_course_hands_out_uses_none(folder: str) -> None:
    files = sorted(path for path in (ROOT / folder).iterdir() if path.suffix in (".ipynb", ".py"))
    for path in files:
        told = read(path.read_bytes(), path.suffix, NAMES)["exercises"]
        notes = [note for entry in told.values() if entry for note in entry["notes"]]
        assert not {borrowed.NOTE, borrowed.LOOKS} & set(notes), path.name


def test_only_what_is_sent_with_an_answer_counts() -> None:
    """An import that another cell of the notebook needs is not the answer's."""
    cells = ["from labs.mesh_3d.judging.groups import groups", "print(groups)", RIGHT]
    name = "causal_block_mask"
    (entry,) = read(notebook(cells), ".ipynb", [name])["exercises"].values()
    assert entry["notes"] == []
    uses = RIGHT.replace("return ", "groups\n    return ")
    (entry,) = read(notebook([*cells[:2], uses]), ".ipynb", [name])["exercises"].values()
    assert entry["notes"] == [borrowed.NOTE]
    stub = f"def {name}(q_places, k_places, g=groups):\n    ...\n"
    (entry,) = read(notebook([*cells[:2], stub]), ".ipynb", [name])["exercises"].values()
    assert entry["stub"] and entry["notes"] == []


def test_a_grade_says_so_and_keeps_its_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = "from labs.ring_attention.judging.places import judge\n" + RIGHT.replace(
        "return ", "judge\n    return "
    )
    files = {"ada.ipynb": notebook([IMPORTS, uses]), "eve.ipynb": notebook([IMPORTS, RIGHT])}
    with stood_in(monkeypatch):
        told = grade(laid_out(tmp_path / "in", files), tmp_path / "out")
    assert f"note: ada, causal_block_mask: {borrowed.NOTE}" in told.output.splitlines()
    assert told.output.count(borrowed.NOTE) == 1
    book = book_of(tmp_path / "out")["students"]
    for who, notes in (("ada", [borrowed.NOTE]), ("eve", [])):
        one = book[who]["exercises"]["causal_block_mask"]
        assert (one["points"], one["notes"]) == (10.0, notes)


def test_both_notes_of_a_grade_are_told() -> None:
    one = graded("ada", "row", notes=(LOOK, borrowed.NOTE))
    assert fitting.to_look_at([], [one]) == [f"ada, row: {LOOK}", f"ada, row: {borrowed.NOTE}"]
