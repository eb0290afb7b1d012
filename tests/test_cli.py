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

    @pytest.mark.parametrize("command", ["list", "run", "check", "hint", "doctor", "tour"])
    def test_every_command_has_help(self, command: str) -> None:
        told = labs(command, "--help")
        assert told.exit_code == 0 and len(told.output.splitlines()) > 4


class TestRun:
    def test_measured_beside_formula(self, fake) -> None:
        told = labs("run", TOPIC)
        assert told.exit_code == 0 and "calls: 4 == 4 a rank   [f]" in told.stdout
        assert fake.calls == [{"ranks": topics.TOPICS[TOPIC].ranks, "mode": None}]
        assert "--only" not in told.stdout
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

    def test_what_failed_stands_below(self, fake) -> None:
        late = by_clock(equal("late", 9, 4, "ms", "f"))
        fake.run.answer = LabResult(TOPIC, {}, [late], Run(place(2), "warm"), seconds=1.0)
        told = labs("tour")
        *_, lab, check, last = told.stdout.splitlines()
        assert told.exit_code == 1 and lab.startswith("FAIL ") and "0 of 1 checks ok" in lab
        assert check.strip() == str(late).removeprefix("FAIL ")
        assert last.startswith("only times failed")


@pytest.mark.skipif(
    not sys.prefix.isascii(),
    reason="in a C locale torch cannot be imported from a folder whose name is not ASCII",
)
def test_a_terminal_that_knows_no_unicode() -> None:
    """G27: an old code page costs a few signs, not the command."""
    env = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", "LC_ALL": "C"}
    done = process("-m", "labs", "list", env=env, encoding="cp1252")
    assert done.returncode == 0 and "row_parallel" in done.stdout, done.stderr
