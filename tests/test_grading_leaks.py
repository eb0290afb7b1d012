"""An answer is found in any form in which it could go out with a release."""

from __future__ import annotations

import ast
import base64
import json
import py_compile
import zlib
from pathlib import Path

import pytest

from labs import topics
from labs.grading import release
from labs.grading.release import Leak
from tests.released import ANSWERS, COURSE

_NOTEBOOK = "notebooks/01_tp_linear_pair.ipynb"


@pytest.fixture(scope="module")
def course_files() -> dict[str, bytes]:
    return release.contents(COURSE)[0]


def answer(name: str, module: str = "tp_linear_pair") -> str:
    """The text of one answer."""
    source = ANSWERS[f"solutions/{module}.py"]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return "\n".join(source.split("\n")[node.lineno - 1 : node.end_lineno])
    raise LookupError(name)


class _Renamed(ast.NodeTransformer):
    """Other names, no annotations, another docstring."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = f"other_{node.id[::-1]}"
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg, node.annotation = f"other_{node.arg[::-1]}", None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.name, node.returns, node.body[0] = "mine", None, ast.Expr(ast.Constant("Mine."))
        return node


def renamed(text: str) -> str:
    return ast.unparse(ast.fix_missing_locations(_Renamed().visit(ast.parse(text))))


def inline(text: str) -> str:
    """The statements without their `def`; what is returned has a name."""
    (function,) = ast.parse(text).body
    lines = ast.unparse(ast.Module(function.body[1:], [])).split("\n")
    return "\n".join(line.replace("return ", "result = ") for line in lines)


def cell_with(files: dict[str, bytes], kind: str, text: str, place: int = 7) -> bytes:
    """The notebook with a text in one cell: its source, an output, or its metadata."""
    told = json.loads(files[_NOTEBOOK])
    cell = told["cells"][place]
    assert cell["cell_type"] == "code"
    html = text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    if kind == "source":
        cell["source"] = text.splitlines(keepends=True)
    elif kind == "markdown":
        told["cells"][0]["source"] = f"# A hint\n\n```python\n{text}\n```\n"
    elif kind == "stream":
        cell["outputs"] = [dict(output_type="stream", name="stdout", text=f"here it is:\n{text}")]
    elif kind == "html":
        shown = "".join(f"<span>{n:3} </span>{line}\n" for n, line in enumerate(html.split("\n")))
        data = {"text/html": [f"<pre>{shown}</pre>"]}
        cell["outputs"] = [dict(output_type="display_data", data=data, metadata={})]
    elif kind == "metadata":
        cell["metadata"]["mine"] = {"answer": text}
    return json.dumps(told).encode()


_GRADED = answer("attention_heads")
_SHORT = answer("row_parallel")
_ORDER = answer("one_f_one_b_order", "one_f_one_b")
_PACKED = base64.b64encode(zlib.compress(_GRADED.encode())).decode()
_MODULE = "labs/gpt.py"
_MUTANTS = {
    "in a cell": (_NOTEBOOK, ("source", _GRADED), "cell 7, line", "attention_heads"),
    "in a cell, other names": (_NOTEBOOK, ("source", renamed(_GRADED)), "cell 7, line", "heads"),
    "in a cell, without def": (_NOTEBOOK, ("source", inline(_ORDER)), "cell 7", "f_one_b_order"),
    "a short one, other names": (_NOTEBOOK, ("source", renamed(_SHORT)), "cell 7", "row_parallel"),
    "in a text cell": (_NOTEBOOK, ("markdown", renamed(_GRADED)), "cell 0", "attention_heads"),
    "printed": (_NOTEBOOK, ("stream", _GRADED), "cell 7, output", "attention_heads"),
    "printed, other names": (_NOTEBOOK, ("stream", renamed(_ORDER)), "cell 7, output", "order"),
    "shown as HTML": (_NOTEBOOK, ("html", renamed(_GRADED)), "cell 7, output", "attention_heads"),
    "in metadata": (_NOTEBOOK, ("metadata", _GRADED), "cell 7, metadata", "attention_heads"),
    "in a module": (_MODULE, _GRADED, ", line", "attention_heads"),
    "in a module, other names": (_MODULE, renamed(_ORDER), ", line", "one_f_one_b_order"),
    "a private helper": (_MODULE, renamed(answer("_pass_on", "ring_attention")), "", "_pass_on"),
    "an autograd function's": (_MODULE, answer("backward"), "", "backward"),
    "in a string": (_MODULE, f"HINT = {renamed(_GRADED)!r}", ", line", "attention_heads"),
    "in backticks": (
        _MODULE, "HINT = 'write `reduce_from_ranks(x @ weight) + b` and see'", "", "row_parallel"),
    "in base64": (_MODULE, f"DATA = {base64.b64encode(_GRADED.encode()).decode()!r}", "", "heads"),
    "packed": (_MODULE, f"DATA = {_PACKED!r}", ", line", "attention_heads"),
    "in JSON": ("labs/tp_linear_pair/reference.json", json.dumps({"a": _GRADED}), "", "heads"),
    "in a script": ("scripts/lab.sh", f"cat <<END\n{_GRADED}\nEND", "", "attention_heads"),
    "practice, elsewhere": (_MODULE, answer("allreduce_bytes"), ", line", "allreduce_bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("file", "what", "place", "whose"), _MUTANTS.values(), ids=_MUTANTS)
def test_an_answer_in_any_form_is_found(
    course_files, file: str, what: object, place: str, whose: str
) -> None:
    if isinstance(what, tuple):
        content = cell_with(course_files, *what)
    else:
        content = course_files[file] + b"\n\n" + str(what).encode()
    found = release.leaks({file: content}, ANSWERS)
    assert found, "the answer was not found"
    assert all(one.startswith(file) and place in one for one in found[:1])
    assert any(one.endswith(whose) for one in found)


def test_a_solved_notebook_is_found() -> None:
    for topic in topics.TOPICS.values():
        content = (COURSE / "solutions" / f"{topic.lesson}.ipynb").read_bytes()
        found = release.leaks({topic.notebook: content}, ANSWERS)
        for name in topic.exercises():
            whole = any(one.endswith(f": {name}") for one in found)
            parts = any(f"solutions/{topic.name}.py" in one for one in found)
            # Short answers, such as `return _Copy.apply(x)`, are given away by their helpers.
            assert whole or parts, name


@pytest.mark.parametrize("name", ["labs/x.pyc", "labs/__init__.pkl", "labs/all.zip", "labs/a.so"])
def test_what_cannot_be_looked_into_does_not_go_out(tmp_path, name: str) -> None:
    source = tmp_path / "x.py"
    source.write_text(_GRADED, encoding="utf-8")
    compiled = Path(py_compile.compile(str(source), str(tmp_path / "x.pyc"))).read_bytes()
    assert release.leaks({name: compiled}, ANSWERS) == [
        f"{name} is no text: what is in it cannot be compared with the answers"
    ]
    [told] = release.leaks({"labs/x.py": compiled}, ANSWERS)
    assert told.startswith("labs/x.py is not UTF-8")


def test_a_leak_stops_the_release(tmp_path, monkeypatch, course_files) -> None:
    worse = {"LICENSE": b"", _NOTEBOOK: cell_with(course_files, "stream", _GRADED)}
    monkeypatch.setattr(release, "contents", lambda *_: (worse, []))
    with pytest.raises(Leak, match="nothing was released") as refused:
        release.release(tmp_path / "out.zip")
    assert f"{_NOTEBOOK}, cell 7, output" in str(refused.value)
    assert list(tmp_path.iterdir()) == []
