"""Every attack through the real judge, in the strongest isolation there is, all in one sandbox.

Where the kernel gives no namespaces this is skipped, with the reason: nothing here passes unseen.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labs.grading.records import PASS
from labs.grading.sandbox import probe
from tests import attacks
from tests import grading_attacks as support

pytestmark = [pytest.mark.ranks, pytest.mark.namespace]
_SECONDS = 60.0  # no attack may hold up a class longer, on a machine with other work


@pytest.fixture(scope="module")
def field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[support.Field]:
    made = support.Field(tmp_path_factory.mktemp("class"))
    made.open()
    try:
        if made.sandbox is None:
            pytest.skip(made.reason)
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("attack", attacks.every(), ids=lambda attack: attack.name)
def test_an_attack_gets_nothing_and_leaves_nothing(
    attack: attacks.Attack, field: support.Field
) -> None:
    grade, seconds = support.timed(field, attack)
    said = f"{grade.state}: {grade.told}\n{grade.printed}\n{grade.notes}\n{grade.properties}"
    assert "GOT" not in grade.told, said
    assert support.CANARY not in str(grade)
    assert grade.state in attack.states, said
    assert attack.told in grade.told, said
    points = {one.name: one.points for one in grade.properties}
    zero = points if attack.zero == ("all",) else [n for n in attack.zero if n != "none"]
    assert {name: points[name] for name in zero} == dict.fromkeys(zero, 0.0), said
    assert grade.state == PASS or grade.points < grade.of
    assert field.connections() == []
    assert field.left() == []
    assert seconds < _SECONDS
    assert probe.works(field.sandbox) == ""  # the next ranks meet, and are counted


def test_after_all_attacks_an_honest_answer_passes(field: support.Field) -> None:
    grade = field.grade(support.honest())
    assert (grade.state, grade.points, grade.notes) == (PASS, 3.0, ())
