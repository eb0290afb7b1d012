"""nbval as `make test` runs it: strict, bounded, and clear about which cell failed."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from labs.notebooks.execute import execute
from labs.notebooks.normalise import as_text, normalise

ROOT = Path(__file__).resolve().parents[1]


def code(source, text="", *tags):
    outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
    return nbformat.v4.new_code_cell(
        source, outputs=outputs, execution_count=1, metadata={"tags": list(tags)}
    )


@pytest.fixture
def nbval(tmp_path):
    """A function that runs nbval over one notebook and gives (exit code, output)."""

    def run(*cells, seconds=30, env=None):
        path = tmp_path / "a lesson é.ipynb"
        path.write_text(as_text(nbformat.v4.new_notebook(cells=list(cells))), encoding="utf-8")
        return run_on(path, seconds, env)

    def run_on(path, seconds=30, env=None):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-rA", "--nbval", "--nbval-current-env"]
            + ["-p", "labs.notebooks.nbval_plugin", "-p", "no:cacheprovider", "--color=no"]
            + [f"--nbval-cell-timeout={seconds}", "--rootdir", str(tmp_path), "-c", os.devnull]
            + [f"--nbval-sanitize-with={ROOT / 'labs' / 'notebooks' / 'sanitise.ini'}", str(path)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr

    run.on = run_on
    return run


def test_sanitised_difference_passes_and_changed_count_fails(nbval):
    same = code("print('ok in 0.25 s, off by 3e-16')", "ok in 0.41 s, off by 0.0e+00\n")
    changed = code("# count the calls\nprint('3 calls')", "2 calls\n")
    status, output = nbval(same, changed)
    assert status == 1
    assert "1 failed, 1 passed" in output
    assert "# count the calls" in output and "Cell outputs differ" in output


DIES_ONCE = """
import os, pathlib, sys
once = pathlib.Path(os.environ["ONCE"])
if "ipykernel_launcher" in sys.orig_argv:
    left = int(once.read_text())
    once.write_text(str(left - 1))
    if left > 0:
        os._exit(1)
"""


@pytest.mark.parametrize(("times", "status"), [(1, 0), (2, 1)])
def test_a_kernel_that_dies_as_it_starts_is_replaced_once(nbval, tmp_path, times, status):
    """As one does whose port another kernel took first."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(DIES_ONCE)
    (folder / "once").write_text(str(times))
    env = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "ONCE": str(folder / "once")}
    got, output = nbval(code("print(1)", "1\n"), env=env)
    assert got == status, output
    assert (folder / "once").read_text() == {1: "-1", 2: "0"}[times]
    assert status == 0 or "Kernel died" in output


def test_time_out_names_the_cell_and_ends_the_notebook(nbval):
    hang = code("wait_for_rank_3 = 99\nimport time; time.sleep(wait_for_rank_3)")
    status, output = nbval(code("x = 1"), hang, code("print(1)", "1\n"), code("2"), seconds=2)
    assert status == 1
    assert "1 failed, 1 passed, 2 skipped" in output
    assert "Cell 1: wait_for_rank_3 = 99" in output
    assert "not run: Cell 1 (wait_for_rank_3 = 99) ran out of time" in output


def test_dead_kernel_is_noticed_at_once(nbval, private_tmp):
    status, output = nbval(code("import os; os._exit(9)"), code("x = 1"), seconds=100)
    assert status == 1
    assert list(private_tmp.iterdir()) == []  # its connection file is gone too
    assert "the kernel died while it ran this cell" in output
    assert "import os; os._exit(9)" in output
    assert "1 failed, 1 skipped" in output


def test_raises_exception_must_raise(nbval):
    status, output = nbval(code("x = 1", "", "raises-exception"))
    assert status == 1 and "nothing was raised" in output
    error = nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="division by zero")
    error.traceback = []
    cell = code("1 / 0", "", "raises-exception")
    cell.outputs = [error]
    status, output = nbval(cell)
    assert status == 0, output


def test_measured_cell_runs_uncompared(nbval):
    status, output = nbval(
        code("x = 41 + 1; print(x)", "7\n", "measured"), code("print(x)", "42\n")
    )
    assert status == 0, output
    status, output = nbval(code("1 / 0", "7\n", "measured"))
    assert status == 1 and "ZeroDivisionError" in output


def test_what_is_stored_is_what_nbval_sees(nbval, tmp_path):
    """Live displays, widgets, progress bars and mixed streams: stored by one, compared by other."""
    cells = [
        "from IPython.display import HTML, clear_output, display\nimport sys",
        "h = display(HTML('rendezvous'), display_id=True)\nfor i in range(3):\n"
        "    h.update(HTML(f'step {i}'))",
        "print('soon gone')\nclear_output(wait=True)\nprint('stays')",
        "print('gone')\nclear_output()",
        "import ipywidgets\ndisplay(ipywidgets.HTML('status'))\nprint('done')",
        "for i in range(3):\n    print(f'\\r{i}/3', end='')\nprint()",
        "for i in range(3):\n    print('o', i)\n    print('e', i, file=sys.stderr, flush=True)",
        "import os; print(os.environ['LABS_SEED'], os.environ['COLUMNS'], hash('x'))",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    path = tmp_path / "live.ipynb"
    execute(notebook, path)
    normalise(notebook, tmp_path)
    assert notebook.cells[1].outputs[0].data["text/html"] == "step 2"
    assert [o.text for o in notebook.cells[2].outputs] == ["stays\n"]
    assert notebook.cells[3].outputs == []
    assert [o.text for o in notebook.cells[4].outputs] == ["done\n"]
    path.write_text(as_text(notebook), encoding="utf-8")
    status, output = nbval.on(path)
    assert status == 0, output
    assert "8 passed" in output

    notebook.cells[1].outputs[0].data["text/html"] = "step 1"
    path.write_text(as_text(notebook), encoding="utf-8")
    assert nbval.on(path)[0] == 1


def test_c_locale_without_utf8_mode(nbval):
    env = {"PYTHONUTF8": "0", "LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0"}
    status, output = nbval(code("print('ok → α in 35 µs')", "ok → α in 12 µs\n"), env=env)
    assert status == 0, output


def test_limits_are_set_in_the_project():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for option in ("--nbval-cell-timeout=60", "--nbval-kernel-startup-timeout=180"):
        assert option in text
    assert "labs.notebooks.nbval_plugin" in text
    # Side by side, but never the cells of one notebook: they need one kernel, in their order.
    assert "-n 2 --dist loadfile" in (ROOT / "Makefile").read_text(encoding="utf-8")
