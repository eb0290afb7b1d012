"""The tool chain from end to end, on a small lesson made here: no torch, no ranks."""

import ast
import base64
import struct
import zlib

import nbformat
import pytest

from labs.notebooks.execute import execute
from labs.notebooks.fill import exercise_stub, fill, read_answers, require_same_face
from labs.notebooks.make import make, write
from labs.notebooks.normalise import keep_stored, normalise
from labs.notebooks.outputs import as_terminal, comparable, plain_png
from labs.notebooks.problem import NotebookProblem
from labs.notebooks.sanitise import PATTERNS_FILE, read_patterns, sanitise

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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("max |d| 1.2e-15 ok", "max |d| 0.0e+00 ok"),
        ("took   0.41 s |", "took  12.30 s |"),
        ("12 ms", "9 ms"),
        ("35 \u00b5s", "1,204 us"),
        ("35 \u03bcs, then 4&nbsp;ms", "3 \u03bcs, then 14&nbsp;ms"),
        ("<f at 0x7f00aa11bb22>", "<f at 0x7f00aa11bb33>"),
        ("127.0.0.1:29411", "127.0.0.1:30002"),
        ("--master-port=29411, port 29411", "--master-port=30002, port 30002"),
        ("<img src='data:image/png;base64,AAAA='>", "<img src='data:image/png;base64,BBBB='>"),
        ("  cell [47], line 3, in f", "  cell [1], line 3, in f"),
        ("4 ranks on gloo/CPU: no GPU is visible", "4 ranks on nccl/GPU: 8 GPUs are visible"),
    ],
)
def test_sanitiser_masks(one, other):
    patterns = read_patterns()
    assert sanitise(one, patterns) == sanitise(other, patterns)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2 all-reduces", "3 all-reduces"),
        ("65536 bytes", "65540 bytes"),
        ("1.5 MiB", "2.5 MiB"),
        ("4 ranks", "2 ranks"),
        ("passed", "failed"),
        ("ratio 1.50", "ratio 1.52"),
        ("42.9 %", "8.6 %"),
        ("4 shards", "2 shards"),
        ("t = 4, step", "t = 2, step"),
        ("12.5 MB/s", "13.5 MB/s"),
        ("x3e5f", "x4e5f"),
        ("torch 2.13.0", "torch 2.14.0"),
        ("cell [1], line 3", "cell [1], line 4"),
        ("4 ranks on gloo/CPU: no GPU", "2 ranks on gloo/CPU: no GPU"),
    ],
)
def test_sanitiser_leaves(one, other):
    patterns = read_patterns()
    assert sanitise(one, patterns) != sanitise(other, patterns)


def test_sanitise_file_reads_the_same_in_nbval():
    plugin = pytest.importorskip("nbval.plugin")
    ours = [(pattern.pattern, replacement) for pattern, replacement in read_patterns()]
    assert ours == plugin.get_sanitize_patterns(PATTERNS_FILE.read_text(encoding="ascii"))
    assert len(ours) == 8


def test_png_keeps_pixels_and_loses_text():
    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
    signature = b"\x89PNG\r\n\x1a\n"
    noisy = signature + header + chunk(b"tEXt", b"Software\0x") + pixels
    plain = base64.b64decode(plain_png(base64.b64encode(noisy).decode()))
    assert plain == signature + header + pixels
    assert plain_png("bm90IGEgcG5n") == "bm90IGEgcG5n"


def test_stream_is_stored_as_a_terminal_shows_it():
    assert as_terminal("1/3\r2/3\r3/3\ndone\n") == "3/3\ndone\n"
    assert as_terminal("ab\x08c\n") == "ac\n"


def test_equal_after_sanitising_keeps_the_stored_text(tmp_path):
    def with_text(text):
        notebook = lesson(code("f()"))
        notebook.cells[1].outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
        return normalise(notebook, tmp_path)

    stored = with_text("ok in 0.41 s\n")
    same, other = with_text("ok in 0.52 s\n"), with_text("failed in 0.41 s\n")
    for notebook in (same, other):
        keep_stored(notebook, stored, read_patterns())
    assert same.cells[1].outputs[0].text == "ok in 0.41 s\n"
    assert other.cells[1].outputs[0].text == "failed in 0.41 s\n"


def test_a_picture_inside_html_that_changed_is_stored_anew():
    """It is masked where outputs are compared; the tool chain must still see that it changed."""
    one, other = (
        nbformat.v4.new_output(
            "display_data", {"text/html": f'<img src="data:image/png;base64,{data}">'}
        )
        for data in ("AAAA", "BBBB")
    )
    patterns = read_patterns()
    assert comparable([one], patterns) != comparable([other], patterns)
    assert comparable([one], patterns, pictures=False) == comparable(
        [other], patterns, pictures=False
    )
