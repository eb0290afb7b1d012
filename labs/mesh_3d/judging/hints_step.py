"""From a wrong optimizer step to what probably lies behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from labs.mesh_3d.judging.step import Reference, Step, changed

MEMORY = (
    "a rank needs its share of the sum, and at most a copy of its share of the weights: let "
    "reduce-scatter write into (N/n,), and all-gather into weights itself (weights.chunk(n) are "
    "views), with no torch.cat, no clone of all, no list of new tensors"
)
_GROUP = "group was not handed on: a data-parallel group is not the whole world, pass group=group"
_RANK = "dist.get_rank() counts in the world; dist.get_rank(group) says which share is this rank's"


def of_calls(reference: Reference, calls: Sequence[tuple]) -> str:
    """update was not called once."""
    if not calls:
        return "each rank calls update(share, grad) once, for its own share: no rank is left out"
    if len(calls) == reference.n:
        return (
            "each rank updates its own share alone: the others hold the optimizer's state of "
            "theirs, and send what came of it"
        )
    return "once a step: the optimizer's state moves on with every call"


def _alike(got: torch.Tensor, slip: torch.Tensor) -> bool:
    if got.shape != slip.shape:
        return False
    eps = 1e-9 if got.dtype == torch.float64 else 1e-4
    return torch.allclose(got.double(), slip, rtol=eps, atol=eps)


def of_given(
    name: str, got: object, references: list[Reference], group: int, member: int, call: tuple
) -> str:
    """What update was given as `share` or `grad` instead, and why."""
    reference = references[group]
    if not isinstance(got, torch.Tensor):
        return "update takes two tensors: the share, and the gradients of the same weights"
    share, grad = call
    swapped = [reference.share(whole, member) for whole in (reference.total, reference.weights)]
    if all(isinstance(x, torch.Tensor) for x in call) and all(map(_alike, call, swapped)):
        return "the share of the weights comes first, then its gradient: update(share, grad)"
    if got.numel() == reference.step.size and reference.n > 1:
        return (
            "these are all N numbers: with them a rank needs the optimizer's state of all weights. "
            "Hand update the rank's share alone, N/n of them"
        )
    if got.dim() != 1 and got.numel() == reference.step.share:
        return "one dimension, (N/n,): flatten() or squeeze() takes the others away"
    slips = _shares(references, group, member) if name == "share" else _grads(
        references, group, member)  # fmt: skip
    whole = reference.weights if name == "share" else reference.total
    if torch.allclose(got.double(), reference.share(whole, member), rtol=1e-4, atol=1e-4):
        return "right to fp32's seven digits: stay in the type of weights and grads"
    return next((hint for slip, hint in slips if _alike(got, slip)), "")


Slips = Iterator[tuple[torch.Tensor, str]]


def _shares(references: list[Reference], group: int, member: int) -> Slips:
    reference = references[group]
    world = reference.step.groups[group][member]
    if world != member:
        yield reference.share(reference.weights, world % reference.n), _RANK
    for other in range(reference.n):
        if other != member:
            yield (
                reference.share(reference.weights, other),
                f"that is share {other}: rank i of the group owns the i-th",
            )
    yield (
        reference.weights[member :: reference.n],
        "every n-th weight: shares are runs, as weights.chunk(n) cuts them, and as reduce-scatter "
        "and all-gather do",
    )
    yield reference.share(reference.total, member), "these are gradients: update(share, grad)"


def _grads(references: list[Reference], group: int, member: int) -> Slips:
    reference, n = references[group], references[group].n
    total = reference.share(reference.total, member)
    if n > 1:
        yield (
            total / n,
            f"off by exactly {n}, the ranks of the group: the mean was taken again. The loss was "
            "divided by all tokens of the batch, so gradients are summands: SUM, not AVG",
        )
        yield total * n, f"{n} times the sum: the gradients were summed up twice"
        yield total / n**2, f"divided by {n} twice; summands of a mean are summed up, no more"
        yield (
            reference.share(reference.grads[member], member),
            "these are this rank's gradients alone: what the others found for this share has to be "
            "added, by reduce-scatter",
        )
    for other in range(n):
        if other != member:
            yield (
                reference.share(reference.total, other),
                f"that is the sum of share {other}: share and grad belong to the same weights",
            )
    yield (
        reference.total[member::n],
        "every n-th gradient: shares are runs, as weights.chunk(n) cuts them",
    )
    stacked = torch.stack(reference.grads)
    yield reference.share(stacked.amax(0), member), "the largest of the ranks: gradients are added"
    sums = [one.total for one in references]
    for size, place in {(n, member), (4, reference.step.groups[group][member])}:
        if len(sums) > 1 and reference.step.size % size == 0:
            yield torch.stack(sums).sum(0).chunk(size)[place], _GROUP


def of_weights(
    got: torch.Tensor, references: list[Reference], group: int, member: int
) -> str:  # fmt: skip
    """update was right; what became of the shares afterwards."""
    reference = references[group]
    n, size = reference.n, reference.step.share
    old, new = reference.weights, reference.after
    if _alike(got, old):
        return (
            "weights are as they were: a new tensor, or weights = …, is another one. Change this "
            "one in place: all-gather into it, after update, and not the old share"
        )
    own = old.clone()
    own[member * size : (member + 1) * size] = reference.new(member)
    if _alike(got, own):
        return "only this rank's own share is new: all-gather brings those of the others"
    if n > 1 and _alike(got, torch.cat([reference.new(member)] * n)):
        return "this rank's share stands in the place of every share"
    parts, wanted = got.double().chunk(n), new.chunk(n)
    if all(any(_alike(part, one) for one in wanted) for part in parts):
        return "the shares are new, but not in order: the share of rank i of the group is the i-th"
    if _alike(got, new / n):
        return f"off by exactly {n}: a mean of the weights. Shares are put side by side"
    alone = changed(old, reference.grads[member], reference.factors(member))
    if _alike(got, alone):
        return "this rank updated all weights by its own gradients: the replicas drift apart"
    if any(_alike(part, one) for part, one in zip(parts, wanted, strict=True)):
        return (
            "some shares are new, others not: gather after update, and the new shares, from every "
            "rank of the group"
        )
    if len(references) > 1:
        return f"shares of another group, or of none: {_GROUP}"
    return "after update the new shares are put side by side in weights, by an all-gather"


def of_traffic(asked: Step, calls: Sequence[tuple[str, int, int]]) -> str:
    """Which call sends more than it must."""
    n, whole = asked.ranks, asked.bytes
    sizes = {op: (count, size) for op, count, size in calls}
    if "all_reduce" in sizes and sizes["all_reduce"][1] >= whole:
        return (
            "an all-reduce brings every rank the sum of all gradients, and is a reduce-scatter "
            f"and an all-gather itself: with the all-gather of the weights {3 * (n - 1)}/{n} of N "
            f"are sent, not {2 * (n - 1)}/{n}. reduce_scatter_single brings a rank its share"
        )
    if sizes.get("all_gather", (0, 0))[1] >= whole:
        return (
            "an all-gather of all gradients brings every rank what it has no use for: "
            "reduce-scatter adds them up on their way, and brings each its share"
        )
    many = next((op for op, (count, size) in sizes.items() if count > 1), "")
    if many:
        return f"{many} more often than needed: one reduce-scatter, one all-gather"
    return "one reduce-scatter of the gradients, one all-gather of the new shares: 2(n-1)/n of N"
