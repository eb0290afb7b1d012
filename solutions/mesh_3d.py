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
    sizes    axis: size, from the slowest axis to the fastest: {"dp": 2, "pp": 2, "tp": 2}
    returns  axis: place on it, in the same order
    """
    found = {}
    for axis in reversed(sizes):
        rank, found[axis] = divmod(rank, sizes[axis])
    return {axis: found[axis] for axis in sizes}


def coordinate_to_rank(at: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """The rank at a place of the mesh.

    at       axis: place on it
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
    returns  the groups in the order of their first ranks; in each, ranks in the order of the axis
    """
    others = [name for name in sizes if name != axis]
    found = []
    for places in itertools.product(*(range(sizes[name]) for name in others)):
        rest = dict(zip(others, places, strict=True))
        found.append([coordinate_to_rank({**rest, axis: i}, sizes) for i in range(sizes[axis])])
    return found


def shard_of(
    name: str,
    shape: Sequence[int],
    layers: int,
    at: Mapping[str, int],
    sizes: Mapping[str, int],
) -> tuple[int, list[tuple[int, int]]] | None:
    """Which part of a parameter a rank holds under pipeline and tensor parallelism.

    name     in the whole model: "embedding.tokens.weight", "blocks.2.attention.qkv.weight", …
             A linear layer's weight is (outputs, inputs); the rows of qkv are all of Q, then all of
             K, then all of V
    shape    of the whole parameter
    layers   blocks of the model; the first stages hold one more where pp does not divide them
    at       the rank's place, axis: place
    sizes    axis: size
    returns  (dimension that is cut, [(first, end), …] of each run of it that the rank holds);
             what is held whole is (0, [(0, shape[0])]); None where the rank's stage lacks it

    The vocabulary (rows of embedding.tokens and head.logits) is cut as if it were padded to a
    multiple of tp: the last run may end past shape[0].
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


def zero1_step(
    weights: torch.Tensor,
    grads: torch.Tensor,
    update: Callable[[torch.Tensor, torch.Tensor], None],
    group: dist.ProcessGroup | None = None,
) -> None:
    """One optimizer step in which each rank of a data-parallel group updates its share of weights.

    weights  (N,) all weights end to end, the same on every rank; the group's size divides N
    grads    (N,) this rank's gradients. The loss is already divided by the tokens of the whole
             batch, so they are summands: what the step needs is their sum over the ranks
    update   update(share, grad), called once, changes share (N/n,) in place by grad (N/n,). Rank i
             of the group owns the i-th share. The ranks must call it together
    group    process group; None is the world

    Afterwards `weights` holds the new weights, the same on every rank. No rank may end up with, or
    ask `update` for, more than its share.
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

    grads    this rank's gradients, any shapes; a rank may have none
    holders  of each, how many ranks of the group hold the same numbers
    group    all ranks that hold gradients of the model; None is the world
    returns  a scalar tensor, the same on every rank: the square root of the sum of all squares,
             each number of the model counted once
    """
    total = torch.zeros((), dtype=torch.float64)
    for grad, times in zip(grads, holders, strict=True):
        total = total.to(grad.device) + grad.double().square().sum() / times
    dist.all_reduce(total, group=group)
    return total.sqrt()
