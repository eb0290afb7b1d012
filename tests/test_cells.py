"""Definitions read from a learner's file: as text, whatever else stands in it."""

from __future__ import annotations

import ast
import json

import pytest

from labs import cells
from labs.ranks.unpack import is_constant


def notebook(tmp_path, *sources: object, counts: tuple = ()) -> str:
    told = [
        dict(cell_type="code", source=source, execution_count=count, outputs=[], metadata={})
        for source, count in zip(sources, counts or [None] * len(sources), strict=True)
    ]
    text = dict(cell_type="markdown", source="# def f(): pass", metadata={})
    file = tmp_path / "meine Antworten äλ.ipynb"
    whole = dict(nbformat=4, nbformat_minor=5, metadata={}, cells=[text, *told])
    file.write_text(json.dumps(whole, ensure_ascii=False), encoding="utf-8")
    return str(file)


def test_only_what_is_needed_and_line_by_line(tmp_path) -> None:
    file = notebook(
        tmp_path,
        "import torch\nimport math\nfrom labs import check\nx = torch.ones(3)",
        "WIDTH = 4\n\n\ndef helper(x):\n    y = x\n    return y * WIDTH\ncheck(helper)",
        ["def f(x):\n", "    return helper(torch.relu(x))\n", "f(1); check(f)"],
        counts=(1, 2, 5),
    )
    found = cells.read(file).source("f")
    assert [cell.label for cell in found.cells] == ["cell [1]", "cell [2]", "cell [5]"]
    assert [cell.text.split("\n") for cell in found.cells] == [
        ["import torch", "", "", ""],
        ["WIDTH = 4", "", "", "def helper(x):", "    y = x", "    return y * WIDTH", ""],
        ["def f(x):", "    return helper(torch.relu(x))", ""],
    ]


def test_a_function_handed_on_under_its_own_name(tmp_path) -> None:
    """`f = or_answer(f)` is not sent; the function that it hands on is."""
    file = notebook(
        tmp_path, "def f(x):\n    return x", "f = or_answer(f)", "def g(x):\n    return f(x)"
    )
    found = cells.read(file)
    for name, counted in (("f", 1), ("g", 2)):
        assert len(found.source(name).cells) == counted
        assert found.source(name).cells[0].text == "def f(x):\n    return x"
    assert found.notes == []


def test_nothing_is_executed(tmp_path) -> None:
    mark = tmp_path / "mark"
    touch = f"open({str(mark)!r}, 'w')"
    file = notebook(tmp_path, f"{touch}\ndef f(x={touch}):\n    pass")
    assert cells.read(file).source("f") is not None
    assert not mark.exists()


def test_magics_and_shell_lines(tmp_path) -> None:
    file = notebook(
        tmp_path,
        "%matplotlib inline\n!ls \\\n  -l {\nfiles = !ls\nf?\n"
        "if 1:\n    %time 1\nawait f()\ndef f():\n    return 1",
        "%%bash\nls {",
        "%%time\ndef g():\n    return f()",
        "def h():\n    return '''\n% kept\n'''",
    )
    found = cells.read(file)
    assert found.problems == []
    first = found.source("f").cells[0].text
    assert first.endswith("def f():\n    return 1") and first.count("\n") == 9
    assert [c.label for c in found.source("g").cells] == ["code cell 1", "code cell 3"]
    assert "\n% kept\n" in found.source("h").cells[0].text


def test_the_last_definition_counts(tmp_path) -> None:
    """G12: a cell that was copied; the note names the one that counts."""
    found = cells.read(notebook(tmp_path, "def f(): ...", "def f(): return 2", counts=(3, 9)))
    assert found.source("f").cells[0].text == "def f(): return 2"
    assert found.notes == ["f is defined in cell [3] and cell [9]; the last one, cell [9], counts"]


def test_a_broken_cell_does_not_stop_the_others(tmp_path) -> None:
    found = cells.read(
        notebook(tmp_path, "def f(): return 1", "x = 1\ndef (:", "def g(): return f()")
    )
    assert found.source("g") is not None
    assert found.problems == ["code cell 2, line 2: invalid syntax: def (:"]


@pytest.mark.parametrize(
    "first",
    [
        "from math import sqrt\nROOT = sqrt(4)",
        "from functools import lru_cache as sqrt\n@sqrt\ndef ROOT(): return 2",
        "from typing import NamedTuple as sqrt\nclass ROOT(sqrt):\n    a: int = 2",
        "sqrt = 2\ndef ROOT(x=sqrt): return x",
    ],
)
def test_what_is_needed_at_once_comes_first(first: str, tmp_path) -> None:
    """A name that is bound again in a later cell had its first meaning before."""
    again = first.split("\n")[0]
    texts = (again, first.split("\n", 1)[1], "def f(): return ROOT, sqrt", again)
    sent = cells.read(notebook(tmp_path, *texts)).source("f")
    scope: dict = {}
    for cell in sent.cells:
        exec(cell.text, scope)
    assert scope["f"]()[0] is scope["ROOT"]


def test_what_is_not_sent_is_told(tmp_path) -> None:
    found = cells.read(
        notebook(tmp_path, "import os\nscale = os.getpid()", "def f(x): return x * scale")
    )
    assert found.source("f") is not None
    assert "scale, which f uses, is made in code cell 1" in found.notes[0]


def test_local_names_are_not_confused(tmp_path) -> None:
    """A notebook's `x` has nothing to do with a function's own."""
    found = cells.read(notebook(tmp_path, "x = open('a')", "def f(x):\n    y = x\n    return y"))
    assert len(found.source("f").cells) == 1 and found.notes == []


def test_submodules_come_along(tmp_path) -> None:
    file = notebook(
        tmp_path,
        "import torch.distributed.nn.functional",
        "import torch",
        "def f(): return torch.nn",
    )
    assert len(cells.read(file).source("f").cells) == 3


def test_a_python_file(tmp_path) -> None:
    file = tmp_path / "answers.py"
    file.write_text("\ufeffimport math\n\ndef f():\n    return math.pi\n", encoding="utf-8")
    found = cells.read(file)
    assert found.source("f").cells[0].label == "answers.py" and found.source("g") is None


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.ipynb", None, "there is no file none.ipynb"),
        ("a.txt", b"", "neither a notebook"),
        ("a.ipynb", b"{", "not a whole notebook: line 1"),
        ("a.ipynb", b'{"worksheets": []}', "no cells of notebook format 4"),
        ("a.ipynb", b"[1]", "no cells of notebook format 4"),
        ("a.py", b"\xff\xfe\x00", "not saved as UTF-8"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name: str, content: bytes | None, words: str) -> None:
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=words) as refused:
        cells.read(file)
    assert str(tmp_path) not in str(refused.value)


def test_a_folder(tmp_path) -> None:
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(ValueError, match="folder.py cannot be read"):
        cells.read(tmp_path / "folder.py")


@pytest.mark.parametrize(
    ("made", "is_sent"),
    [
        ("helper = lambda x: abs(x) + 1", True),  # nothing is called before it is
        ("helper = {'a': lambda x: abs(x)}", True),
        ("helper = float('-inf')", True),
        ("helper = tuple(range(3))", True),
        ("helper = math.sqrt(2) * sqrt(max(2, 3))", True),
        ("helper = torch.finfo(torch.float32).eps", True),
        ("helper = functools.partial(torch.matmul, input=torch.tensor([1.0]))", True),
        ("helper = torch.load('file')", False),
        ("helper = math.sqrt(open('file').read())", False),
        ("helper = labs.math.sqrt(2)", False),
        ("helper = lambda x, y=print('early'): x", False),
        ("helper = open('file')", False),
        ("helper = torch.float('-inf')", False),
        ("helper = [print(i) for i in range(3)]", False),
    ],
)
def test_values_that_are_worked_out_and_no_more_are_sent(
    made: str, is_sent: bool, tmp_path
) -> None:
    found = cells.read(notebook(tmp_path, made, "def f(x):\n    return helper"))
    sent = found.source("f")
    told = "made in code cell 1 by a statement that is not sent" in " ".join(found.notes)
    assert told is not is_sent
    assert is_constant(ast.parse(made).body[0].value) is is_sent
    assert made in sent.cells[0].text
