"""The reference by name: the learner's own when attempted, else the answer, else a sentence."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

import solutions.tp_linear_pair as answers
from labs import exercise, reference
from labs.answers import Missing, attempted, own_used, stubs_used
from labs.exercise import exercises, or_answer
from labs.ranks import Cell, Source
from labs.topics import TOPICS

NAME = "tp_linear_pair.row_parallel"


def written(body: str, name: str = "row_parallel") -> Source:
    return Source(name, [Cell("cell [1]", f"def {name}(x, w, b):\n    {body}\n")])


def row_parallel(x, w, b):
    """A stub in a file."""
    raise NotImplementedError("your turn")


class TestReference:
    def test_every_exercise_has_an_answer(self) -> None:
        for one in exercises().values():
            module = importlib.import_module(f"solutions.{one.topic}")
            assert reference(f"{one.topic}.{one.name}") is getattr(module, one.name)

    def test_mine_when_attempted(self) -> None:
        mine = written("return x @ w + b")
        assert reference(NAME, mine) is mine
        assert reference(NAME, written("...")) is answers.row_parallel
        assert reference(NAME, row_parallel) is answers.row_parallel

    @pytest.fixture
    def without_answers(self, monkeypatch) -> None:
        """A release without the folder `solutions`."""
        real = importlib.import_module

        def import_module(name: str, package: str | None = None) -> object:
            if name.startswith("solutions"):
                raise ModuleNotFoundError(f"No module named {name!r}", name="solutions")
            return real(name, package)

        monkeypatch.setattr(importlib, "import_module", import_module)

    def test_missing(self, without_answers: None, capsys) -> None:
        with pytest.raises(Missing, match="row_parallel is not attempted yet and .* no answers"):
            reference(NAME)
        mine = written("return x")
        assert reference(NAME, mine) is mine
        assert or_answer(row_parallel) is row_parallel
        assert "no answers" in capsys.readouterr().out

    def test_or_answer_says_which(self, capsys) -> None:
        assert or_answer(row_parallel) is answers.row_parallel
        assert "the course's answer stands in" in capsys.readouterr().out
        assert or_answer(answers.row_parallel) is answers.row_parallel
        assert capsys.readouterr().out == "row_parallel: the answer of the course\n"

    def test_or_answer_says_that_it_is_yours(self, capsys, monkeypatch) -> None:
        mine = written("return x @ w + b")
        failed = ", though its last check failed"
        for last, told in ((None, ""), (True, ""), (False, failed)):
            monkeypatch.setattr(exercise, "_last", {"row_parallel": last})
            assert or_answer(mine) is mine
            assert capsys.readouterr().out == f"row_parallel: yours{told}\n"

    def test_unknown_name(self) -> None:
        with pytest.raises(Missing, match="no answer named nothing in tp_linear_pair"):
            reference("tp_linear_pair.nothing")

    def test_an_error_inside_the_answers_is_not_hidden(self, monkeypatch) -> None:
        def broken(name: str) -> object:
            raise ModuleNotFoundError("No module named 'numpyy'", name="numpyy")

        monkeypatch.setattr(importlib, "import_module", broken)
        with pytest.raises(ModuleNotFoundError, match="numpyy"):
            reference(NAME)


class TestAttempted:
    @pytest.mark.parametrize(
        "body",
        ["...", "pass", '"doc"', "raise NotImplementedError", "raise NotImplementedError('no')",
         '"""Doc."""\n    # your code\n    ...'],
    )  # fmt: skip
    def test_stubs(self, body: str) -> None:
        assert not attempted(written(body))

    @pytest.mark.parametrize("body", ["return None", "return x", "x = 1", "raise ValueError('no')"])
    def test_attempts(self, body: str) -> None:
        assert attempted(written(body))

    def test_the_last_definition_counts(self) -> None:
        two = written("return x").cells + written("...").cells
        assert not attempted(Source("row_parallel", two))
        assert attempted(Source("row_parallel", two[::-1]))

    def test_what_has_no_text(self) -> None:
        assert attempted(len)

    def test_stubs_used(self) -> None:
        cells = written("...", "column_parallel").cells + written("return column_parallel(x)").cells
        names = ["column_parallel", "copy_to_ranks"]
        assert stubs_used(Source("row_parallel", cells), names) == ["column_parallel"]
        scope: dict[str, object] = {"row_parallel": row_parallel}
        exec("def mlp(x):\n    return row_parallel(x, x, x) + len(x)", scope)
        assert stubs_used(scope["mlp"], ["row_parallel", "column_parallel"]) == ["row_parallel"]
        assert own_used(scope["mlp"], ["row_parallel", "column_parallel"]) == ["row_parallel"]
        assert own_used(answers.row_parallel, ["reduce_from_ranks"]) == []


@pytest.mark.parametrize("topic", TOPICS)
def test_answers_need_torch_only(topic: str) -> None:
    """Answers import neither the launcher nor anything else of the labs.

    But the words that an order is written in.
    """
    tree = ast.parse(inspect.getsource(importlib.import_module(f"solutions.{topic}")))
    imported = {
        node.module if isinstance(node, ast.ImportFrom) else name.name
        for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    }  # fmt: skip
    assert {name for name in imported if name.startswith("labs")} <= {"labs.schedules"}
