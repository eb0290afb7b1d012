"""Faults of a step on a mesh that leave its numbers right, or nearly: what they cost is what shows.

Each is put in on the ranks, one after the other, in one launch; what the ranks then send and hold
is measured as the lab measures it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from unittest.mock import patch

import torch
import torch.distributed as dist

from labs import ranks
from labs.data_parallel import zero2, zero3
from labs.mesh import data, measured
from labs.mesh.config import Config
from labs.mesh.trainer import Trainer
from solutions import mesh_3d, tp_linear_pair

Parts = Mapping[str, Callable]
kept = []  # what a fault does not let go of


def on_rank(
    todo: Mapping[str, tuple[Sequence[Config], Sequence[Config], Sequence[Config]]], parts: Parts
) -> dict[str, tuple]:
    """Fault by fault: the configurations whose messages, state and peak are measured."""
    found = {}
    for fault, (sent, at_rest, at_most) in todo.items():
        # What leaks never closes its account: there is no use in waiting for it.
        tries = measured.TRIES if fault == "none" else 4
        with FAULTS[fault](), _sections_of(fault), patch.object(measured, "TRIES", tries):
            given = {**parts, **WRONG_PARTS.get(fault, {})}
            measured.sent(sent, given)
            found[fault] = (measured.at_rest(at_rest, given), measured.at_most(at_most, given))
        kept.clear()
    return found


@contextlib.contextmanager
def _sections_of(fault: str) -> Iterator[None]:
    """The ledger keeps faults apart."""
    section = ranks.section
    with patch.object(ranks, "section", lambda name: section(f"{fault}: {name}")):
        yield


def all_reduced(
    weights: torch.Tensor, grads: torch.Tensor, update: Callable, group: dist.ProcessGroup
) -> None:
    """ZeRO-1 in name: every rank has all gradients, and the optimizer's state of all weights."""
    dist.all_reduce(grads, group=group)
    update(weights, grads)


def copy_summed_forward(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """f with an all-reduce too many, of the same shape, whose result nobody uses."""
    dist.all_reduce(torch.zeros_like(x), group=group)
    return tp_linear_pair.copy_to_ranks(x, group)


def whole_vocabulary(
    name: str, shape: Sequence[int], layers: int, at: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple | None:
    """The embedding's table is whole on every rank."""
    if name == "embedding.tokens.weight":
        return (0, [(0, shape[0])]) if at["pp"] == 0 else None
    return mesh_3d.shard_of(name, shape, layers, at, sizes)


def _full_copy():
    """A full copy of the weights is kept beside the share."""
    init = zero3.ShardedUnit.__init__

    def keeping(self, parameters, group):
        kept.append([p.detach().clone() for p in parameters])
        init(self, parameters, group)

    return patch.object(zero3.ShardedUnit, "__init__", keeping)


def _gradients_kept():
    """Gradients are reduced to a share, and kept whole besides."""
    reduce = zero2.Unit.reduce

    def keeping(self):
        kept.append([p.grad for p in self.flat.parameters])
        reduce(self)

    return patch.object(zero2.Unit, "reduce", keeping)


def _never_let_go():
    """Gathered weights keep their memory, though they are gathered again."""
    return patch.object(zero3.ShardedUnit, "let_go", lambda self: setattr(self, "there", False))


def _let_go_after_the_step():
    """Resharding is asked for and not done."""
    never = property(lambda _: False, lambda *_: None)
    return patch.object(zero3.ShardedUnit, "reshard", never, create=True)


def _gathered_twice():
    """Weights that are there are gathered again."""
    gather = zero3.ShardedUnit.gather

    def again(self):
        gather(self)
        dist.all_gather_single(self.weights, self.mine, group=self.group)

    return patch.object(zero3.ShardedUnit, "gather", again)


def _one_unit():
    """All of a stage is gathered as one."""

    def all_together(self):
        return [list(self.model.parameters())], [[self.model]]

    return patch.object(Trainer, "_units", all_together)


def _same_batch():
    """Every replica works on the whole batch."""
    return patch.object(data, "mine", lambda config, step, dp: data.batch(config, step))


FAULTS: dict[str, Callable] = {
    "none": contextlib.nullcontext,
    "state not sharded": contextlib.nullcontext,
    "f sums forward": contextlib.nullcontext,
    "vocabulary not cut": contextlib.nullcontext,
    "full copy kept": _full_copy,
    "gradients kept": _gradients_kept,
    "never let go": _never_let_go,
    "let go after the step": _let_go_after_the_step,
    "gathered twice": _gathered_twice,
    "one unit": _one_unit,
    "same batch": _same_batch,
}
WRONG_PARTS: dict[str, Parts] = {
    "state not sharded": {"zero1_step": all_reduced},
    "f sums forward": {"copy_to_ranks": copy_summed_forward},
    "vocabulary not cut": {"shard_of": whole_vocabulary},
}
