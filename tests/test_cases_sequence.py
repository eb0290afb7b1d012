"""What others ran into with sequence parallelism, made again here: see tests/cases.md."""

from __future__ import annotations

import pytest
import torch

from labs import ranks
from labs.result import Check
from labs.sequence_parallel import dropout, gradients, lab, masks
from labs.sequence_parallel.masks_checks import differing
from labs.sequence_parallel.shape import Shape


def checks_with(wrong) -> list[Check]:
    plan = lab.plan(2, only="sequence parallel")
    run = ranks.launch(lab.on_rank, 2, args=(plan, lab.parts(sum_gradients=wrong)), status=False)
    return lab.checks(plan, run)


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("wrong", "told"), [(gradients.averaged, "1/2"), (gradients.not_summed, "none")]
)
def test_norm_gradients_not_summed_or_averaged_are_named(wrong, told: str) -> None:
    """B07: each fails, and the mean over the ranks shows as the factor that it is."""
    checks = {check.name: check for check in checks_with(wrong)}
    factor = checks["sp, t=2: LayerNorm gradients over one device's"]
    assert not factor.ok and factor.measured == told
    gradient = checks["sp, t=2: 13 gradients"]
    assert not gradient.ok and "norm1_w" in gradient.unit and "qkv_w" not in gradient.unit
    assert checks["tp, t=2: 13 gradients"].ok and checks["sp, t=2: output"].ok


@pytest.mark.parametrize("n", [2, 4])
def test_a_length_that_is_no_multiple_is_refused_with_both_numbers(n: int) -> None:
    """B11: 7 tokens on 2 ranks."""
    with pytest.raises(ValueError) as refused:
        lab.plan(n, shape=Shape(length=7))
    assert "7 tokens" in str(refused.value) and f"{n} ranks" in str(refused.value)
    assert "8 tokens work" in str(refused.value)
    assert set(lab.plan(n, shape=Shape(length=8)).jobs) == set(lab.SECTIONS)


@pytest.mark.ranks
def test_masks_on_two_by_two() -> None:
    """B17: residual masks are a TP group's own, those of heads and hidden units a rank's own."""
    plan = lab.plan(4, only="dropout")
    job = plan.jobs["dropout"]
    assert (job.dp, job.tp, masks.SHARE) == (2, 2, 0.1)
    run = ranks.launch(lab.on_rank, 4, args=(plan, lab.parts()), status=False)
    for place in dropout.OUTSIDE:
        assert differing(masks.TP, place, job, run, "tp") == [0.0, 0.0]
        assert min(differing(masks.TP, place, job, run, "dp")) > 0.1
        assert min(differing(masks.SP, place, job, run, "tp")) > 0.1
    for place in dropout.INSIDE:
        for axis in ("tp", "dp"):
            assert min(differing(masks.TP, place, job, run, axis)) > 0.1
    # either symptom of the report, made on purpose: one switch for the mesh, one for each rank
    for place in masks.PLACES:
        assert differing(masks.ONE_SEED, place, job, run, "dp") == [0.0, 0.0]
    outs = [value[masks.A_SEED_EACH]["out"] for value in run.values]
    assert not torch.allclose(outs[0], outs[1])
    right = [value[masks.TP]["out"] for value in run.values]
    assert torch.allclose(right[0], right[1], atol=1e-9) and not torch.allclose(right[0], right[2])
