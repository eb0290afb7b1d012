"""A class in which some hand in files made to break the grader: the others get their grades.

Packed links, paths that lead out, bombs of JSON and brackets, half characters; and tokens in the
grader's own environment, which must stand in nothing that it writes.
"""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path

import pytest

from labs.grading import feedback, points, session
from labs.grading.records import CRASH, GRADER_ERROR, PASS
from tests import attacks
from tests import grading_attacks as support

pytestmark = [pytest.mark.ranks, pytest.mark.namespace]


def _notebook(source: object, **more: object) -> bytes:
    cell = dict(cell_type="code", source=source, metadata={}, outputs=[], execution_count=None)
    told = dict(cells=[cell], metadata={}, nbformat=4, nbformat_minor=5, **more)
    return json.dumps(told).encode()


def _link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info


def _lay(folder: Path, outside: Path) -> None:
    honest = support.honest().source()
    (folder / "ada.py").write_text(honest)
    secret = attacks.read(attacks.HERE / "environment.py")
    facts = dict(CANARY=support.CANARY)
    (folder / "grace.py").write_text(secret.source(facts))
    words = attacks.read(attacks.HERE / "line_half_characters.py")
    (folder / "hedy.py").write_text(words.source())
    half = honest.replace("def row_parallel", 'HALF = "\\ud800"\n\n\ndef row_parallel')
    (folder / "edith.ipynb").write_bytes(
        _notebook("x = '\ud800'\ndef row_parallel(x_shard, w_shard, bias):\n    return x\n")
    )
    (folder / "mary.ipynb").write_bytes(_notebook(half))
    (folder / "deep.ipynb").write_bytes(b'{"cells":' + b"[" * 10**6 + b"]" * 10**6 + b"}")
    (folder / "tree.py").write_text(
        "def row_parallel(x, w, b):\n    return " + "-" * 20_000 + "x\n"
    )
    (folder / "brackets.py").write_text("x = " + "(" * 50_000 + ")" * 50_000)
    with zipfile.ZipFile(folder / "links.zip", "w") as packed:
        packed.writestr(_link("linked/01.py"), str(outside / "secret"))
        packed.writestr("../labs-attack-out.py", honest)
        packed.writestr("/tmp/labs-attack-root.py", honest)
        packed.writestr("nested/../../labs-attack-up/01.py", honest)
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("bomb/01.py", b" " * 40_000_000)


def test_a_class_with_broken_files(tmp_path, monkeypatch) -> None:
    for name in support.TOKENS:
        monkeypatch.setenv(name, support.CANARY)
    outside, folder, out = tmp_path / "outside", tmp_path / "class", tmp_path / "out"
    outside.mkdir()
    folder.mkdir()
    (outside / "secret").write_text(support.CANARY)
    _lay(folder, outside)
    before = sorted(path for path in tmp_path.rglob("*"))
    wanted = session.Wanted(folder, out, points.load(), topics=["tp_linear_pair"])
    said: list[str] = []
    outcome = session.run(wanted, said.append)
    if not outcome.level.for_credit or outcome.level.name == "user":
        pytest.skip("; ".join(outcome.notes))
    feedback.write_to(out)
    states = {
        (student, name): grade["state"]
        for student, told in outcome.book["students"].items()
        for name, grade in told["exercises"].items()
    }
    assert states["ada", "row_parallel"] == PASS
    assert states["hedy", "row_parallel"] == states["grace", "row_parallel"] == CRASH
    assert GRADER_ERROR not in states.values()
    unread = {name for name, told in outcome.book["students"].items() if not told["exercises"]}
    assert len(outcome.book["students"]) >= 8 and len(unread) >= 4
    assert all(outcome.book["students"][name]["total"] is None for name in unread)
    assert all(any(f"{name} has no total" in note for note in outcome.notes) for name in unread)
    new = sorted(path for path in tmp_path.rglob("*") if not path.is_relative_to(out))
    assert new == before
    written = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert len(written) > 10
    assert [path for path, text in written.items() if support.CANARY.encode() in text] == []
    assert support.CANARY not in "\n".join(said)
