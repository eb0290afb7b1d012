"""The command line says no in a sentence: files it cannot write, files too odd to read, a seed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from labs import exercise
from tests.test_cli import ROOT, TOPIC, fake, labs, refused  # noqa: F401 (fake is a fixture)

FULL = Path("/dev/full")  # opens, and takes no byte
PROC = Path("/proc")
a_full_disk = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


class TestFilesToWrite:
    def test_files_that_cannot_be_written(self, fake, tmp_path) -> None:  # noqa: F811
        """Told before the run, not after it."""
        refused(labs("run", TOPIC, "--json", str(tmp_path / "no" / "a.json")), "there is no folder")
        refused(labs("run", TOPIC, "--trace", str(tmp_path)), "is a folder")
        refused(labs("run", TOPIC, "--trace", "-", "--json", "-"), "name a file for --trace")
        assert fake.calls == []

    @pytest.mark.skipif(not PROC.is_dir(), reason="no /proc here")
    def test_a_file_that_cannot_be_made(self, fake) -> None:  # noqa: F811
        for option in ("--json", "--trace"):
            refused(labs("run", TOPIC, option, "/proc/x"), "/proc/x cannot be written: ")
        assert fake.calls == []

    def test_a_trace_wants_a_file_of_its_own(self, fake, tmp_path) -> None:  # noqa: F811
        refused(labs("run", TOPIC, "--trace", "-"), "name a file for --trace")
        one = str(tmp_path / "s.json")
        same = str(tmp_path / "." / "s.json")
        refused(labs("run", TOPIC, "--json", one, "--trace", same), "one would overwrite the other")
        refused(labs("run", TOPIC, "--json", ""), "--json needs the name of a file")
        refused(labs("run", TOPIC, "--trace", " "), "--trace needs the name of a file")
        assert fake.calls == [] and list(tmp_path.iterdir()) == []

    def test_looking_leaves_no_file_and_no_harm(self, fake, tmp_path) -> None:  # noqa: F811
        """A run that fails leaves the file of an earlier one as it was, and makes none."""
        fake.run.answer = fake.failed
        old, new = tmp_path / "old.json", tmp_path / "new.json"
        old.write_text("kept")
        assert labs("run", TOPIC, "--json", str(old), "--trace", str(new)).exit_code == 1
        assert old.read_text() == "kept" and not new.exists()

    @a_full_disk
    def test_a_full_disk(self, fake) -> None:  # noqa: F811
        """Only the write can tell: what was measured is on the screen by then."""
        for option in ("--json", "--trace"):
            told = labs("run", TOPIC, option, str(FULL))
            refused(told, "the run is done, but /dev/full cannot be written: No space left")
            assert "1 of 1 checks ok" in told.stdout

    @a_full_disk
    def test_a_full_standard_output(self) -> None:
        code = (
            "from types import SimpleNamespace as N\nfrom labs import topics, ranks, cli\n"
            "from labs.result import Result, equal\nranks.warm_up = lambda mode=None: None\n"
            "done = Result('t', {}, [equal('calls', 4, 4, '', '')])\n"
            "topics.Topic.lab = lambda self: N(run=lambda **asked: done)\n"
            f"cli.main(['run', '{TOPIC}', '--json', '-'])"
        )
        with FULL.open("w") as full:
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, stdout=full, stderr=subprocess.PIPE,
                encoding="utf-8", timeout=60,
            )  # fmt: skip
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert "the standard output cannot be written: No space left" in done.stderr


class TestFilesToRead:
    @pytest.mark.parametrize(
        "deep", ["-" * 100_000 + "1", "a" + ".b" * 700, "a" + ".b" * 50_000, "(" * 300 + ")" * 300]
    )
    def test_code_that_is_nested_too_deeply(self, tmp_path, deep: str) -> None:
        """That cell is not read; the others are."""
        file = tmp_path / "deep.ipynb"
        sources = ["def row_parallel(x, w, b):\n    ...", f"def cut_fused(a):\n    return {deep}"]
        told = [dict(cell_type="code", source=source) for source in sources]
        file.write_text(json.dumps(dict(nbformat=4, cells=told)))
        done = labs("check", TOPIC, "--from", str(file))
        assert done.exit_code == 1 and "Traceback" not in done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)
        assert "row_parallel: not attempted yet" in done.output
        assert "not read: code cell 2" in done.output

    def test_a_notebook_that_is_nested_too_deeply(self, tmp_path) -> None:
        file = tmp_path / "deep.ipynb"
        file.write_text("[" * 100_000)
        refused(labs("check", TOPIC, "--from", str(file)), "deep.ipynb is not a notebook", "deeply")

    def test_long_code_is_not_deep(self, tmp_path) -> None:
        file = tmp_path / "long.py"
        chain = "\n".join(f"    elif x == {i}:\n        return {i}" for i in range(80))
        total = " + ".join(["x"] * 150)
        body = f"    if x:\n        return {total}\n{chain}"
        file.write_text(f"def extra(x):\n{body}\n\ndef row_parallel(x):\n    ...\n")
        done = labs("check", f"{TOPIC}:row_parallel", "--from", str(file))
        assert "not read" not in done.output


@pytest.mark.parametrize("digits", ["9" * 19, "99999999999999999999999", "9" * 5000])
def test_a_seed_too_long_for_torch(monkeypatch, digits: str) -> None:
    monkeypatch.setenv("LABS_SEED", digits)
    refused(labs("check", f"{TOPIC}:row_parallel"), "LABS_SEED must have at most 18 digits")
    monkeypatch.setenv("LABS_SEED", "9" * 18)
    assert exercise.exercises()["row_parallel"] and exercise.seed() == int("9" * 18)


@pytest.mark.parametrize("wrong", [5, None, ["row_parallel"]])
def test_a_hint_for_what_is_no_name(wrong) -> None:
    with pytest.raises(ValueError, match="hint needs a name or a function"):
        exercise.hint(wrong)
