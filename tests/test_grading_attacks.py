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
    with support.opened(tmp_path_factory.mktemp("class")) as made:
        if made.sandbox is None:
            pytest.skip(made.reason)
        yield made


@pytest.mark.parametrize("attack", attacks.every(), ids=lambda attack: attack.name)
def test_an_attack_gets_nothing_and_leaves_nothing(
    attack: attacks.Attack, field: support.Field
) -> None:
    grade, seconds = support.timed(field, attack)
    assert support.wrong(attack, grade, field) == []
    assert seconds < _SECONDS
    assert probe.works(field.sandbox) == ""  # the next ranks meet, and are counted


def test_after_all_attacks_an_honest_answer_passes(field: support.Field) -> None:
    grade = field.grade(support.honest())
    assert (grade.state, grade.points, grade.notes) == (PASS, 3.0, ())
