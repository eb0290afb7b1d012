"""The command line: what it prints, its exit codes, its JSON, and how it says no.

Bad input ends with 2, one sentence and no traceback; a check that is not ok, or a run that failed,
with 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from labs import topics
from labs.cli import main
from labs.cli.run import verdict
from labs.exercise import exercises
from labs.ranks import Run, RunFailed, place
from labs.result import Result as LabResult
from labs.result import by_clock, equal
from tests.test_cells import notebook

ROOT = Path(__file__).parent.parent
TOPIC = "tp_linear_pair"


def labs(*arguments: str) -> Result:
    """The command in this process."""
    return CliRunner().invoke(main, arguments)


def process(*arguments: str, **more: object) -> subprocess.CompletedProcess:
    """The command as a learner starts it."""
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, timeout=120, **{"encoding": "utf-8", **more}
    )


def refused(result: Result, *words: str) -> None:
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output and len(result.stderr.splitlines()) <= 4
    assert all(word in result.stderr for word in words), result.stderr


@pytest.fixture
def fake(monkeypatch) -> list[dict]:
    """A lab that starts nothing: notes how it was called, returns or raises `answer`."""
    calls: list[dict] = []

    def run(**asked: object) -> LabResult:
        calls.append(asked)
        if isinstance(run.answer, Exception):
            raise run.answer
        return run.answer

    found = Run(place(2), "warm", failure="rank 1: boom")
    run.answer = LabResult(TOPIC, {}, [equal("calls", 4, 4, "a rank", "f")], found, seconds=1.0)
    lab = SimpleNamespace(run=run, calls=calls, failed=RunFailed(found))
    monkeypatch.setattr(topics.Topic, "lab", lambda self: lab)
    monkeypatch.setattr("labs.ranks.warm_up", lambda mode=None: None)
    return lab


class TestList:
    def test_topics_and_exercises(self) -> None:
        told = labs("list")
        assert told.exit_code == 0 and "notebooks/01_tp_linear_pair.ipynb" in told.output
        for one in exercises().values():
            assert one.name in told.output and f"{one.minutes} minutes" in told.output
        assert "graded · difficulty ●●○○○" in told.output and "practice" in told.output

    def test_help_is_quick(self) -> None:
        """--help imports no torch."""
        code = "import sys; sys.argv=['labs', '--help']\nimport labs.cli\ntry: labs.cli.main()\n"
        code += "except SystemExit: assert 'torch' not in sys.modules"
        done = process("-c", code)
        assert done.returncode == 0 and "doctor" in done.stdout, done.stderr

    @pytest.mark.parametrize("command", ["list", "run", "check", "doctor", "tour"])
    def test_every_command_has_help(self, command: str) -> None:
        told = labs(command, "--help")
        assert told.exit_code == 0 and len(told.output.splitlines()) > 4


class TestRun:
    def test_measured_beside_formula(self, fake) -> None:
        told = labs("run", TOPIC)
        assert told.exit_code == 0 and "calls: 4 == 4 a rank   [f]" in told.stdout
        assert fake.calls == [{"ranks": topics.TOPICS[TOPIC].ranks, "mode": None}]
        labs("run", TOPIC, "--cold", "--ranks", "2")
        assert fake.calls[1] == {"ranks": 2, "mode": "cold"}

    def test_a_check_that_is_not_ok(self, fake) -> None:
        fake.run.answer.checks.append(equal("more", 1, 2, "", "f"))
        told = labs("run", TOPIC)
        assert told.exit_code == 1 and "FAIL more: 1 == 2" in told.stdout

    def test_a_run_that_failed(self, fake) -> None:
        fake.run.answer = fake.failed
        told = labs("run", TOPIC)
        assert told.exit_code == 1 and "rank 1: boom" in told.stderr
        assert "Traceback" not in told.output

    def test_json_alone(self, fake) -> None:
        told = labs("run", TOPIC, "--json", "-")
        assert told.exit_code == 0 and json.loads(told.stdout)["topic"] == TOPIC
        fake.run.answer.checks.append(equal("more", 1, 2, "", "f"))
        assert labs("run", TOPIC, "--json", "-").exit_code == 1

    def test_json_and_trace_into_files(self, fake, tmp_path) -> None:
        files = [str(tmp_path / name) for name in ("lauf äλ.json", "trace.json")]
        told = labs("run", TOPIC, "--json", files[0], "--trace", files[1])
        assert told.exit_code == 0 and "1 of 1 checks ok" in told.stdout
        assert json.loads(Path(files[0]).read_text(encoding="utf-8"))["checks"][0]["ok"] is True
        assert json.loads(Path(files[1]).read_text(encoding="utf-8")) == {"traceEvents": []}

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["tp_linear"], ["no topic 'tp_linear'", "did you mean tp_linear_pair?"]),
            (["xyz"], ["no topic 'xyz'", TOPIC]),
            ([TOPIC, "--ranks", "0"], ["0 ranks", "at least 1"]),
            ([TOPIC, "--ranks", "-2"], ["-2 ranks", "at least 1"]),
            ([TOPIC, "--ranks", "1000"], ["1000 ranks", "fit on this machine"]),
            ([TOPIC, "--ranks", "many"], ["'many' is not a valid integer"]),
            ([TOPIC, "--ranks", "2.5"], ["'2.5' is not a valid integer"]),
        ],
    )
    def test_bad_input(self, fake, arguments: list[str], words: list[str]) -> None:
        refused(labs("run", *arguments), *words)
        assert fake.calls == []

    def test_a_number_of_ranks_that_the_heads_refuse(self, monkeypatch) -> None:
        """By the lab itself, before a launch, with the numbers and the nearest that work."""
        monkeypatch.setattr("labs.ranks.launch", lambda *a, **k: pytest.fail("launched"))
        monkeypatch.setattr("labs.ranks.warm_up", lambda mode=None: None)
        refused(labs("run", TOPIC, "--ranks", "3"), "8 % 3 = 2", "1, 2, 4 or 8 ranks work")

    @pytest.mark.ranks
    def test_the_real_lab(self) -> None:
        """As a process of its own: all checks ok, only JSON on the standard output."""
        done = process("-m", "labs", "run", TOPIC, "--ranks", "2", "--json", "-")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr
        told = json.loads(done.stdout)
        assert told["world_size"] == 2 and told["checks"] and told["ledger"] and told["memory"]
        assert all(check["ok"] for check in told["checks"])
        assert {event["section"] for event in told["timeline"]} and told["mode"] in ("warm", "cold")
        assert str(Path.home()) not in done.stdout.replace(str(ROOT), "")


def test_a_lab_without_torchrun() -> None:
    """A16: `python -m labs.tp_linear_pair` prints its torchrun line and ends; it does not wait."""
    begun = time.monotonic()
    done = process("-m", f"labs.{TOPIC}")
    assert done.returncode == 0 and "torchrun --nproc-per-node 4" in done.stdout
    assert time.monotonic() - begun < 30


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


class TestVerdict:
    """What failed stands once more at the end, below what may be a wall of lines."""

    def result(self, *checks) -> LabResult:
        return LabResult(TOPIC, {}, list(checks))

    def test_all_right(self) -> None:
        assert verdict(self.result(equal("calls", 4, 4, "a rank", "f"))) == "1 of 1 checks ok"

    def test_what_failed(self) -> None:
        good, bad = equal("calls", 4, 4, "a rank", "f"), equal("bytes", 3, 4, "a rank", "f")
        assert verdict(self.result(good, bad)).splitlines() == ["1 of 2 checks ok", str(bad)]

    def test_only_times(self) -> None:
        late = by_clock(equal("late", 9, 4, "ms", "f"))
        told = verdict(self.result(late)).splitlines()
        assert told[-1].startswith("only times failed: other work on this machine")
        bad = equal("bytes", 3, 4, "a rank", "f")
        assert "only times" not in verdict(self.result(late, bad))


class TestTour:
    def test_one_line_each(self, fake) -> None:
        told = labs("tour")
        assert told.exit_code == 0
        lines = told.stdout.splitlines()[-len(topics.TOPICS) :]
        for topic, line in zip(topics.TOPICS, lines, strict=True):
            assert line.startswith(f"ok   {topic}: 1 of 1 checks ok; 2 ranks on")

    def test_one_that_fails(self, fake) -> None:
        fake.run.answer = fake.failed
        told = labs("tour")
        assert told.exit_code == 1
        assert told.stdout.splitlines()[-1] == f"FAIL {list(topics.TOPICS)[-1]}: rank 1: boom"


@pytest.mark.skipif(
    not sys.prefix.isascii(),
    reason="in a C locale torch cannot be imported from a folder whose name is not ASCII",
)
def test_a_terminal_that_knows_no_unicode() -> None:
    """G27: an old code page costs a few signs, not the command."""
    env = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", "LC_ALL": "C"}
    done = process("-m", "labs", "list", env=env, encoding="cp1252")
    assert done.returncode == 0 and "row_parallel" in done.stdout, done.stderr
