"""Right answers get full marks, however they are written: public cases and hidden ones.

All go through the real judge, in one sandbox of the strongest isolation there is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from labs.grading.records import PASS
from labs.grading.sandbox.launcher import Sandbox
from tests import grading_ways
from tests.grading_answers import Handed, judging, notebook
from tests.grading_repeat import full

pytestmark = [pytest.mark.ranks]
_FIRST = 4  # of each exercise; the others are marked slow
SECRET = hashlib.sha256(b"ways").digest()


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with judging() as made:
        yield made


def _params() -> Iterator[object]:
    seen: dict[str, int] = {}
    for name, label, text in grading_ways.every():
        seen[name] = seen.get(name, 0) + 1
        marks = [pytest.mark.slow] if seen[name] > _FIRST else []
        yield pytest.param(name, text, id=f"{name}-{label}", marks=marks)


@pytest.mark.parametrize(("name", "text"), list(_params()))
def test_full_marks(name: str, text: str, sandbox: Sandbox) -> None:
    handed = Handed(notebook(grading_ways.cells(name, text)))
    grade = handed.grade(name, sandbox, SECRET)
    assert full(grade), grade
    assert all(one.hidden for one in grade.properties) or grade.state == PASS


def test_each_graded_exercise_has_four_that_differ() -> None:
    for name, texts in grading_ways.ways().items():
        plain = {" ".join(text.split()) for text in texts.values()}
        assert len(plain) >= 4, name
