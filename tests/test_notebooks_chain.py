"""The tool chain from end to end, on a small lesson made here: no torch, no ranks."""

import ast
import base64
import contextlib

import nbformat
import psutil
import pytest

from labs.notebooks.execute import execute
from labs.notebooks.fill import exercise_stub, fill, read_answers, require_same_face
from labs.notebooks.make import make, write
from labs.notebooks.problem import NotebookProblem

STUB = '''
import math

def area(radius):
    """Area of a circle."""
    raise NotImplementedError
'''

ANSWERS = '''
import math
from functools import reduce
from collections import Counter

UNUSED = Counter()
HALF = 0.5


class Square:
    def of(self, x):
        return reduce(lambda a, b: a * b, [x, x])


def doubled(x):
    return x / HALF


def area(radius):
    """Area of a circle."""
    return math.pi * doubled(Square().of(radius)) * HALF
'''

PICTURE = """\
import matplotlib.pyplot as plt
plt.plot([0, 1])
plt.show()
"""


def code(source, *tags):
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)})


def lesson(*cells):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Tiny"), *cells])


@pytest.fixture
def course(tmp_path):
    """A function that lays out a course of one lesson and gives its root (a name with blanks)."""

    def lay(*cells, answers=ANSWERS):
        root = tmp_path / "a course é"
        for folder in ("notebooks", "solutions"):
            (root / folder).mkdir(parents=True)
        nbformat.write(lesson(*cells), root / "notebooks" / "01_tiny.ipynb")
        (root / "solutions" / "tiny.py").write_text(answers, encoding="utf-8")
        return root

    return lay


def test_whole_chain_twice_gives_the_same_bytes(course):
    root = course(
        code("import time, os\nprint('cells', 3)"),
        code(STUB, "exercise"),
        code(
            "try:\n    print(round(area(1.0), 4))\n"
            "except NotImplementedError:\n    print('not yet')"
        ),
        code("print(f'{time.perf_counter() - 1e9:.3e} in {time.perf_counter() % 1:.3f} s')"),
        code("print(time.time_ns())", "measured"),
        code("import sys; print('out'); print('err', file=sys.stderr); print('out')"),
        code("import ipywidgets; ipywidgets.HTML('a widget')"),
        code("1 / 0", "raises-exception"),
        code("print(sorted({'a', 'b'}), os.environ['LABS_SEED'], hash('x'))"),
        code(PICTURE),
    )
    first = make("01_tiny", root)
    for made in first:
        assert made.changed
        write(made)
    second = make("01_tiny", root)
    assert [made.difference(root) for made in second] == ["", ""]

    student, solved = (nbformat.reads(made.text, as_version=4) for made in second)
    assert student.cells[3].outputs[0].text == "not yet\n"
    assert solved.cells[3].outputs[0].text == "3.1416\n"
    assert [cell.id for cell in student.cells] == [cell.id for cell in solved.cells]
    assert solved.cells[2].id == "exercise-area"
    assert solved.cells[7].outputs == []  # the widget view went, and with it its repr
    assert str(root) not in second[0].text
    assert '"widgets"' not in second[0].text and '"version"' not in second[0].text
    assert "Software" not in str(base64.b64decode(solved.cells[10].outputs[-1].data["image/png"]))
    assert make("01_tiny", root, run=False)[1].text == second[1].text


def test_measured_outputs_change_only_on_purpose(course):
    root = course(code("import time; print(time.time_ns())", "measured"), code("print(1)"))
    for made in make("01_tiny", root):
        write(made)
    assert not any(made.changed for made in make("01_tiny", root))
    assert all(made.changed for made in make("01_tiny", root, refresh="measured"))


def test_changed_answer_is_a_readable_difference(course):
    root = course(code(STUB, "exercise"), code("print(1)"))
    for made in make("01_tiny", root):
        write(made)
    answers = root / "solutions" / "tiny.py"
    answers.write_text(ANSWERS.replace("math.pi", "3.0"), encoding="utf-8")
    student, solved = make("01_tiny", root, run=False)
    assert not student.changed and solved.changed
    assert '+    "    return 3.0 * doubled' in solved.difference(root)


def test_cell_over_its_time_is_named(course):
    root = course(code("print('fine')"), code("\nwait = 99\nimport time; time.sleep(wait)"))
    with pytest.raises(NotebookProblem, match=r"cell 2 \(`wait = 99`\) ran longer than 1 s"):
        make("01_tiny", root, cell_seconds=1)


def test_failing_dying_and_not_raising_cells_are_named(tmp_path):
    for source, tags, message in [
        ("x = 1 / 0", [], "`x = 1 / 0`.* failed"),
        ("import os; os._exit(3)", [], "the kernel died"),
        ("x = 1", ["raises-exception"], "nothing was raised"),
    ]:
        notebook = lesson(code(source, *tags))
        with pytest.raises(NotebookProblem, match=message):
            execute(notebook, tmp_path / "01_tiny.ipynb", cell_seconds=20)


@pytest.mark.parametrize("source", ["x = 1", "1 / 0", "import os; os._exit(3)"])
def test_no_kernel_and_no_file_of_one_is_left(private_tmp, source):
    before = set(psutil.Process().children(recursive=True))
    with contextlib.suppress(NotebookProblem):
        execute(lesson(code(source)), private_tmp / "01_tiny.ipynb", cell_seconds=20)
    assert list(private_tmp.iterdir()) == []
    assert set(psutil.Process().children(recursive=True)) <= before


def test_fill_brings_helpers_and_missing_imports_only():
    solved = fill(lesson(code(STUB, "exercise")), read_answers(ANSWERS, "tiny.py"), "01_tiny.ipynb")
    source = solved.cells[1].source
    assert source.startswith("from functools import reduce\nimport math\n")
    assert "UNUSED" not in source and "Counter" not in source
    order = [
        source.index(text) for text in ("HALF = 0.5", "class Square", "def doubled", "def area")
    ]
    assert order == sorted(order)
    namespace = {}
    exec(source, namespace)
    assert round(namespace["area"](1.0), 4) == 3.1416


def test_helper_of_two_answers_is_placed_once():
    half = "def half(x):\n    return x / 2\n"
    answers = half + "\n".join(f"def {name}(x):\n    return half(x)" for name in "ab")
    stubs = [code(f"def {name}(x):\n    ...", "exercise") for name in "ab"]
    solved = fill(lesson(*stubs), read_answers(answers, "tiny.py"), "01_tiny.ipynb")
    assert "def half" in solved.cells[1].source and "def half" not in solved.cells[2].source


def test_answer_may_use_an_earlier_exercise_but_no_later_one():
    answers = read_answers("def a(x):\n    return x\n\ndef b(x):\n    return a(x)\n", "tiny.py")
    a, b = (code(f"def {name}(x):\n    ...", "exercise") for name in "ab")
    solved = fill(lesson(a, b), answers, "n.ipynb")
    assert solved.cells[2].source == "def b(x):\n    return a(x)"
    with pytest.raises(NotebookProblem, match="Put the exercise a first"):
        fill(lesson(b, a), answers, "n.ipynb")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["x = 1"], "exactly one function; it defines none"),
        (["def a(): ...\ndef b(): ..."], "it defines a, b"),
        (["def area(radius): ...\nprint(1)"], "line 2 is something else"),
        (["def other(): ..."], "no such function. It has area, doubled"),
        (["def area(radius, n=1): ..."], "The signature of area differs"),
        (["def area(radius):\n    '''Area of a disc.'''"], "The docstring of area differs"),
        (["def area(:"], "not valid Python"),
        ([STUB, STUB], "the exercise area twice"),
    ],
)
def test_each_wrong_exercise_has_its_sentence(cells, message):
    notebook = lesson(*[code(cell, "exercise") for cell in cells])
    with pytest.raises(NotebookProblem, match=message):
        fill(notebook, read_answers(ANSWERS, "solutions/tiny.py"), "01_tiny.ipynb")


def test_same_face_quotes_the_line_that_differs():
    stub, answer = (
        ast.parse(f'def f(x):\n    """One.\n\n    {second}\n    """').body[0]
        for second in ("two", "three")
    )
    with pytest.raises(NotebookProblem, match='"two" in its line 3, where "three" stands'):
        require_same_face(stub, answer, "cell 1", "tiny.py")
    require_same_face(stub, exercise_stub(ast.unparse(stub), "cell 1"), "cell 1", "tiny.py")


def test_unknown_name_and_missing_answers_have_their_sentence(course):
    root = course(code("1"))
    with pytest.raises(NotebookProblem, match="There are: 01_tiny"):
        make("02_none", root)
    (root / "solutions" / "tiny.py").unlink()
    with pytest.raises(NotebookProblem, match="needs its answers in solutions/tiny.py"):
        make("01_tiny", root)
