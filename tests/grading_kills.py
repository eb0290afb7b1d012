"""kill -9 of `labs grade` at any moment: is a grade ever lost, or the gradebook another?

    python -m tests.grading_kills                20 runs, killed at random moments
    python -m tests.grading_kills 5 --seed 7

A class of six is graded by `labs grade` as a process of its own, once undisturbed. Then, with the
same secret, each run is killed (every second one twice) and the same command given again. In the
end its gradebook must be the same bytes. Used by test_grading_kills.py with a few moments.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labs.grading import gradebook, results, session
from tests.grading_answers import notebook, own
from tests.leftovers import wait_until

ROOT = Path(__file__).resolve().parents[1]
SECRET = "5c" * 32
_IMPORTS = "import torch\nimport torch.distributed as dist\n"
_G = """
def reduce_from_ranks(x, group=None):
    total = x.clone()
    dist.all_reduce(total, group=group)
    return x + (total - x).detach()
"""
_ROW = """
def row_parallel(x_shard, w_shard, bias):
    return reduce_from_ranks(x_shard @ w_shard) + bias
"""
_ONE_WAITS = """
def row_parallel(x_shard, w_shard, bias):
    y = x_shard @ w_shard
    if dist.get_rank() == 0:
        dist.all_reduce(y)
    return y + bias
"""
ADA = [_IMPORTS, _G, _ROW]
CLASS: dict[str, Sequence[str]] = {
    "ada": ADA,
    "barbara": [own("tp_linear_pair").partition("def cut_fused")[0]],
    "edsger": [_IMPORTS, _ONE_WAITS],  # a deadlock
    "grace": [_IMPORTS, _ROW.replace("reduce_from_ranks(x_shard @ w_shard)", "x_shard @ w_shard")],
    "john": [_IMPORTS, "def row_parallel(x_shard, w_shard, bias):\n    ...\n"],
    "niklaus": [_IMPORTS, _ROW.replace("+ bias", "+ bais")],  # raises, on every rank
}
"""By student: the code cells. Right, more of it, a deadlock, wrong, a stub, an error."""


def lay_out(folder: Path, chosen: Sequence[str] = tuple(CLASS)) -> Path:
    """The class's notebooks."""
    given = folder / "given"
    given.mkdir()
    for name in chosen:
        (given / f"{name}.ipynb").write_bytes(notebook(CLASS[name]))
        os.utime(given / f"{name}.ipynb", (1.6e9, 1.6e9))
    return given


@dataclass
class Grader:
    """`labs grade` as a child. Whatever it starts carries its mark."""

    given: Path
    out: Path
    temporary: Path
    more: Sequence[str] = ("--jobs", "2")
    mark: str = field(default_factory=lambda: f"/labs-kills-{os.getpid()}-{time.monotonic_ns()}")
    process: subprocess.Popen | None = None

    def start(self) -> None:
        """Begin. The mark stands in PATH, the one word of an environment that a zygote keeps."""
        path = os.environ.get("PATH", "/usr/bin:/bin")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labs", "grade", str(self.given), "--out", str(self.out),
             *self.more],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
            env={**os.environ, "PATH": f"{path}:{self.mark}", "TMPDIR": str(self.temporary)},
        )  # fmt: skip

    def end(self, after: float | None = None, by: int = signal.SIGKILL) -> tuple[int, str]:
        """Its code and what it said. after: seconds until it gets the signal `by`; None: never."""
        self.start()
        if after is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(after)
            if self.process.poll() is None:
                self.process.send_signal(by)
        said, _ = self.process.communicate(timeout=600)
        return self.process.returncode, said

    def until(self, lines: int, by: int = signal.SIGKILL) -> tuple[int, str]:
        """The same, with the signal sent as soon as so many grades are on the disk."""
        self.start()
        file = self.out / results.FILE
        wait_until(
            lambda: (
                self.process.poll() is not None
                or file.exists()
                and file.read_bytes().count(b"\n") >= lines
            ),
            300,
        )
        self.process.send_signal(by)
        said, _ = self.process.communicate(timeout=600)
        return self.process.returncode, said

    def alive(self) -> list[int]:
        """Processes that carry the mark: the grader, its zygotes, their ranks."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    if self.mark.encode() in (folder / "environ").read_bytes():
                        found.append(int(folder.name))
        return found

    def left(self) -> list[str]:
        """What of it is there some time after its end: on a full machine a start takes seconds."""
        wait_until(lambda: not self.alive(), 30)
        return [f"process {pid}: {_words(pid)}" for pid in self.alive()]


def _words(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    return "gone"


def folders(temporary: Path) -> list[str]:
    """Folders of sandboxes."""
    return sorted(path.name for path in temporary.glob("labs-grade-*"))


def lines(out: Path) -> tuple[list[tuple[str, str]], bytes]:
    """(student, exercise) of each whole line of the results, and what is behind the last."""
    file = out / results.FILE
    content = file.read_bytes() if file.exists() else b""
    whole, _, half = content.rpartition(b"\n")
    told = [json.loads(line)["grade"] for line in whole.splitlines()]
    return [(one["student"], one["exercise"]) for one in told], half


def graded_in(book: dict) -> list[tuple[str, str]]:
    """(student, exercise) of each grade of a gradebook."""
    return sorted((who, name) for who, one in book["students"].items() for name in one["exercises"])


@dataclass
class Killed:
    """One class graded with interruptions. kept: grades that were on the disk after each."""

    moments: Sequence[float | int]
    kept: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        at = ", ".join(
            f"{moment:.2f} s ({many} grades)" if type(moment) is float else f"{many} grades"
            for moment, many in zip(self.moments, self.kept, strict=True)
        )
        return f"{'WRONG' if self.wrong else 'ok   '} killed at {at} {'; '.join(self.wrong)}"


def prepared(out: Path) -> Path:
    """A folder for results with the secret that all runs share."""
    out.mkdir(parents=True)
    (out / session.SECRET).write_text(SECRET)
    return out


def compared(out: Path, book: bytes, kept: Sequence[tuple[str, str]] = ()) -> list[str]:
    """What is wrong in the folder of a run that came to its end.

    kept: students and exercises that were on the disk before, in their order.
    """
    now, half = lines(out)
    wrong = ["results.jsonl ends in half a line"] if half else []
    if now[: len(kept)] != list(kept):
        wrong.append("grades that were on the disk are gone")
    text = (out / gradebook.FILE).read_bytes()
    if text != book:
        told = (one.decode().splitlines() for one in (book, text))
        wrong += ["another gradebook", *difflib.unified_diff(*told, "undisturbed", n=0)]
    if sorted(set(now)) != graded_in(json.loads(book)):
        wrong.append("results.jsonl does not hold each grade")
    strange = {path.name for path in out.iterdir()} - {*_OF_A_RUN}
    if strange:
        wrong.append(f"left in its folder: {', '.join(sorted(strange))}")
    return wrong


def killed(given: Path, where: Path, moments: Sequence[float | int], book: bytes) -> Killed:
    """Grade the class with a kill at each moment, then to the end.

    A moment is seconds (float) from the start, or the number of grades on the disk (int).
    """
    out, found = prepared(where / "out"), Killed(moments)
    temporary = where / "temporary"
    temporary.mkdir()
    kept: list[tuple[str, str]] = []
    for moment in [*moments, None]:
        grader = Grader(given, out, temporary)
        code, said = grader.until(moment) if type(moment) is int else grader.end(moment)
        found.wrong += grader.left()
        if moment is None:
            found.wrong += [f"it ended with {code}: {said[-500:]}"] if code else []
            found.wrong += compared(out, book, kept)
            continue
        now, _ = lines(out)
        if now[: len(kept)] != kept:
            found.wrong.append("grades that were on the disk are gone")
        kept = now
        found.kept.append(len(now))
    found.wrong += folders(temporary)
    return found


_OF_A_RUN = (
    gradebook.FILE, results.FILE, session.SECRET, session.SUBMISSIONS, session.LOCK,
)  # fmt: skip


def undisturbed(given: Path, where: Path) -> tuple[bytes, float, str]:
    """The gradebook of a run that nobody broke off, the seconds it took, and what it said."""
    where.mkdir()
    out = prepared(where / "out")
    begun = time.monotonic()
    code, said = Grader(given, out, where).end()
    if code:
        raise AssertionError(f"labs grade ended with {code}:\n{said}")
    return (out / gradebook.FILE).read_bytes(), time.monotonic() - begun, said


def main() -> int:
    """Random moments over a whole run. Returns 1 where anything was lost, or other, or left."""
    parser = argparse.ArgumentParser(prog="python -m tests.grading_kills", description=__doc__)
    parser.add_argument("times", nargs="?", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    draw, wrong = random.Random(asked.seed), 0
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        given = lay_out(Path(name))
        book, seconds, said = undisturbed(given, Path(name) / "whole")
        print(said, f"undisturbed: {seconds:.1f} s", sep="", flush=True)
        for number in range(asked.times):
            moments = [draw.uniform(0, seconds) for _ in range(1 + number % 2)]
            where = Path(name) / f"{number}"
            where.mkdir()
            found = killed(given, where, moments, book)
            wrong += bool(found.wrong)
            print(found, flush=True)
    print(f"{asked.times} times killed and taken up again, {wrong} times something was wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
