"""How notebook code reaches the ranks: what travels, and what a traceback shows."""

import re
import textwrap

import pytest
import torch

from labs import ranks
from tests.notebooks_in_main import notebook_in_main

pytestmark = [pytest.mark.ranks, pytest.mark.usefixtures("nothing_left")]


@pytest.fixture
def notebook(monkeypatch):
    yield from notebook_in_main(monkeypatch)


def test_helpers_of_other_cells_modules_and_constants_come_along(notebook):
    notebook.cell("""
        import math, torch
        import torch.nn.functional as F
        from math import floor as down
        SCALE = 3
        TABLE = torch.arange(4.0)
    """).cell("""
        def inner(x):
            return x * SCALE + math.pi * 0
    """).cell("""
        def outer(x):
            return [down(inner(2.5)), F.relu(-TABLE).sum().item(), float((TABLE * x).sum())]
    """)
    assert notebook.first("outer", torch.ones(4)) == [7, 0.0, 6.0]


def test_classes_autograd_functions_dataclasses_enumerations(notebook):
    notebook.cell("""
        import dataclasses, enum, torch
        import torch.distributed as dist

        class Summed(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x = x.clone()
                dist.all_reduce(x)
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad

        @dataclasses.dataclass
        class Sizes:
            d: int = 4

        class Kind(enum.Enum):
            ROW = 1

        class Layer(torch.nn.Module):
            def forward(self, x):
                return Summed.apply(x)
    """).cell("""
        def whole(sizes):
            x = torch.ones(sizes.d, requires_grad=True)
            y = Layer()(x)
            y.sum().backward()
            return y.detach(), x.grad, Kind.ROW.value, Sizes().d
    """)
    for value in notebook.run("whole", notebook["Sizes"](2)).values:
        assert [value[0].tolist(), value[1].tolist(), *value[2:]] == [[2, 2], [1, 1], 1, 4]


def test_functions_in_a_dict_lambdas_by_name_aliases_and_recursion(notebook):
    notebook.cell("""
        def double(x):
            return 2 * x
        square = lambda x: x * x
        def factorial(n):
            return 1 if n < 2 else n * factorial(n - 1)
    """).cell("""
        PARTS = {"double": double, "square": square}
        again = double
        def all_of_them(x):
            return [PARTS["double"](x), PARTS["square"](x), again(x), factorial(x)]
    """)
    assert notebook.first("all_of_them", 5) == [10, 25, 10, 120]


def test_arguments_may_hold_functions_of_the_notebook(notebook):
    notebook.cell("""
        def apply(parts, x):
            return {name: part(x) for name, part in parts.items()}
        def plus(x): return x + 1
        def minus(x): return x - 1
    """)
    parts = {"plus": notebook["plus"], "minus": notebook["minus"]}
    assert notebook.first("apply", parts, 5) == {"plus": 6, "minus": 4}


def test_two_functions_of_one_name_from_different_cells(notebook):
    notebook.cell("def part(x):\n    return ('old', x)\n").cell("kept = part\n")
    notebook.cell("def part(x):\n    return ('new', x)\n")
    notebook.cell("""
        def both(x):
            return kept(x), part(x)
        def each(first, second):
            return first(1), second(2)
    """)
    assert notebook.first("both", 0) == (("old", 0), ("new", 0))
    assert notebook.first("each", notebook["kept"], notebook["part"]) == (("old", 1), ("new", 2))


def test_a_name_assigned_anew_in_its_own_cell(notebook):
    """The def counts, not `f = or_answer(f)` after it; an assignment that wraps does count."""
    notebook.cell("""
        import functools, torch
        def handed_on(function):
            return function
        class _F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x
        def f(x):
            return float(_F.apply(x))
        f = handed_on(f)
    """).cell("""
        def twice(function):
            @functools.wraps(function)
            def inner(x):
                return 2 * function(x)
            return inner
        def g(x):
            return x
        def g(x):
            return x + 1
        g = handed_on(g)
        def h(x):
            return x
        h = twice(h)
        @twice
        def k(x):
            return x
        k = handed_on(k)
        def outer(x):
            return f(x), g(x), again(x), h(x), k(x)
        again = g
    """)
    assert notebook.first("f", torch.ones(())) == 2.0
    assert notebook.first("outer", torch.ones(())) == (2.0, 2.0, 2.0, 2.0, 2.0)


def test_an_edited_cell_is_the_one_that_runs(notebook):
    notebook.cell("def answer():\n    return 1\n")
    assert notebook.first("answer") == 1
    notebook.cell("def answer():\n    return 2\n")
    assert notebook.first("answer") == 2


def test_only_definitions_are_executed_on_the_ranks(notebook, tmp_path):
    """A cell often ends in the very call that is being answered."""
    touched = tmp_path / "touched"
    notebook.cell(f"""
        import os
        def work():
            return 1
        if os.path.isdir({str(tmp_path)!r}):
            open({str(touched)!r}, "a").write("x")
        print("a call at the end"); seen = open({str(touched)!r}).read()
    """)
    done = notebook.run("work")
    assert (done.values, done.output) == ([1, 1], "")
    assert touched.read_text() == "x"


def test_a_traceback_shows_the_learners_own_line(notebook):
    notebook.cell("""
        # line 2
        def helper(x):
            return x[5]     # the learner's own words

        def work():
            import torch
            return helper(torch.ones(2))
    """)
    with pytest.raises(ranks.RunFailed) as failed:
        notebook.run("work")
    lines = str(failed.value).splitlines()
    assert re.match(r"rank [01]: IndexError: ", lines[0])
    assert lines[1:] == [
        "  your cell, line 8, in work", "    return helper(torch.ones(2))",
        "  your cell, line 4, in helper", "    return x[5]     # the learner's own words",
    ]  # fmt: skip


def test_in_a_real_kernel_a_traceback_names_the_cell_by_its_number():
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:

        def execute(code):
            said = []
            reply = client.execute_interactive(
                textwrap.dedent(code), timeout=60, output_hook=said.append, store_history=True
            )
            return reply["content"], [m["content"] for m in said]

        execute("from labs import ranks\nimport torch")
        execute("def helper(x):\n    return x[9]")
        reply, said = execute("""
            def work():
                return helper(torch.ones(2))
            ranks.launch(work, ranks=2)
        """)
        assert (reply["status"], reply["ename"]) == ("error", "RunFailed")
        shown = "\n".join(line for c in said for line in c.get("traceback", []))
        assert "cell [3], line 2, in work" in shown
        assert "cell [2], line 2, in helper\n    return x[9]" in shown
        assert "labs/ranks" not in shown
        live = [c["data"]["text/plain"] for c in said if "data" in c]
        assert live[0] == live[-1] == "2 ranks on gloo/CPU: no GPU is visible"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
