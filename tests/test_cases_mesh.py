"""Cases of others that training on a mesh must stand: see tests/cases.md."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from labs import ranks
from labs.gpt import GPT
from labs.mesh import data
from labs.mesh.config import Config
from labs.mesh.layout import Layout
from labs.mesh.nodes import Nodes
from labs.mesh_3d import jobs, parity, verdicts
from labs.mesh_3d.parity import FIRST, GRADIENTS, NORM, WEIGHTS, Compared
from labs.ranks import Run
from solutions import mesh_3d as answers
from tests import mesh_cases_on_ranks
from tests.mesh_mutants_on_ranks import counts_replicas, mean_again
from tests.mesh_parts import PARTS

STEPS = 3
WHOLE = Layout(dp=2, pp=2, tp=2)
MODEL = replace(jobs.MODEL, layers=2)  # with layer norms, as every GPT


def config(layout: Layout, zero: int = 1) -> Config:
    return replace(jobs.config(layout, zero), model=MODEL, clip=None)


ON_EIGHT = [config(layout) for layout in (WHOLE, *jobs.LAYOUTS[:-1], Layout(pp=2, tp=4))]
SHARDED = [config(Layout(dp=n), 3) for n in (2, 4)]
TENSOR = [config(Layout(tp=n)) for n in (1, 2, 4)]
DATA = [config(Layout(dp=n)) for n in (1, 2, 4)]
ON_FOUR = {
    "sharded": (SHARDED, {}),
    "tensor": (TENSOR, {}),
    "tensor, copies counted": (TENSOR, dict(global_grad_norm=counts_replicas)),
    "data": (DATA, {}),
    "data, mean again": (DATA, dict(zero1_step=mean_again)),
}
WORLDS = (2, 4)


@cache
def eight() -> Run:
    args = (dict(all=(ON_EIGHT, {})), PARTS, STEPS)
    return ranks.launch(mesh_cases_on_ranks.runs, 8, args=args, limit=100, status=False)


def of_eight(number: int) -> list[dict]:
    """What the ranks of a configuration tell."""
    told = [value["all"][number] for value in eight().values]
    return [one for one in told if one is not None]


@cache
def four() -> Run:
    args = (ON_FOUR, SHARDED, WORLDS, PARTS, STEPS)
    return ranks.launch(mesh_cases_on_ranks.four, 4, args=args, limit=100, status=False)


@cache
def held(name: str) -> list[Compared]:
    """Configurations of ON_FOUR against one device."""
    values = [value["runs"][name] for value in four().values]
    return [parity.hold(one, at, values, STEPS) for at, one in enumerate(ON_FOUR[name][0])]


@pytest.mark.ranks
def test_tensor_parallel_ranks_are_neighbours():
    """E01: real groups, the layout and the exercise's answer agree; no group leaves its node."""
    right = [[0, 1], [2, 3], [4, 5], [6, 7]]
    real = sorted({tuple(one["groups"]["tp"]) for one in of_eight(0)})
    assert [list(group) for group in real] == right
    assert WHOLE.groups("tp") == right
    assert answers.groups_of("tp", dict(dp=2, pp=2, tp=2)) == right
    nodes = Nodes(WHOLE, gpus_per_node=4)
    assert nodes.nodes == 2 and all(len(nodes.nodes_of(group)) == 1 for group in real)
    assert any(len(nodes.nodes_of(group)) > 1 for group in WHOLE.groups("dp"))


@pytest.mark.ranks
def test_the_norm_does_not_grow_with_tp():
    """E05: the same on one device and at tp=2 and 4, with layer norms; counted t times it grows."""
    one = parity.reference(TENSOR[0], STEPS).norms[0]
    for compared in held("tensor"):
        assert compared.gap(NORM).ok, compared.gap(NORM)
    norms = [value["norms"][0] for value in four().values[0]["runs"]["tensor, copies counted"]]
    assert norms[0] == pytest.approx(one, rel=1e-12)
    assert one * 1.001 < norms[1] < norms[2]
    off = [compared.gap(NORM).ok for compared in held("tensor, copies counted")]
    assert off == [True, False, False]


@pytest.mark.ranks
def test_gloo_sums_and_averages():
    """E06: at 2 and 4 ranks a sum is n times the mean, and a mean the mean."""
    for rank, value in enumerate(four().values):
        for (n, call, op), times in value["gloo"].items():
            assert times == [n if op == "SUM" else 1] * len(times), (n, call, op)
        assert {n for n, _, _ in value["gloo"]} == {n for n in WORLDS if rank < n}


@pytest.mark.ranks
@pytest.mark.parametrize("number", range(len(WORLDS)), ids=map(str, WORLDS))
def test_sharded_gradients_are_those_of_the_mean_loss(number):
    """E06: ZeRO-3 and torch's fully_shard, on gloo, at 2 and 4 ranks; not a multiple of them."""
    ours = held("sharded")[number]
    values = [value["torch"] for value in four().values]
    theirs = parity.hold(SHARDED[number], number, values, STEPS)
    for compared in (ours, theirs):
        assert compared.gap(GRADIENTS).ok and compared.telling == (), compared


@pytest.mark.ranks
def test_one_batch_gives_one_gradient_however_many_replicas():
    """E09: at dp=1, 2, 4; where the mean is taken again it is off by dp, and is told so."""
    for compared in held("data"):
        assert compared.gap(FIRST).ok and compared.gap(WEIGHTS).ok
    wrong = held("data, mean again")
    assert [one.gap(FIRST).ok for one in wrong] == [True, False, False]
    for one, n in zip(wrong[1:], (2, 4), strict=True):
        (told,) = verdicts.tellings([one])
        assert f"every gradient is off by exactly 1/dp = 1/{n}: a mean taken again" in told


@pytest.mark.ranks
def test_every_rank_can_tell_the_loss():
    """E13: three steps; also stages that hold no loss, and where there is one stage only."""
    for number, asked in enumerate(ON_EIGHT):
        told = of_eight(number)
        assert len(told) == asked.layout.ranks
        assert len({tuple(one["losses"]) for one in told}) == 1
        assert all(len(one["losses"]) == STEPS for one in told)
        right = parity.reference(asked, STEPS).losses
        assert told[0]["losses"] == pytest.approx(right, rel=1e-12)


@pytest.mark.ranks
def test_partners_get_one_replicas_samples():
    """E14: the same inside each (pp, tp) block, others in each replica, and all of them once."""
    tokens, targets = data.batch(ON_EIGHT[0], STEPS - 1)
    seen: dict[int, set[tuple[int, ...]]] = {}
    for one in of_eight(0):
        fed, rows = (one["tokens"], tokens) if one["at"]["pp"] == 0 else (one["targets"], targets)
        ids = tuple((rows == sample).all(1).nonzero().item() for sample in fed)
        seen.setdefault(one["at"]["dp"], set()).add(ids)
    assert all(len(ids) == 1 for ids in seen.values())
    assert sorted(i for ids in seen.values() for i in next(iter(ids))) == list(range(len(tokens)))


@pytest.mark.ranks
def test_the_first_loss_is_the_same_on_every_mesh():
    """E16: weights are drawn once and then cut, with the seed told; drawn anew they differ."""
    values = [value["all"] for value in eight().values]
    all_held = [parity.hold(one, at, values, STEPS) for at, one in enumerate(ON_EIGHT)]
    check = verdicts.first_losses(all_held, "all")
    assert check.ok and f"{len(ON_EIGHT)} layouts, seed 0" in check.name
    drawn = [GPT(MODEL, seed).head.logits.weight for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    other = [*all_held[:-1], replace(all_held[-1], first_loss=all_held[-1].first_loss + 1e-9)]
    assert not verdicts.first_losses(other, "all").ok
