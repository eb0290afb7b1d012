"""Inputs follow from all of a seed: from a part of it nobody can try out what others have."""

from __future__ import annotations

import pytest
import torch

from labs.mesh_3d.judging import norm, step
from labs.ranks_and_collectives import trial
from labs.ring_attention.judging import trial as ring
from labs.ring_attention.judging.trial_jobs import ring_jobs
from labs.seeds import mixed


def test_another_seed_where_any_number_differs() -> None:
    every = {mixed(a, b) for a in range(30) for b in range(30)}
    assert len(every) == 900 and all(0 <= one < 2**63 for one in every)
    assert mixed(1, 23) != mixed(12, 3)
    # A generator of torch looks at the last 32 bits: these differ as well.
    assert len({one % 2**32 for one in every}) == 900


def _of_step(seed: int) -> torch.Tensor:
    return step.made(step.steps(seed)[0], 0, 0)[1]


def _of_norm(seed: int) -> torch.Tensor:
    return norm.made(norm.norms(seed)[0], 0)[0][0]


def _of_ring(seed: int) -> torch.Tensor:
    return ring.made(ring_jobs(seed, False)[0], 0, 0)["k"]


def _of_exchange(seed: int) -> torch.Tensor:
    return trial.made(trial.Try((64,), torch.int64), 0, seed)


@pytest.mark.parametrize("made", [_of_step, _of_norm, _of_ring, _of_exchange])
@pytest.mark.parametrize("far", [1, 1000, 10**6, 2**20, 2**26, 2**30])
def test_no_part_of_a_seed_is_left_out(made, far: int) -> None:
    """`seed % 10**6` would leave a million seeds, which a rank tries in seconds."""
    assert not torch.equal(made(7), made(7 + far))
    assert torch.equal(made(7), made(7))
