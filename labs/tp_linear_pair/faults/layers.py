"""Faults of f, g, the column- and the row-parallel layer, and the cut of a fused matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from labs.tp_linear_pair.faults import reading
from labs.tp_linear_pair.faults.fingerprints import (
    bias_gradient,
    every,
    grad,
    no_gradient,
    same,
    shuffled,
    values_ok,
)
from labs.tp_linear_pair.trial import Seen


def copy_to_ranks(seen: Seen) -> list[str]:
    case, found = seen.case, []
    if seen.sent(phase="forward"):
        found.append("f must not communicate in the forward pass: x is there already on every rank")
    if every(seen, lambda r: same(grad(seen, r, "x"), case.cotangent[r])):
        found.append(
            "backward makes an all-reduce and returns the gradient from before it: the sum is lost"
            if seen.sent("all_reduce", "backward")
            else "the backward pass has no all-reduce: each rank leaves with the gradient of its "
            "own part of the work, not with the sum over the ranks"
        )
    n = len(case.groups["group"][0]) if case.groups else case.ranks
    if every(seen, lambda r: same(grad(seen, r, "x"), case.grads[r]["x"] + n - 1)):
        found.append(
            "a hook on x sees the gradient of everything that x is used for, here of something "
            "besides this layer: hand on a new tensor, with a backward of its own"
        )
    if every(seen, lambda r: same(grad(seen, r, "x"), case.grads[r]["x"] / n)):
        found.append(f"gradients are off by a factor 1/{n}: f sums them, it does not average")
    if case.groups and seen.ledger.count(section="trial", axis="world", rank=0):
        found.append("the argument `group` is not used: the sum goes over the whole world")
    return found


def reduce_from_ranks(seen: Seen) -> list[str]:
    case, found = seen.case, []
    n = len(case.groups["group"][0]) if case.groups else case.ranks
    if every(seen, lambda r: same(grad(seen, r, "x"), n * case.grads[r]["x"])):
        found.append(
            f"gradients are too large by a factor {n}: g's backward is the identity. All ranks "
            "compute the same loss; summing its gradient counts it once for each of them"
        )
    if every(seen, lambda r: same(grad(seen, r, "x"), case.grads[r]["x"] / n)):
        found.append(
            f"gradients are off by a factor 1/{n}: each summand enters the sum with factor 1, so "
            "g's backward is the identity"
        )
    if every(seen, lambda r: same(seen.out[r], case.inputs[r]["x"])):
        found.append("there is no all-reduce forward: each rank returns its own summand")
    if every(seen, lambda r: same(seen.out[r], case.out[r] / n)):
        found.append(f"the output is off by a factor 1/{n}: g sums, it does not average")
    if seen.sent("reduce"):
        found.append("reduce leaves the sum on one rank; every rank goes on with it: all-reduce")
    if case.groups and seen.ledger.count(section="trial", axis="world", rank=0):
        found.append("the argument `group` is not used: the sum goes over the whole world")
    return found


def column_parallel(seen: Seen) -> list[str]:
    case, found = seen.case, []
    parts = [case.cotangent[r] @ case.inputs[r]["w_shard"].detach().T for r in range(case.ranks)]
    if every(seen, lambda r: same(grad(seen, r, "x"), parts[r])):
        found.append(
            "dX is one rank's part, although copy_to_ranks (f) is called: yours does not sum the "
            "gradients (check(copy_to_ranks) tells), or it does not stand before x"
            if reading.uses(seen.function, "copy_to_ranks")
            else "dX is one rank's part: copy_to_ranks (f) is missing at the entry, so nobody sums "
            "the gradients of x"
        )
    bias = [case.inputs[r]["b_shard"].detach() for r in range(case.ranks)]
    if every(seen, lambda r: same(seen.out[r], case.out[r] - bias[r])):
        found.append("the bias is not added")
    summed = torch.stack([case.grads[r]["w_shard"] for r in range(case.ranks)]).sum(0)
    if every(seen, lambda r: same(grad(seen, r, "w_shard"), summed)):
        found.append(
            "the gradient of w_shard is summed over the ranks, which hold other columns: f belongs "
            "to x alone, before the product"
        )
    found += shuffled(seen)
    found += no_gradient(seen, "w_shard")
    if seen.sent(phase="forward"):
        found.append("a column-parallel layer sends nothing forward")
    return found


def row_parallel(seen: Seen) -> list[str]:
    case, n = seen.case, seen.case.ranks
    inputs = [{k: v.detach() for k, v in case.inputs[r].items()} for r in range(n)]
    bias = inputs[0]["bias"]
    parts = [i["x_shard"] @ i["w_shard"] for i in inputs]
    found = []
    if every(seen, lambda r: same(seen.out[r], case.out[r] + (n - 1) * bias)):
        found.append(
            f"the bias is in the sum {n} times: add the bias once, after the all-reduce, not on "
            "every rank before it"
        )
    if every(seen, lambda r: same(seen.out[r], case.out[r] - bias)):
        found.append("the bias is not added")
    if every(seen, lambda r: same(seen.out[r], parts[r] + bias)):
        found.append(
            "each rank returns its own partial sum, although reduce_from_ranks (g) is called: its "
            "result is not used, or yours makes no all-reduce (check(reduce_from_ranks) tells)"
            if reading.uses(seen.function, "reduce_from_ranks")
            else "there is no all-reduce: each rank returns its own partial sum"
        )
    if seen.same_shapes and every(
        seen, lambda r: same(seen.out[r] - bias, (case.out[r] - bias) / n)
    ):
        found.append(f"the partial products are averaged, a factor 1/{n}: they are to be summed")
    if values_ok(seen):
        found += bias_gradient(seen, "bias")
        if every(seen, lambda r: same(grad(seen, r, "x_shard"), n * case.grads[r]["x_shard"])):
            found.append(
                f"gradients are too large by a factor {n}: an all-reduce stands in g's backward, "
                "where the identity belongs, or an f behind it"
            )
        if every(seen, lambda r: same(grad(seen, r, "x_shard"), case.grads[r]["x_shard"] / n)):
            found.append(f"gradients are off by a factor 1/{n}: something is averaged, not summed")
        if seen.sent(phase="backward"):
            found.append(
                "a row-parallel layer sends nothing backward: every rank knows all of z's gradient"
            )
    summed = torch.stack([case.grads[r]["x_shard"] for r in range(n)]).sum(0)
    if every(seen, lambda r: same(grad(seen, r, "x_shard"), summed)):
        found.append(
            "the gradient of x_shard is summed over the ranks, which hold other columns: x_shard "
            "is not replicated, so no f stands before it"
        )
    return found + no_gradient(seen, "w_shard")


def cut_fused(seen: Seen) -> list[str]:
    case = seen.case
    w, widths = case.inputs[0]["w"].detach(), case.inputs[0]["widths"]
    n, asked = case.inputs[0]["ranks"], [given["rank"] for given in case.inputs]
    parts = w.split(widths, -1)

    def are(shard: Callable[[int], torch.Tensor]) -> bool:
        """Whether each rank returned `shard` of the number that it was asked for."""
        return every(seen, lambda r: same(seen.out[r], shard(asked[r])))

    def of_each(pieces: Iterable[torch.Tensor], ranks: int, rank: int) -> torch.Tensor:
        return torch.cat([piece.tensor_split(ranks, -1)[rank] for piece in pieces], -1)

    if are(lambda rank: w.chunk(n, -1)[rank]):
        return [
            f"the matrix is cut into {n} equal runs of columns: rank 0 gets most of the first part "
            "and nothing of the last. Cut each part of [gate | up] or [Q | K | V] by itself"
        ]
    thirds = w.tensor_split(len(widths), -1)
    if len(set(widths)) > 1 and are(lambda rank: of_each(thirds, n, rank)):
        return [f"the parts are taken to be equally wide; their widths are {widths}"]
    if are(lambda rank: torch.cat([part[..., rank::n] for part in parts], -1)):
        return [
            f"a rank gets columns that are {n} apart (rank::ranks takes strides): its share of a "
            "part is a run of neighbours, so that a head stays whole"
        ]
    if w.dim() > 1 and are(lambda rank: w.tensor_split(n)[rank]):
        return ["the matrix is cut by rows: its columns are the outputs, and those are shared out"]
    if w.dim() > 1 and are(
        lambda rank: torch.cat([part.tensor_split(n, -1)[rank] for part in parts])
    ):
        return ["the shares are put below each other: torch.cat needs dim=-1"]
    found = _arguments_unused(seen, of_each, parts) or shuffled(seen)
    for given, made in zip(case.refused, seen.refusals, strict=True):
        if made.startswith("ValueError"):
            continue
        odd = given["widths"]
        found.append(
            f"parts of {odd} columns cannot be shared by {n} ranks, although {sum(odd)} divides: "
            "each width must divide by itself; else raise ValueError with the numbers"
        )
        break
    return found


def _arguments_unused(
    seen: Seen,
    share: Callable[[Iterable[torch.Tensor], int, int], torch.Tensor],
    parts: Iterable[torch.Tensor],
) -> list[str]:
    """cut_fused asks torch.distributed for the rank, or for the number of ranks."""
    world, n = seen.case.ranks, seen.case.inputs[0]["ranks"]
    asked = [given["rank"] for given in seen.case.inputs]
    why = "Who cuts a matrix need not be who holds the shard"
    if asked == list(range(world)):
        return []
    if every(seen, lambda r: same(seen.out[r], share(parts, n, r))):
        return [
            f"the argument `rank` is not used: rank 0 was asked for shard {asked[0]} of {n}, and "
            f"cut the one of its own number. {why}"
        ]
    if every(seen, lambda r: same(seen.out[r], share(parts, world, r))):
        return [f"neither `rank` nor `ranks` is used, but what torch.distributed says. {why}"]
    if every(seen, lambda r: same(seen.out[r], share(parts, world, asked[r] % world))):
        return [
            f"the argument `ranks` is not used: {n} shards were asked for, and there are {world} "
            f"ranks here. {why}"
        ]
    return []
