"""Stages spread over tensor-parallel ranks: t copies over the boundary, or one in slices."""

import torch

from labs import ranks
from labs.one_f_one_b import copies


def gathers_in_the_wrong_order(way):
    """On a rank: the mutant puts the slices together last to first."""
    cat = torch.cat
    torch.cat = lambda parts, dim: cat(parts[::-1], dim=dim)
    try:
        return copies.on_rank(way)
    finally:
        torch.cat = cat


def test_slices_send_a_tth_and_gather_the_rest():
    runs = [ranks.launch(copies.on_rank, 4, args=(way,), status=False) for way in copies.WAYS]
    checks = copies.checks(runs)
    assert len(checks) == 6 and all(check.ok for check in checks)
    spoilt = ranks.launch(gathers_in_the_wrong_order, 4, args=(copies.SLICES,), status=False)
    wrong = [check.name for check in copies.checks([runs[0], spoilt]) if not check.ok]
    assert wrong == [f"t=2, {copies.SLICES}: every rank of the next stage has it all"]
    # who sends copies where slices were meant is seen by the bytes
    swapped = [check.name for check in copies.checks(runs[::-1]) if not check.ok]
    assert any("over the boundary" in name for name in swapped)
