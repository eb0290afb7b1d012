"""Answers to notebook 05: which rank stands where, what it holds, how a step is shared out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist


def rank_to_coordinate(rank: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Where a rank stands on the mesh.

    rank     0 to the product of all sizes - 1
    sizes    axis: size, from the slowest axis to the fastest, as {"dp": 2, "pp": 2, "tp": 2}; any
             number of axes, with any names. Rank 1 is one place further on the last of them
    returns  axis: place on it, from 0, of every axis of `sizes`
    """
    found = {}
    for axis in reversed(sizes):
        rank, found[axis] = divmod(rank, sizes[axis])
    return {axis: found[axis] for axis in sizes}


def coordinate_to_rank(at: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """The rank at a place of the mesh: what rank_to_coordinate takes apart.

    at       axis: place on it, from 0, of every axis of `sizes`, in any order
    sizes    axis: size, from the slowest axis to the fastest
    """
    rank = 0
    for axis, size in sizes.items():
        rank = rank * size + at[axis]
    return rank


def groups_of(axis: str, sizes: Mapping[str, int]) -> list[list[int]]:
    """All process groups along an axis: ranks that differ in nothing but their place on it.

    axis     a name of `sizes`
    sizes    axis: size, from the slowest axis to the fastest
    returns  the groups, each a list of ranks in the order of their places on the axis; the groups
             in the order of their first ranks. Every rank of the mesh is in one of them
    """
    others = [name for name in sizes if name != axis]
    found = []
    for places in itertools.product(*(range(sizes[name]) for name in others)):
        rest = dict(zip(others, places, strict=True))
        found.append([coordinate_to_rank({**rest, axis: i}, sizes) for i in range(sizes[axis])])
    return found


def place_on_nodes(sizes: Mapping[str, int], per_node: int) -> dict[str, int]:
    """On how many nodes a process group stands, axis by axis; 1: its traffic stays inside a node.

    sizes     axis: size, from the slowest axis to the fastest
    per_node  ranks on a node: 0 to per_node - 1 on the first, as many on the next, and so on; the
              last node may have fewer
    returns   axis: nodes that have a rank of the group. Where the groups of an axis differ, those
              of the group that is on most
    """
    return {
        axis: max(len({rank // per_node for rank in group}) for group in groups_of(axis, sizes))
        for axis in sizes
    }


def shard_of(
    name: str,
    shape: Sequence[int],
    layers: int,
    at: Mapping[str, int],
    sizes: Mapping[str, int],
) -> tuple[int, list[tuple[int, int]]] | None:
    """Which part of a parameter a rank holds under pipeline and tensor parallelism.

    name     in the whole model: "embedding.tokens.weight", "blocks.2.attention.qkv.weight",
             "head.norm.bias", … A linear layer's weight is (outputs, inputs). The outputs of qkv
             are those of Q, then of K, then of V; those of a tensor-parallel rank are its heads'
    shape    of the whole parameter
    layers   blocks of the model. A stage has neighbouring ones; where pp does not divide them, the
             first stages have one more than the others. The embedding is on the first stage, the
             head on the last
    at       the rank's place, axis: place; sizes: axis: size. Both have "pp" and "tp"; other axes
             change nothing here
    returns  None where the rank's stage lacks the parameter, else (dimension that is cut, the runs
             [(first, end), …] that the rank holds of it, in order, end not included). What each
             rank holds whole is (0, [(0, shape[0])])

    qkv and mlp.up are column-parallel (outputs are cut), attention.out and mlp.down row-parallel
    (inputs are cut, and the bias is whole); tp divides what is cut. The rows of
    embedding.tokens.weight and head.logits.weight, one a token of the vocabulary, are cut into
    equal runs too, but tp need not divide them: they are cut as if they were padded to the next
    multiple of tp, so that a run may end past shape[0]. All else is whole.
    """
    if not _on_stage(name, layers, at["pp"], sizes["pp"]):
        return None
    tp, t = at["tp"], sizes["tp"]

    def share(size: int, start: int = 0) -> tuple[int, int]:
        return start + tp * size // t, start + (tp + 1) * size // t

    if name in ("embedding.tokens.weight", "head.logits.weight"):
        return 0, [share(math.ceil(shape[0] / t) * t)]
    if ".attention.qkv." in name:
        part = shape[0] // 3
        return 0, [share(part, start) for start in (0, part, 2 * part)]
    if ".mlp.up." in name:
        return 0, [share(shape[0])]
    if name.endswith(("attention.out.weight", "mlp.down.weight")):
        return 1, [share(shape[1])]
    return 0, [(0, shape[0])]


def _on_stage(name: str, layers: int, stage: int, stages: int) -> bool:
    """Whether a stage of the pipeline holds a parameter."""
    if name.startswith("embedding."):
        return stage == 0
    if name.startswith("head."):
        return stage == stages - 1
    each, more = divmod(layers, stages)
    first = stage * each + min(stage, more)
    return first <= int(name.split(".")[1]) < first + each + (stage < more)


def state_bytes(parameters: float, n: int, zero: int, mixed: bool = True) -> float:
    """Bytes of weights, gradients and optimizer state that a rank holds between two steps.

    parameters  those of the rank's stage and its tensor-parallel part of them: P
    n           ranks along dp, over which state is shared out
    zero        what is shared out, the ZeRO stage: 0 nothing, 1 optimizer state, 2 gradients as
                well, 3 weights as well
    mixed       weights and gradients in bf16, and as optimizer state a master copy of the weights,
                m and v in fp32; False: all in fp32, and no master copy
    returns     bytes, padding left out
    """
    weights, grads, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    each = (
        weights / (n if zero >= 3 else 1)
        + grads / (n if zero >= 2 else 1)
        + optimizer / (n if zero >= 1 else 1)
    )
    return each * parameters


def zero1_step(
    weights: torch.Tensor,
    grads: torch.Tensor,
    update: Callable[[torch.Tensor, torch.Tensor], None],
    group: dist.ProcessGroup | None = None,
) -> None:
    """One optimizer step in which each rank of a data-parallel group updates its share of weights.

    weights  (N,) all weights end to end, the same on every rank; the group's n ranks divide N.
             Changed in place: afterwards the new weights, the same on every rank
    grads    (N,) this rank's gradients. The loss was divided by the tokens of the whole batch, so
             they are summands: the step needs their sum over the group, not their mean. Nobody
             reads them afterwards: they may be written to
    update   update(share, grad) changes share (N/n,) in place by the summed gradient grad (N/n,)
             of the same weights. Rank i of the group owns the i-th of n equal shares, and calls it
             once, for that share. It holds a collective over other ranks (the global norm), so all
             call it at the same point of the step
    group    process group; None is the world

    A rank sends what a ring reduce-scatter and an all-gather of N numbers need, and makes nothing
    new that is as large as weights, in one tensor or in several.
    """
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    share = weights.chunk(n)[rank].clone()
    grad = torch.empty_like(share)
    dist.reduce_scatter_single(grad, grads, group=group)
    update(share, grad)
    dist.all_gather_single(weights, share, group=group)


def global_grad_norm(
    grads: Sequence[torch.Tensor],
    holders: Sequence[int],
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """The norm of all gradients of a model that no rank holds whole.

    grads    this rank's gradients: any number of them, none too, of any shapes, in bf16, fp32 or
             fp64. They stay as they are
    holders  one number for each of grads: how many ranks of the group hold the same numbers, 1 or
             more. Those are copies, not summands
    group    all ranks that hold gradients of the model; None is the world
    returns  a scalar tensor (shape ()), fp32 or better, the same on every rank: the square root of
             the sum of all squares, each number of the model counted once

    Ranks exchange one number each, by one all-reduce. Squares of fp32 gradients must not overflow
    or vanish: 1e20 and 1e-30 have squares that fp32 cannot hold. A NaN in a gradient makes the norm
    NaN, so that nobody clips by a norm that hides it.
    """
    total = torch.zeros((), dtype=torch.float64)
    for grad, times in zip(grads, holders, strict=True):
        total = total.to(grad.device) + grad.double().square().sum() / times
    dist.all_reduce(total, group=group)
    return total.sqrt()
