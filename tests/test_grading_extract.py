"""Answers out of what students handed in: by name, whatever became of cells; bombs are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from labs import exercise
from labs.grading import extract, newest
from labs.grading.records import Submission
from labs.ranks.unpack import is_constant

_ROOT = Path(__file__).resolve().parents[1]


def notebook(*sources: object, kinds: str = "") -> bytes:
    """A notebook of these cells; kinds: a letter each, c for code (the default), m for markdown."""
    named = dict(c="code", m="markdown")
    told = [
        dict(cell_type=named[kind], source=source, metadata={}, execution_count=None, outputs=[])
        for source, kind in zip(sources, kinds or "c" * len(sources), strict=True)
    ]
    return json.dumps(dict(nbformat=4, nbformat_minor=5, metadata={}, cells=told)).encode()


def f_of(*sources: object, kinds: str = "", names: tuple[str, ...] = ("f",)) -> dict:
    return extract.read(notebook(*sources, kinds=kinds), ".ipynb", list(names))


def test_the_answer_and_what_it_needs_are_plain_data() -> None:
    told = f_of("import math", "def f(x):\n    return math.pi * x", "f(3)", "def g(): ...")
    assert told == {
        "exercises": {
            "f": {
                "cells": [
                    ["code cell 1", "import math"],
                    ["code cell 2", "def f(x):\n    return math.pi * x"],
                ],
                "notes": [],
                "stub": False,
            }
        },
        "missing": {},
        "problems": [],
        "functions": ["f", "g"],
    }
    assert json.loads(json.dumps(told)) == told
    source = extract.source_of(told, "f")
    assert source.name == "f" and [c.label for c in source.cells] == ["code cell 1", "code cell 2"]


@pytest.mark.parametrize(
    ("sources", "counts", "words"),
    [
        (
            ("def f(): return 1", "def f(): return 2"),
            "code cell 2",
            "f is defined in code cell 1 and code cell 2; the last one, code cell 2, counts",
        ),
        (
            ("def f(): ...", "def f(): return 2"),
            "code cell 2",
            "f is defined in code cell 1 and code cell 2; the last one, code cell 2, counts",
        ),
        (
            ("def f(): return 1", 'def f():\n    """Told."""\n    raise NotImplementedError'),
            "code cell 1",
            "f is the stub still in code cell 2; the answer before it, in code cell 1, counts",
        ),
        (
            ("def f(): return 1\ndef f(): return 2",),
            "code cell 1",
            "f is defined 2 times in code cell 1; the last one counts",
        ),
    ],
)
def test_a_copied_cell(sources: tuple, counts: str, words: str) -> None:
    """G12: it is graded still, and a note says which copy."""
    entry = f_of(*sources)["exercises"]["f"]
    assert entry["notes"] == [words] and not entry["stub"]
    assert [label for label, _ in entry["cells"]] == [counts]


def test_the_late_stub_is_not_what_another_answer_calls() -> None:
    told = f_of("def f(): return 1", "def f(): ...", "def g(): return f()", names=("f", "g"))
    assert told["exercises"]["g"]["cells"][-1][0] == "code cell 3"
    assert told["exercises"]["f"]["cells"][0][1] == "def f(): return 1"


@pytest.mark.parametrize(
    ("sources", "kinds", "words"),
    [
        (("x = 1",), "c", "the notebook defines no function f"),
        (("# f\n\ndef f():\n    return 1", "x = 1"), "mc",
         "def f stands in markdown cell 1, which is not a code cell; make it one"),
        (("def f(:", "x = 1"), "cc", "def f stands in code cell 1, which cannot be read as Python"),
        (("f = lambda: 1",), "c", "in code cell 1 f is assigned to; define it with def"),
        (("async def f(): return 1",), "c", "in code cell 1 f is an async function"),
        (("if 1:\n    def f(): return 1",), "c", "in code cell 1 f is defined inside something"),
        (("from solutions.x import f",), "c", "in code cell 1 f is imported"),
        (("class f: ...",), "c", "in code cell 1 f is a class"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_there(sources: tuple, kinds: str, words: str) -> None:
    """G13: deleted, or turned to markdown; the others are graded."""
    told = f_of(*sources, "def other(): return 2", kinds=kinds + "c", names=("f", "other"))
    assert told["exercises"]["f"] is None
    assert told["missing"]["f"].startswith(f"answer not found: {words}")
    assert told["exercises"]["other"]["stub"] is False and list(told["missing"]) == ["f"]


def test_the_nearest_name_is_asked_for() -> None:
    told = f_of("def row_paralel(x): return x", names=("row_parallel", "column_parallel"))
    missing = told["missing"]
    assert missing["row_parallel"].endswith("defines row_paralel; did you mean row_parallel?")
    assert missing["column_parallel"].endswith("defines no function column_parallel")


def test_a_broken_cell_is_named_and_others_are_read() -> None:
    told = f_of("def g(:", "def f(): return 1")
    assert told["problems"] == ["code cell 1, line 1: invalid syntax: def g(:"]
    assert told["exercises"]["f"]["stub"] is False


def test_an_untouched_release_is_all_stubs() -> None:
    """G22: each exercise of each notebook is found, and not attempted."""
    known = exercise.exercises()
    found: list[str] = []
    for file in sorted((_ROOT / "notebooks").glob("*.ipynb")):
        told = extract.read(file.read_bytes(), ".ipynb", list(known))
        assert told["problems"] == []
        entries = {name: entry for name, entry in told["exercises"].items() if entry}
        assert all(entry["stub"] and entry["notes"] == [] for entry in entries.values())
        found += entries
    assert sorted(found) == sorted(known)


def test_the_solved_notebooks_are_read_whole() -> None:
    known = exercise.exercises()
    for file in sorted((_ROOT / "solutions").glob("*.ipynb")):
        told = extract.read(file.read_bytes(), ".ipynb", list(known))
        entries = {name: entry for name, entry in told["exercises"].items() if entry}
        assert entries and not any(entry["stub"] for entry in entries.values())


def test_nothing_is_executed(tmp_path) -> None:
    touch = f"open({str(tmp_path / 'mark')!r}, 'w')"
    told = f_of(f"{touch}\n@{touch}\ndef f(x={touch}):\n    return {touch}")
    assert told["exercises"]["f"] is not None and not (tmp_path / "mark").exists()


_RUN = "x = 1"
_BOMBS = {
    "brackets": (b"[" * 4_000_000, "nested more than 100 deep"),
    "brackets in a string": (b'{"cells": [], "a": "' + b"[" * 200 + b'"}', None),
    "a string without end": (b'{"a": "' + b'\\"' * 2_000_000, "not a whole notebook"),
    "bytes": (b" " * 5_000_001, "5,000,001 bytes; at most 5,000,000"),
    "nothing": (b" \n", "it is empty"),
    "cells": (notebook(*[_RUN] * 1001), "1,001 cells; at most 1,000"),
    "code": (notebook("#" * 1_000_001), "characters of code"),
    "lines": (notebook("\r" * 20_001), "20,002 lines of code"),
    "a long number": (b'{"cells": [' + b"9" * 5000 + b"]}", "a number in it is too long"),
    "a long number in code": (notebook("x = " + "9" * 5000), "Exceeds the limit"),
    "parentheses": (notebook("x = " + "(" * 5000), "too many nested parentheses"),
    "signs": (notebook("x = " + "-" * 100_000 + "1"), "nested too deeply"),
    "attributes": (notebook("x = a" + ".b" * 100_000), "nested too deeply"),
    "calls": (notebook("f" + "()" * 50_000), "nested too deeply"),
    "branches": (notebook("if 1: pass\n" + "elif 1: pass\n" * 9000), "nested too deeply"),
    "indentation": (notebook("\n".join(" " * i + "if 1:" for i in range(300))), "indentation"),
    "NUL": (notebook("def f(): return '\0'"), "null bytes"),
    "half a character": (
        b'{"cells": [{"cell_type": "code", "source": "# \\ud800"}]}',
        "surrogates",
    ),
    "UTF-16": ("def f(): pass".encode("utf-16"), "not saved as UTF-8"),
    "HTML": (b"<html>", "not a whole notebook"),
    "null": (b"null", "no cells of notebook format 4"),
    "cells that are none": (b'{"cells": [1]}', "no cells of notebook format 4"),
    "lines that are none": (b'{"cells": [{"cell_type": "code", "source": [1]}]}', "no cells of"),
}


@pytest.mark.parametrize(("content", "words"), _BOMBS.values(), ids=_BOMBS)
def test_bombs(content: bytes, words: str | None) -> None:
    told = extract.read(content, ".ipynb", ["f"])
    assert (words in told["problems"][0]) if words else told["problems"] == []
    assert told["exercises"] == {"f": None}
    assert told["missing"]["f"].startswith("answer not found")
    written = json.dumps(told, ensure_ascii=False).encode()
    assert len(written) < 2000


def test_much_is_told_shortly() -> None:
    many = notebook(*["def (:" + "x" * 1000] * 200)
    told = extract.read(many, ".ipynb", ["f"])
    assert len(told["problems"]) == 51 and told["problems"][-1] == "and 150 more"
    assert max(map(len, told["problems"])) <= 300


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return f\"{x!r:{'>'}{10}} \\n {'a'}\"",  # cannot be written down again
        "def f():\n    return 0x" + "f" * 10_000,
        "def f():\n    x = 1\n    global x",  # a tree, but no program: the ranks say so
    ],
)
def test_odd_programs_are_handed_on(text: str) -> None:
    entry = f_of(text)["exercises"]["f"]
    assert entry["cells"] == [["code cell 1", text]] and not entry["stub"]


@pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
def test_line_ends_of_other_systems(end: str) -> None:
    """What is blanked out are the lines that Python counts."""
    text = end.join(["import os", "os.system('x')", "def f():", "    return os", "f()"])
    for told in (f_of(text), extract.read(b"\xef\xbb\xbf" + text.encode(), ".py", ["f"])):
        [[_, kept]] = told["exercises"]["f"]["cells"]
        assert kept.split("\n") == ["import os", "", "def f():", "    return os", ""]


def test_other_files_are_refused() -> None:
    told = extract.read(b"PK", ".docx", ["f"])
    assert told["problems"] == [".docx is neither .ipynb nor .py"]


def _file(name: str, submitted: float | None, content: bytes) -> tuple[Submission, dict]:
    one = Submission("ada", name, content, ".ipynb", submitted)
    return one, extract.read(content, ".ipynb", ["f", "g", "h"])


def test_of_two_files_the_newest_answer_counts() -> None:
    files = [
        _file("new.ipynb", 3.0, notebook("def f(): return 3", "def g(): ...")),
        _file("old.ipynb", 2.0, notebook("def f(): return 2", "def g(): return 2")),
        _file("timeless.ipynb", None, notebook("def f(): return 1")),
    ]
    for order in (files, files[::-1]):
        found = newest.chosen(order, ["f", "g", "h"])
        assert found["f"][0].file == "new.ipynb" and found["g"][0].file == "old.ipynb"
        assert found["h"] is None
        assert found["g"][1]["notes"] == []
        [note] = found["f"][1]["notes"]
        assert note == (
            "f is in new.ipynb, old.ipynb and timeless.ipynb; the newest, new.ipynb, counts"
        )
    assert files[0][1]["exercises"]["f"]["notes"] == []


def test_files_of_one_time_count_by_their_numbers() -> None:
    files = [_file(f"x-{n}.ipynb", 1.0, notebook(f"def f(): return {n}")) for n in (2, 10, 9)]
    assert newest.chosen(files, ["f"])["f"][0].file == "x-10.ipynb"


def test_the_ranks_take_what_was_read() -> None:
    """What is sent holds definitions, imports and constants: nothing else is left of the cells."""
    import ast

    told = f_of("import math\nprint(1)\nK = 2", "def f(): return math.pi * K\nf()")
    for cell in extract.source_of(told, "f").cells:
        for node in ast.parse(cell.text).body:
            kept = isinstance(node, (ast.Import, ast.FunctionDef))
            assert kept or is_constant(node.value)
    with pytest.raises(KeyError):
        extract.source_of(f_of("x = 1"), "f")


def test_a_line_that_goes_on_is_no_magic() -> None:
    text = "%matplotlib inline\ndef f(a):\n    %time b = 1\n    return ((a + 1)\n      % 7)\n"
    source = extract.read(notebook(text), ".ipynb", ["f"])["exercises"]["f"]
    [[_, kept]] = source["cells"]
    scope: dict = {}
    exec(kept, scope)
    assert scope["f"](8) == 2
