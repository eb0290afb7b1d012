"""`labs check`: answers of a file or of the course, on real ranks; what it says of a file's faults.

Bad input ends with 2, one sentence and no traceback; an answer that does not pass, with 1.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from labs.exercise import exercises
from tests.test_cells import notebook
from tests.test_cli import ROOT, TOPIC, labs, refused


class TestCheck:
    @pytest.mark.ranks
    def test_the_courses_answers(self) -> None:
        told = labs("check", f"{TOPIC}:row_parallel")
        assert told.exit_code == 0 and "row_parallel: passed (3/3)" in told.output
        assert "checked: the course's own answers" in told.output
        assert "1 of 1 passed" in told.output

    @pytest.mark.ranks
    def test_a_learners_notebook(self, tmp_path) -> None:
        """Own definitions, from several cells; a broken cell and a stub do not stop the rest."""
        file = notebook(
            tmp_path,
            "import torch\nimport torch.distributed as dist\n%load_ext x",
            "class G(torch.autograd.Function):\n"
            "    @staticmethod\n    def forward(ctx, x, group):\n"
            "        x = x.clone()\n        dist.all_reduce(x, group=group)\n        return x\n\n"
            "    @staticmethod\n    def backward(ctx, grad):\n        return grad, None",
            "def reduce_from_ranks(x, group=None):\n    return G.apply(x, group)\n"
            "check(reduce_from_ranks)",
            "def column_parallel(x, w_shard, b_shard):\n    ...",
            "def broken(:",
            "def row_parallel(x_shard, w_shard, bias):\n"
            "    return reduce_from_ranks(x_shard @ w_shard + bias)",
            counts=(1, 2, 3, 4, 5, 6),
        )
        told = labs("check", TOPIC, "--from", file)
        assert told.exit_code == 1
        assert "reduce_from_ranks: passed (3/3)" in told.output
        assert "the bias is in the sum 2 times" in told.output
        assert "column_parallel: not attempted yet" in told.output
        assert "defines no function cut_fused" in told.output
        assert "not read: cell [5], line 1: invalid syntax: def broken(:" in told.output
        assert "1 of 8 passed, 6 not attempted" in told.output

    @pytest.mark.ranks
    def test_everything_in_a_python_file(self, tmp_path) -> None:
        """The course's own file, as a learner's: exit 0 when all pass."""
        told = labs("check", TOPIC, "--from", str(ROOT / "solutions" / f"{TOPIC}.py"))
        assert told.exit_code == 0, told.output
        assert f"{len(exercises(TOPIC))} of {len(exercises(TOPIC))} passed" in told.output

    @pytest.mark.ranks
    def test_the_courses_notebook(self) -> None:
        """All answers are read from the notebook itself, where calls stand between them."""
        told = labs("check", TOPIC, "--from", str(ROOT / "solutions" / f"01_{TOPIC}.ipynb"))
        assert told.exit_code == 0, told.output
        assert f"{len(exercises(TOPIC))} of {len(exercises(TOPIC))} passed" in told.output

    def test_the_notebook_as_it_is_handed_out(self, monkeypatch) -> None:
        monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))
        told = labs("check", TOPIC, "--from", str(ROOT / "notebooks" / f"01_{TOPIC}.ipynb"))
        assert told.exit_code == 1
        assert (
            f"0 of {len(exercises(TOPIC))} passed, {len(exercises(TOPIC))} not attempted"
            in told.output
        )

    def test_an_untouched_release_starts_nothing(self, tmp_path, monkeypatch) -> None:
        """G22: every exercise "not attempted", at once, exit 1."""
        monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))
        stubs = [f"def {name}(*args):\n    raise NotImplementedError" for name in exercises(TOPIC)]
        begun = time.monotonic()
        told = labs("check", TOPIC, "--from", notebook(tmp_path, *stubs))
        assert told.exit_code == 1 and told.output.count("not attempted yet") == len(stubs)
        assert time.monotonic() - begun < 30

    def test_nothing_of_the_file_is_executed_here(self, tmp_path) -> None:
        mark = tmp_path / "mark"
        file = tmp_path / "answers.py"
        file.write_text(f"open({str(mark)!r}, 'w')\ndef row_parallel(x, w, b):\n    pass\n")
        assert labs("check", f"{TOPIC}:row_parallel", "--from", str(file)).exit_code == 1
        assert not mark.exists()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["tp_linear"], ["did you mean tp_linear_pair?"]),
            (["row_parallel"], ["labs check tp_linear_pair:row_parallel"]),
            ([f"{TOPIC}:row_paralel"], ["no exercise 'row_paralel'", "row_parallel"]),
            ([f"{TOPIC}:"], ["no exercise ''"]),
            ([TOPIC, "--from", "none.ipynb"], ["there is no file none.ipynb"]),
            ([TOPIC, "--from", "pyproject.toml"], ["neither a notebook"]),
        ],
    )
    def test_bad_input(self, arguments: list[str], words: list[str]) -> None:
        refused(labs("check", *arguments), *words)

    def test_a_release_without_answers(self, monkeypatch) -> None:
        monkeypatch.setitem(sys.modules, "solutions", None)
        monkeypatch.setitem(sys.modules, "solutions.tp_linear_pair", None)
        refused(labs("check", TOPIC), "this copy of the course has no answers", "--from FILE")

    def test_a_seed_that_is_none(self, monkeypatch) -> None:
        monkeypatch.setenv("LABS_SEED", "x")
        refused(labs("check", f"{TOPIC}:row_parallel"), "LABS_SEED must be a whole number")


@pytest.fixture
def nothing_runs(monkeypatch) -> None:
    """A check that launches ranks fails its test."""
    monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))


class TestMisspelt:
    """A function under another name than its exercise's."""

    def told(self, tmp_path, *names: str, topic: str = "one_f_one_b") -> str:
        file = tmp_path / "mine.py"
        file.write_text("\n".join(f"def {name}(*a):\n    ..." for name in names))
        return labs("check", topic, "--from", str(file)).output

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("one_f_one_b", "one_f_one_b_order"),
            ("gpipe", "gpipe_order"),
            ("zero_buble_order", "zero_bubble_order"),
            ("micro_batch_losses", "micro_batch_loss"),
        ],
    )
    def test_the_name_that_is_meant(self, tmp_path, nothing_runs, name: str, meant: str) -> None:
        told = self.told(tmp_path, name)
        asked = f"mine.py defines no function {meant}; it defines {name}; did you mean {meant}?"
        assert asked in told and told.count("did you mean") == 1

    def test_what_is_no_misspelling(self, tmp_path, nothing_runs) -> None:
        """Another exercise, of this topic or another one, and functions of the learner's own."""
        names = ("gpipe_order", "row_parallel", "draw", "order_of_all_the_things", "batch")
        told = self.told(tmp_path, *names)
        assert "did you mean" not in told
        assert "mine.py defines no function one_f_one_b_order" in told

    def test_a_name_that_is_there_is_not_meant(self, tmp_path, nothing_runs) -> None:
        told = self.told(tmp_path, "one_f_one_b_order", "one_f_one_b")
        assert "did you mean" not in told


class TestNamedByItsNotebook:
    def test_the_notebook_alone(self, tmp_path, nothing_runs) -> None:
        file = tmp_path / f"01_{TOPIC}.ipynb"
        Path(notebook(tmp_path, "def row_parallel(x, w, b):\n    ...")).rename(file)
        for what in (str(file), f"{file}:row_parallel"):
            told = labs("check", what)
            assert told.exit_code == 1 and "row_parallel: not attempted yet" in told.output
            assert "course's own answers" not in told.output

    def test_a_topic_by_number(self, nothing_runs) -> None:
        told = labs("check", "01:cut_fused", "--from", f"notebooks/01_{TOPIC}.ipynb")
        assert told.exit_code == 1 and "cut_fused: not attempted yet" in told.output

    @pytest.mark.parametrize("file", ["mine.py", "notes/mine.ipynb"])
    def test_a_file_that_names_no_topic(self, file: str) -> None:
        refused(labs("check", file), f"{file} is a file", f"labs check TOPIC --from {file}", TOPIC)


def test_a_hint_is_asked_for_in_the_terminals_way(tmp_path, nothing_runs) -> None:
    """A card in a notebook says hint("..."), one in a terminal what can be typed there."""
    told = labs("check", f"{TOPIC}:row_parallel", "--from", f"notebooks/01_{TOPIC}.ipynb")
    assert "→ labs hint row_parallel shows a hint" in told.output
    assert "hint(" not in told.output
    assert labs("hint", "row_parallel").exit_code == 0
