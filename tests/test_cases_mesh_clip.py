"""A case of others that clipping on a mesh must stand: see tests/cases.md."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from labs import ranks
from labs.data_parallel.clipping import Clip
from labs.equality import EPS
from labs.gpt import Shape
from labs.mesh import one_device
from labs.mesh.assembly import Whole, assemble, unpack
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from tests import mesh_clip_on_ranks
from tests.mesh_parts import PARTS

COURSE, ALONE, COPIES = "the course's", "this rank alone", "copies counted"
NORMS = {
    COURSE: PARTS["global_grad_norm"],
    ALONE: mesh_clip_on_ranks.this_rank_alone,
    COPIES: mesh_clip_on_ranks.copies_counted,
}


def plain(tied: bool, zero: int = 0) -> Config:
    """dp=1 pp=2 tp=2, layer norms among the parameters, nothing clipped."""
    model = Shape(layers=4, d=16, heads=4, length=8, tied=tied)
    return Config(Layout(pp=2, tp=2), model, batch=4, micro_batches=2, zero=zero)


@cache
def alone(tied: bool) -> one_device.Reference:
    """One step of one device, with torch's own norm."""
    return one_device.train(plain(tied), 1)


def half(tied: bool, zero: int = 0) -> Config:
    """Clipped to half the norm of one device."""
    return Config(**{**vars(plain(tied, zero)), "clip": alone(tied).norms[0] / 2})


CONFIGS = [(tied, zero) for tied in (False, True) for zero in (0, 1, 3)]


@cache
def ran() -> dict[str, list[list[dict]]]:
    """By the norm's name and the configuration: what the four ranks tell; wrong norms have one."""
    todo = {
        name: [half(*one) for one in CONFIGS[: None if name == COURSE else 1]] for name in NORMS
    }
    run = ranks.launch(
        mesh_clip_on_ranks.steps, 4, args=(todo, PARTS, NORMS), limit=100, status=False
    )
    return {
        name: [list(told) for told in zip(*(value[name] for value in run.values), strict=True)]
        for name in NORMS
    }


def whole(told: list[dict], what: str) -> Whole:
    return assemble(run for one in told for run in unpack(one[what]))


@pytest.mark.ranks
@pytest.mark.parametrize(("tied", "zero"), CONFIGS)
def test_clipped_to_half_the_norm_of_one_process(tied: bool, zero: int) -> None:
    """E04: the norm on all ranks is that of one process, and every parameter is scaled by 0.5."""
    told = ran()[COURSE][CONFIGS.index((tied, zero))]
    want = alone(tied).norms[0]
    assert all(abs(one["norms"][0] - want) <= EPS[torch.float64] * want for one in told)
    before, after = whole(told, "gradients"), whole(told, "clipped")
    assert set(before.tensors) == set(alone(tied).gradients) == set(after.tensors)
    largest = max(grad.abs().max() for grad in alone(tied).gradients.values())
    for name, grad in alone(tied).gradients.items():
        assert (before.tensors[name] - grad).abs().max() <= EPS[torch.float64] * largest
        # torch, and the course as well, divide by the norm + 1e-6
        scaled = after.tensors[name] - 0.5 * grad
        assert scaled.abs().max() <= 0.5 * 1e-6 / want * grad.abs().max() + 1e-12 * largest


@pytest.mark.ranks
@pytest.mark.parametrize("wrong", [ALONE, COPIES])
def test_a_wrong_norm_is_seen(wrong: str) -> None:
    """Each stage scaled by another factor, or all by one that is too small."""
    told = ran()[wrong][0]
    norms = {round(one["norms"][0], 9) for one in told}
    factors = {
        round((scaled / grad).item(), 5)
        for one in told
        for before, after in zip(unpack(one["gradients"]), unpack(one["clipped"]), strict=True)
        for grad, scaled in [(before.values.norm(), after.values.norm())]
        if grad > 1e-9
    }
    want = alone(False).norms[0]
    if wrong == ALONE:
        assert len(norms) == 4 and max(norms) < want and len(factors) > 1
    else:
        norm, factor = norms.pop(), factors.pop()
        assert not norms and not factors  # the same everywhere, and so not seen by comparing ranks
        assert norm > 1.01 * want and factor == pytest.approx(want / 2 / norm, abs=1e-4)


@pytest.mark.parametrize(("norm", "scale"), [(0.5, 1.0), (2.0, 0.5), (0.0, 1.0)])
def test_what_is_small_enough_stays_as_it_is(norm: float, scale: float) -> None:
    """Gradients are scaled down to the largest norm, never up to it."""
    share = torch.tensor([3.0, 4.0], dtype=torch.float64)
    clip = Clip(lambda grads, holders, group: torch.tensor(norm), None, 1.0)
    clip([share], [[]])
    right = scale * torch.tensor([3.0, 4.0], dtype=torch.float64)
    torch.testing.assert_close(share, right, rtol=1e-6, atol=0)
    assert clip.norm == norm


@pytest.mark.parametrize("largest", [1.0, None])
def test_a_norm_that_is_no_number_is_not_hidden(largest: float | None) -> None:
    """All of the gradients become NaN, as clip_grad_norm_ has it; unclipped they stay."""
    share, theirs = torch.tensor([3.0, 4.0]), torch.nn.Parameter(torch.zeros(2))
    clip = Clip(lambda grads, holders, group: torch.tensor(torch.nan), None, largest)
    clip([share], [[]])
    theirs.grad = torch.tensor([3.0, torch.nan])
    torch.nn.utils.clip_grad_norm_([theirs], 1.0)
    assert clip.norm != clip.norm and theirs.grad.isnan().all()
    assert share.isnan().tolist() == [largest is not None] * 2
