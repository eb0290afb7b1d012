"""Steps on a mesh that do one thing wrong, run on ranks beside the right one.

Used by test_mesh_mutants.py and test_cases_mesh.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from labs.data_parallel.zero1 import WholeGradients
from labs.data_parallel.zero2 import Unit
from labs.data_parallel.zero3 import ShardedWeights
from labs.mesh import data, groups, on_rank, trainer
from labs.mesh.config import Config
from labs.mesh.layout import AXES, Layout
from labs.mesh.trainer import Trainer
from labs.mesh_3d import jobs
from solutions import mesh_3d as answers
from solutions import one_f_one_b
from tests.mesh_wrong import f_forgets

Parts = Mapping[str, Callable]
Change = Callable[[Config, dict], contextlib.AbstractContextManager]


def mean_again(weights, grads, update, group=None):
    """A ZeRO-1 step that averages what the loss has divided already."""
    answers.zero1_step(weights, grads / dist.get_world_size(group), update, group)


def own_gradients(weights, grads, update, group=None):
    """A ZeRO-1 step that updates with this rank's gradients alone."""
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    share = weights.chunk(n)[rank].clone()
    update(share, grads.chunk(n)[rank].clone())
    dist.all_gather_single(weights, share, group=group)


def not_gathered(weights, grads, update, group=None):
    """A ZeRO-1 step after which each rank has its own share's new weights alone."""
    share = weights.chunk(dist.get_world_size(group))[dist.get_rank(group)]
    grad = torch.empty_like(share)
    dist.reduce_scatter_single(grad, grads, group=group)
    update(share, grad)


def no_update(weights, grads, update, group=None):
    """A ZeRO-1 step that sums, gathers, and never calls for the update."""
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    share = weights.chunk(n)[rank].clone()
    dist.reduce_scatter_single(torch.empty_like(share), grads, group=group)
    dist.all_gather_single(weights, share, group=group)


def local_norm(grads, holders, group=None):
    """The norm of what this rank holds."""
    return torch.stack([grad.double().square().sum() for grad in grads]).sum().sqrt()


def counts_replicas(grads, holders, group=None):
    """A global norm in which what t ranks hold counts t times."""
    return answers.global_grad_norm(grads, [1] * len(grads), group)


def g_forgets(x, group=None):
    """g without its all-reduce in the forward pass."""
    return x


def replica_loss(dp, losses, valid, count):
    """Divided by the tokens of one replica, where nobody takes the mean over dp."""
    return one_f_one_b.micro_batch_loss(losses, valid, count / dp)


@contextlib.contextmanager
def tp_slowest(config: Config, parts: dict) -> Iterator[None]:
    """The mesh in another order: neighbours are of one dp group."""
    sizes = [config.layout.sizes[axis] for axis in reversed(AXES)]
    turned = torch.arange(config.layout.ranks).view(sizes).permute(3, 2, 1, 0)

    def mesh(device, _, mesh_dim_names):
        return DeviceMesh(device, turned, mesh_dim_names=mesh_dim_names)

    with patch.object(groups, "DeviceMesh", mesh):
        yield


@contextlib.contextmanager
def sampler_by_rank(config: Config, parts: dict) -> Iterator[None]:
    """Samples by the rank in the world instead of the place on dp."""
    mine = data.mine

    def by_rank(config, step, dp):
        return mine(config, step, dist.get_rank() % config.layout.dp)

    with patch.object(data, "mine", by_rank):
        yield


@contextlib.contextmanager
def seed_by_rank(config: Config, parts: dict) -> Iterator[None]:
    """Every rank draws weights of its own."""
    made = trainer.GPT
    with patch.object(trainer, "GPT", lambda shape, seed: made(shape, seed + dist.get_rank())):
        yield


@contextlib.contextmanager
def placeholder_losses(config: Config, parts: dict) -> Iterator[None]:
    """The mean over all ranks of a replica, where a stage without a loss tells 0."""

    def mean(self, loss):
        total = torch.tensor([0.0 if loss is None else loss], dtype=torch.float64)
        dist.all_reduce(total, group=self.mesh.whole)
        return total.item() / (config.layout.pp * config.layout.tp)

    with patch.object(Trainer, "_everywhere", mean):
        yield


@contextlib.contextmanager
def no_sum_over(config: Config, parts: dict) -> Iterator[None]:
    """Gradients that several ranks have summands of stay summands: a tied weight's, a norm's."""
    with (
        patch.object(WholeGradients, "sum_over", lambda *_: None),
        patch.object(trainer.ShardedGradients, "sum_over", lambda *_: None),
    ):
        yield


@contextlib.contextmanager
def last_micro_batch(config: Config, parts: dict) -> Iterator[None]:
    """Under ZeRO-2 and 3 the gradients of the last micro-batch alone."""
    right = Unit.reduce

    def forgetting(self):
        self.grad.zero_()
        right(self)

    with patch.object(Unit, "reduce", forgetting):
        yield


@contextlib.contextmanager
def old_weights(config: Config, parts: dict) -> Iterator[None]:
    """Under ZeRO-3 weights that were gathered before the update stay in use."""
    with patch.object(ShardedWeights, "_spread", lambda self: None):
        yield


@contextlib.contextmanager
def cp_left_out(config: Config, parts: dict) -> Iterator[None]:
    """Gradients summed over dp alone, though context-parallel ranks have summands too."""
    make = groups.make

    def without(layout):
        mesh = make(layout)
        mesh.data = mesh.group["dp"]
        return mesh

    with patch.object(groups, "make", without):
        yield


def other(**mine: Callable) -> Change:
    """Parts in place of the course's."""

    @contextlib.contextmanager
    def change(config: Config, parts: dict) -> Iterator[None]:
        parts |= mine
        yield

    return change


@contextlib.contextmanager
def per_replica(config: Config, parts: dict) -> Iterator[None]:
    parts["micro_batch_loss"] = partial(replica_loss, config.layout.dp)
    yield


@contextlib.contextmanager
def nothing(config: Config, parts: dict) -> Iterator[None]:
    yield


@dataclass(frozen=True)
class Mutant:
    """A configuration and what is done wrong to its step."""

    config: Config
    change: Change = nothing


def _on(layout: Layout, zero: int = 1, tied: bool = False, reshard: bool = True, **more) -> Config:
    """The lab's model with two layers, on four ranks."""
    model = replace(jobs.MODEL, layers=2, tied=tied)
    return replace(jobs.config(layout, zero, reshard=reshard), model=model, **more)


TENSOR, PIPELINE = Layout(dp=2, tp=2), Layout(dp=2, pp=2)
_ONE, _TIED = _on(TENSOR), _on(PIPELINE, tied=True)
MUTANTS = {
    "right": Mutant(_ONE),
    "right, pipeline": Mutant(_TIED),
    "right, ZeRO-3": Mutant(_on(PIPELINE, 3, tied=True)),
    "mean over dp twice": Mutant(_on(Layout(dp=4)), other(zero1_step=mean_again)),
    "mean over dp left out": Mutant(_on(Layout(dp=4)), per_replica),
    "gradients not summed over dp": Mutant(_ONE, other(zero1_step=own_gradients)),
    "weights not gathered": Mutant(_ONE, other(zero1_step=not_gathered)),
    "no update": Mutant(_ONE, other(zero1_step=no_update)),
    "local norm": Mutant(_ONE, other(global_grad_norm=local_norm)),
    "norm counts replicas": Mutant(_ONE, other(global_grad_norm=counts_replicas)),
    "f forgets": Mutant(_ONE, other(copy_to_ranks=f_forgets)),
    "g forgets": Mutant(_ONE, other(reduce_from_ranks=g_forgets)),
    "tp slowest": Mutant(_ONE, tp_slowest),
    "sampler by global rank": Mutant(_ONE, sampler_by_rank),
    "tied weight not summed": Mutant(_TIED, no_sum_over),
    "tied weight not summed, ZeRO-2": Mutant(_on(PIPELINE, 2, tied=True), no_sum_over),
    "norms not summed": Mutant(_on(TENSOR, 2, sequence_parallel=True), no_sum_over),
    "seed by rank": Mutant(_ONE, seed_by_rank),
    "placeholder losses": Mutant(_TIED, placeholder_losses),
    "last micro-batch alone": Mutant(_on(PIPELINE, 2), last_micro_batch),
    "old weights": Mutant(_on(PIPELINE, 3, reshard=False), old_weights),
    "cp left out": Mutant(_on(Layout(dp=2, cp=2)), cp_left_out),
}


def run(names: Sequence[str], parts: Parts, steps: int) -> list[dict]:
    """On a rank: each of MUTANTS by these names."""
    found, meshes = [], {}
    for name in names:
        mutant, mine = MUTANTS[name], dict(parts)
        config = mutant.config
        with mutant.change(config, mine):
            own = mutant.change in (tp_slowest, cp_left_out)
            key = (config.layout, name if own else "")
            if key not in meshes:
                meshes[key] = groups.make(config.layout)
            found.append(on_rank.one(config, meshes[key], mine, steps))
    return found
