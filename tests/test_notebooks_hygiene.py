"""Every committed notebook is clean, and each check is seen to fail on a notebook made for it."""

from pathlib import Path

import nbformat
import pytest

from labs.notebooks import hygiene
from labs.notebooks.bootstrap import BOOTSTRAP_SOURCE
from labs.notebooks.make import lesson_names, make

ROOT = Path(__file__).resolve().parents[1]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLVED = sorted((ROOT / "solutions").glob("*.ipynb"))

ANSWER = '''
def twice_sum(x, group=None):
    """The sum over ranks, twice."""
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total * 2
'''


def notebook_of(*cells):
    """A notebook of (source, text output, *tags) code cells; a plain string is prose."""
    notebook = nbformat.v4.new_notebook()
    for count, cell in enumerate(cells, 1):
        if isinstance(cell, str):
            notebook.cells.append(nbformat.v4.new_markdown_cell(cell))
            continue
        source, text, *tags = cell
        outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
        notebook.cells.append(
            nbformat.v4.new_code_cell(
                source, outputs=outputs, execution_count=count, metadata={"tags": tags}
            )
        )
    return notebook


def clean():
    return notebook_of("# A lesson", (BOOTSTRAP_SOURCE, ""), *[("print('ok')", "ok\n")] * 5)


def all_complaints(notebook, *, solved=False):
    found = hygiene.valid(notebook) + hygiene.no_machine(notebook) + hygiene.no_secret(notebook)
    found += hygiene.fits_a_screen(notebook, solved=solved) + hygiene.outputs_stored(notebook)
    found += hygiene.starts_with_bootstrap(notebook)
    if not solved:
        found += hygiene.no_answer(notebook, hygiene.read_solutions(ROOT / "solutions"))
    return found


def test_a_clean_notebook_has_no_complaint():
    assert all_complaints(clean()) == []


@pytest.mark.parametrize("path", LESSONS + SOLVED, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_committed_notebook_is_clean(path):
    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    assert all_complaints(notebook, solved=path.parent.name == "solutions") == []
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("name", lesson_names(ROOT))
def test_committed_notebooks_are_what_the_tool_chain_makes(name):
    """Filled and normalised anew without running: nbval runs and compares them."""
    for made in make(name, ROOT, run=False):
        assert not made.changed, f"run `make notebooks`:\n{made.difference(ROOT)}"


def test_invalid_notebook_is_seen():
    notebook = clean()
    notebook.cells[1].pop("execution_count")
    assert "not valid" in hygiene.valid(notebook)[0]


def test_widget_state_and_widget_view_are_seen():
    notebook = clean()
    notebook.metadata.widgets = {}
    view = {hygiene.WIDGET_VIEW: {"model_id": "0"}, "text/plain": "HTML()"}
    notebook.cells[2].outputs = [nbformat.v4.new_output("display_data", view)]
    assert len(hygiene.valid(notebook)) == 2


@pytest.mark.parametrize(
    "text",
    ["File /home/ana/labs/x.py", "/Users/bo/x", "C:\\Users\\bo", "/root/x", "/tmp/a", "/work/x"],
)
def test_absolute_path_is_seen(text):
    in_output = notebook_of(("run()", text))
    in_prose = notebook_of(f"Look at {text} now.")
    assert hygiene.no_machine(in_output) and hygiene.no_machine(in_prose)


def test_path_in_a_picture_is_not_a_path():
    notebook = clean()
    notebook.cells[2].outputs = [
        nbformat.v4.new_output("display_data", {"image/png": "AAA/tmp/AAA="}),
        nbformat.v4.new_output(
            "display_data", {"text/html": "<img src='data:image/png;base64,AA/tmp/A='>"}
        ),
    ]
    assert hygiene.no_machine(notebook) == []


def test_host_name_is_seen_in_outputs():
    assert hygiene.no_machine(notebook_of(("f()", "on turing-7 now")), host="turing-7")
    assert hygiene.no_machine(notebook_of(("f()", "[vm]:29500 vm:29500")), host="vm")
    assert hygiene.no_machine(notebook_of("a vm is fine", ("f()", "a vm too")), host="vm") == []


def test_address_is_seen_and_loopback_is_not():
    assert hygiene.no_machine(notebook_of(("f()", "at 10.0.0.9:29500")), host="h")
    assert hygiene.no_machine(notebook_of(("f()", "127.0.0.1:1234, torch 2.13.0")), host="h") == []


@pytest.mark.parametrize(
    "text",
    [
        "hf_" + "a1" * 12,
        "ghp_" + "b2" * 15,
        "sk-" + "c3" * 12,
        "http://127.0.0.1/?token=" + "d" * 32,
    ],
)
def test_token_is_seen(text):
    assert hygiene.no_secret(notebook_of(("f()", text)), environment={})


def test_value_of_a_secret_variable_is_seen():
    notebook = notebook_of(("f()", "env: canary-value"))
    assert hygiene.no_secret(notebook, environment={"MY_TOKEN": "canary-value"})
    assert hygiene.no_secret(notebook, environment={"MY_NAME": "canary-value"}) == []


def test_long_cell_and_long_prose_are_seen():
    assert hygiene.fits_a_screen(notebook_of(("x = 1\n" * 31, "")))
    assert hygiene.fits_a_screen(notebook_of("word " * 3201))
    fenced = "```\n" + "word " * 4000 + "\n```"
    assert hygiene.fits_a_screen(notebook_of(fenced, ("x = 1\n" * 29, ""))) == []


def test_long_exercise_is_allowed_only_where_it_is_solved():
    notebook = notebook_of(("x = 1\n" * 40, "", "exercise"))
    assert hygiene.fits_a_screen(notebook)
    assert hygiene.fits_a_screen(notebook, solved=True) == []


def test_measured_cell_without_output_is_seen():
    notebook = clean()
    notebook.cells[2].metadata.tags = ["measured"]
    notebook.cells[2].outputs = []
    found = hygiene.outputs_stored(notebook)
    assert any("tagged measured" in one for one in found)
    assert any("only 4 cells" in one for one in found)


def test_cell_that_nbval_would_not_compare_is_seen():
    notebook = clean()
    notebook.cells[2].execution_count = None
    assert any("no execution count" in one for one in hygiene.outputs_stored(notebook))


def test_pictures_do_not_count_as_compared():
    notebook = clean()
    notebook.cells[2].outputs = [nbformat.v4.new_output("display_data", {"image/png": "AAAA"})]
    assert hygiene.outputs_stored(notebook) == [
        "only 4 cells have outputs that are compared; at least 5 must."
    ]


def test_other_first_cell_is_seen():
    notebook = clean()
    notebook.cells[1].source += "\nimport torch"
    assert hygiene.starts_with_bootstrap(notebook)
    assert hygiene.starts_with_bootstrap(notebook_of("prose only"))


@pytest.mark.parametrize(
    "cell",
    [
        (ANSWER, ""),
        (ANSWER.replace("total", "mine").replace("x", "tensor").replace("twice_sum", "f"), ""),
        f"Hint:\n```python\n{ANSWER}```\n",
    ],
    ids=["as it is", "renamed", "in prose"],
)
def test_answer_in_a_lesson_is_seen(cell):
    found = hygiene.no_answer(notebook_of(cell), {"topic.py": ANSWER})
    assert found and "topic.py: twice_sum" in found[0]


def test_stub_is_no_answer():
    stub = "def twice_sum(x, group=None):\n    raise NotImplementedError('your turn')\n"
    assert hygiene.no_answer(notebook_of((stub, "")), {"topic.py": ANSWER + stub}) == []
