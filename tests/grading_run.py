"""`labs grade` over a class of two, with stand-ins for the judge and the sandbox."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from labs.cli import main
from labs.grading import gradebook, judge, results, session
from labs.grading.records import NOT_ATTEMPTED, PASS, Grade
from tests.grading_answers import notebook

IMPORTS = "import torch\nimport torch.distributed as dist\n"
RIGHT = "def causal_block_mask(q_places, k_places):\n    return k_places <= q_places[:, None]\n"
OTHER = "def causal_block_mask(q_places, k_places):\n    return k_places < q_places[:, None]\n"
ZIGZAG = "def zigzag_positions(rank, ranks, length):\n    ...\n"
NAMES = ("sequence_scatter_gather", "merge_partials", "causal_block_mask", "ring_bytes",
         "ring_forward", "zigzag_positions", "ring_backward")  # fmt: skip


def two(folder: Path) -> Path:
    """A class of two: one has the mask, the other as well, and a stub."""
    folder = folder / "given"
    folder.mkdir()
    (folder / "ada.ipynb").write_bytes(notebook([IMPORTS, RIGHT]))
    (folder / "grace.ipynb").write_bytes(notebook([IMPORTS, RIGHT, ZIGZAG]))
    return folder


class Judge:
    """Stands in for the judge: what was asked for, and a grade by the answer's text."""

    def __init__(self) -> None:
        self.asked: list[judge.Asked] = []
        self.raises: list[Exception] = []  # the next ones
        self.points, self.isolation = 10.0, "namespaces"

    @property
    def attempted(self) -> list[tuple[str, str]]:
        """Students and exercises whose answers were judged, in any order."""
        return sorted((one.student, one.exercise.name) for one in self.asked if one.source)

    def __call__(self, asked: judge.Asked, sandbox: object, secret: bytes, shares: object) -> Grade:
        self.asked.append(asked)
        if asked.source is not None and self.raises:
            raise self.raises.pop(0)
        one, held = asked.exercise, asked.source is not None
        right = held and "<=" in asked.source.cells[-1].text
        return Grade(
            asked.student, one.topic, one.name, one.kind,
            PASS if right else "FAIL" if held else NOT_ATTEMPTED, self.points if right else 0.0,
            10.0 if one.kind == "graded" else 0.0, self.isolation, notes=asked.notes,
        )  # fmt: skip


class Shut:
    """Stands in for a sandbox: reads files here, as the tests' own."""

    made: list[Shut]

    def __init__(self, name: str, **_: object) -> None:
        self.isolation, self.launched, self.closed, self.student = name, [], 0, ""
        self.made.append(self)

    def launch(self, function: object, ranks: int, *, args: tuple, limit: float) -> object:
        """As labs.grading.reading asks for it."""
        return type("Run", (), {"values": [function(*args)]})

    def renew(self) -> None:
        """Nothing is left here."""

    def close(self) -> None:
        """Counted."""
        self.closed += 1


@contextlib.contextmanager
def stood_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    """The stand-ins in their places; at the end each sandbox has been closed."""
    fake = Judge()
    monkeypatch.setattr(Shut, "made", [], raising=False)
    monkeypatch.setattr(session, "Sandbox", Shut)
    monkeypatch.setattr(session.probe, "works", lambda sandbox: "")
    monkeypatch.setattr(session.isolation, "unsuitable", lambda name: "")
    monkeypatch.setattr(judge, "grade", fake)
    yield fake
    assert all(one.closed for one in Shut.made)


def grade(given: Path, out: Path, *more: str) -> Result:
    """`labs grade`, here."""
    return CliRunner().invoke(main, ["grade", str(given), "--out", str(out), *more])


def book_of(out: Path) -> dict:
    return json.loads((out / gradebook.FILE).read_bytes())


def lines(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / results.FILE).read_text().splitlines()]
