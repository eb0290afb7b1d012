"""A pipeline's gradients against one device's: what is not a number fails, wherever it stands."""

from __future__ import annotations

import math

import pytest

from labs.pipeline.jobs import Job, one_device
from labs.pipeline.parity import held
from labs.schedules.instructions import make
from solutions.one_f_one_b import gpipe_order

JOB = Job("parity", make("GPipe", gpipe_order, 2, 2))


def verdicts(at: int | None) -> list[bool]:
    whole = one_device(JOB)
    gradients = {name: grad.clone() for name, grad in whole.gradients.items()}
    if at is not None:
        list(gradients.values())[at].view(-1)[0] = math.nan
    return [check.ok for check in held("", JOB, [gradients], whole.loss)]


def test_one_device_against_itself_holds() -> None:
    assert verdicts(None) == [True, True, True]


@pytest.mark.parametrize("at", [0, 1, -1])
def test_a_gradient_that_is_no_number_fails(at: int) -> None:
    assert verdicts(at) == [True, False, True]
