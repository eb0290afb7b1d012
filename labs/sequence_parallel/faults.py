"""From what came back to the fault that made it: usual mistakes of sequence_scatter_gather."""

from __future__ import annotations

import contextlib
import re
from itertools import product

import torch

from labs.sequence_parallel.exercise_case import SeenAround, members, region
from labs.tp_linear_pair.faults.fingerprints import (
    common,
    every,
    grad,
    no_gradient,
    same,
    values_ok,
)
from labs.tp_linear_pair.trial import SECTION

WORLD = (
    "the argument `group` is not used: the tokens of the whole world are put together. Hand it to "
    "each collective, and ask it for the number of ranks"
)
_ORDER = (
    "tokens are in the wrong order {where}: a collective lays the ranks' pieces one behind the "
    "other along the FIRST dimension. Move T there (transpose(0, 1)), make it contiguous, and move "
    "it back afterwards"
)


def diagnose(seen: SeenAround) -> list[str]:
    """Hints for what came back, the most telling first; empty when nothing is recognised."""
    found: list[str] = []
    for look in (_group, _shapes, _calls, _values, _gradients, _traffic, _plain):
        with contextlib.suppress(Exception):  # an output that was not reckoned with
            found += look(seen)
    return list(dict.fromkeys(found))


_MIRROR = (
    "each backward pass is the other's forward pass: that of the gather takes the gradient of all "
    "tokens to this rank's (B, T/t, d), that of the scatter takes this rank's to all (B, T, d)"
)
_BROKEN = (
    (r"created in no_grad mode|in-?place operation",
     "autograd does not follow a collective, which writes into its output: each one stands in the "
     "forward or the backward of a torch.autograd.Function"),
    (r"is not part of group",
     "a rank has one number in the world and another in the group: the place of its tokens is "
     "dist.get_rank(group). torch.distributed.nn takes the one for the other; write a "
     "torch.autograd.Function"),
    (r"returned an invalid gradient", _MIRROR),
    (r"must be (equal|the same size)|times world.?size|worldSize == ",
     "the sizes do not fit: all-gather makes t times as much of its input, reduce-scatter a t-th; "
     "allocate the output accordingly, with t = dist.get_world_size(group)"),
)  # fmt: skip


def failed(failure: str, called: list[tuple[int, ...]], want: tuple[int, ...]) -> str:
    """A hint for a run that broke off; empty where none is known.

    failure: its text. called: the shapes that the region was called with; want: what they should be
    """
    wrong = [shape for shape in called if tuple(shape) != want]
    if wrong:
        return _shape(wrong[0], want)
    hint = next((told for pattern, told in _BROKEN if re.search(pattern, failure)), "")
    in_backward = re.search(r", in backward\n", failure) and "incorrect number" not in failure
    return hint or (_MIRROR if in_backward else "")


def _group(seen: SeenAround) -> list[str]:
    stray = seen.ledger.count(section=SECTION, axis="world", rank=0)
    return [WORLD] if seen.case.groups and stray else []


def _want(seen: SeenAround) -> tuple[int, ...]:
    batch, tokens, d = seen.case.out[0].shape
    return (batch, tokens * len(members(seen.case)[0]), d)


def _shapes(seen: SeenAround) -> list[str]:
    got = next((shape for called in seen.regions for shape in called), None)
    return [] if got in (None, _want(seen)) else [_shape(got, _want(seen))]


def _shape(got: tuple[int, ...], want: tuple[int, ...]) -> str:
    """What the shape that the region got says."""
    told = f"the region got {tuple(got)}, and all tokens are (B, T, d) = {tuple(want)}: "
    if len(got) != 3:
        return told + "it takes three dimensions"
    times = want[1] // max(1, got[1])
    if got[1] > want[1]:
        return told + WORLD
    if got[0] > want[0]:
        return told + f"{times} shards are put together along the batch, not along T"
    if got[2] > want[2]:
        return told + f"{times} shards are put together along the hidden dimension, not along T"
    return told + "the tokens of the other ranks are missing"


def _calls(seen: SeenAround) -> list[str]:
    most = max(len(called) for called in seen.regions)
    if most > 1:
        return [f"the region is called {most} times: it runs once, on all tokens"]
    return [] if most else ["the region is never called"]


def _pieces(seen: SeenAround, group: list[int]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The group's shards (t, B, T/t, d), and its summands of the result for all tokens."""
    shards = torch.stack([seen.case.inputs[rank]["x_shard"].detach() for rank in group])
    whole = torch.cat(list(shards), 1)
    return shards, [_summand(seen, rank, whole) for rank in group]


def _summand(seen: SeenAround, rank: int, whole: torch.Tensor) -> torch.Tensor:
    given = seen.case.inputs[rank]
    return region(whole, given["w_in"].detach(), given["w_out"].detach())


def _gathered(shards: torch.Tensor, how: str) -> torch.Tensor:
    """All tokens (B, T, d) of the shards (t, B, T/t, d): right, or in an order that is not."""
    size, batch, tokens, d = shards.shape
    if how == "flat":  # laid one behind the other, and read as (B, T, d)
        return shards.reshape(batch, size * tokens, d)
    if how == "interleaved":
        return shards.permute(1, 2, 0, 3).reshape(batch, size * tokens, d)
    if how == "reversed":
        return torch.cat(list(shards.flip(0)), 1)
    return torch.cat(list(shards), 1)


def _scattered(y: torch.Tensor, size: int, how: str) -> list[torch.Tensor]:
    """What each of `size` ranks gets of y (B, T, d): right, or in an order that is not."""
    batch, length, d = y.shape
    if how == "flat":
        return [part.view(batch, length // size, d) for part in y.reshape(size, -1)]
    if how == "interleaved":
        return [y[:, rank::size] for rank in range(size)]
    pieces = list(y.chunk(size, 1))
    return pieces[::-1] if how == "reversed" else pieces


_HOW = ("right", "flat", "interleaved", "reversed")


def _values(seen: SeenAround) -> list[str]:
    """Wrong values: not summed, averaged, or tokens in another order."""
    if not seen.same_shapes or values_ok(seen):
        return []
    size = len(members(seen.case)[0])
    if every(seen, lambda r: same(seen.out[r], seen.case.out[r] / size)):
        return [f"the output is off by a factor 1/{size}: the summands are summed, not averaged"]
    ratio = (seen.out[0] * seen.case.out[0]).sum() / seen.case.out[0].square().sum()
    if every(seen, lambda r: same(seen.out[r], ratio * seen.case.out[r])):
        return [f"the output is off by a factor {ratio:.3g} on {size} ranks: a sum has none"]
    alone, orders = True, set(product(_HOW, _HOW)) - {("right", "right")}
    for group in members(seen.case):
        shards, summands = _pieces(seen, group)
        for place, rank in enumerate(group):
            alone &= same(seen.out[rank], summands[place].chunk(size, 1)[place])
        for how in list(orders):
            whole = _gathered(shards, how[0])
            total = torch.stack([_summand(seen, rank, whole) for rank in group]).sum(0)
            got = _scattered(total, size, how[1])
            if not all(same(seen.out[rank], got[i]) for i, rank in enumerate(group)):
                orders.discard(how)
    if alone:
        return ["each rank returns its own summand: the sum over the ranks is missing. A "
                "reduce-scatter makes the sum and leaves each rank its tokens"]  # fmt: skip
    if orders:
        into, out_of = next(iter(sorted(orders)))
        where = "both where they are gathered and where they are scattered"
        if into == "right":
            where = "where they are scattered"
        if out_of == "right":
            where = "where they are gathered"
        return [_ORDER.format(where=where)]
    return []


def _gradients(seen: SeenAround) -> list[str]:
    """Right values, wrong gradients: which of the two backward passes it is."""
    if not values_ok(seen):
        return []
    found, size = [], len(members(seen.case)[0])
    padded, sliced = True, True
    averaged = every(
        seen, lambda r: same(grad(seen, r, "x_shard"), seen.case.grads[r]["x_shard"] / size)
    )
    weights = every(seen, lambda r: same(grad(seen, r, "w_in"), seen.case.grads[r]["w_in"]))
    for group in members(seen.case):
        whole = torch.cat([seen.case.inputs[rank]["x_shard"].detach() for rank in group], 1)
        back = torch.cat([seen.case.cotangent[rank] for rank in group], 1)
        for place, rank in enumerate(group):
            own = torch.zeros_like(back)
            mine = slice(place * back.shape[1] // size, (place + 1) * back.shape[1] // size)
            own[:, mine] = back[:, mine]
            padded &= same(grad(seen, rank, "w_in"), _derived(seen, rank, whole, own)[1])
            of_all = _derived(seen, rank, whole, back)[0]
            sliced &= same(grad(seen, rank, "x_shard"), of_all[:, mine])
    if padded or not weights and not seen.sent("all_gather", "backward"):
        found.append(
            "the backward pass of the scatter does not gather: a rank's summand went into the "
            "tokens of every rank, so it needs the gradients of all of them"
        )
    if sliced:
        found.append(
            "the backward pass of the gather only slices: each rank's region used these tokens, so "
            "their gradients are summed over the ranks. Its mirror image is a reduce-scatter"
        )
    if averaged:
        found.append(f"gradients are off by a factor 1/{size}: they are summed, not averaged")
    if every(seen, lambda r: same(grad(seen, r, "w_in"), size * seen.case.grads[r]["w_in"])):
        found.append(
            f"gradients are too large by a factor {size}: the scatter's backward pass gathers; "
            "it does not sum"
        )
    right = every(seen, lambda r: same(grad(seen, r, "x_shard"), seen.case.grads[r]["x_shard"]))
    if not found and weights and not right and not no_gradient(seen, "x_shard"):
        found.append(
            "the weights' gradients are right, that of x_shard is not: look at the backward pass "
            "of the gather, and at the order in which it takes the tokens"
        )
    if no_gradient(seen, "w_in"):
        found = [
            "the region's weights get no gradient: it was called where autograd looks away, inside "
            "the forward of a torch.autograd.Function, say. Two Functions, and the region between"
        ]
    return found + no_gradient(seen, "x_shard")


def _derived(
    seen: SeenAround, rank: int, whole: torch.Tensor, back: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of all tokens and of w_in through one rank's region."""
    given = seen.case.inputs[rank]
    x, w_in = whole.clone().requires_grad_(), given["w_in"].detach().clone().requires_grad_()
    region(x, w_in, given["w_out"].detach()).backward(back)
    return x.grad, w_in.grad


def _traffic(seen: SeenAround) -> list[str]:
    """Right values by calls that send more than is needed."""
    found = []
    for phase in ("forward", "backward"):
        if seen.sent("all_reduce", phase):
            found.append(
                f"traffic: an all-reduce {phase}, of which a slice is kept, makes every rank hold "
                "the whole sum and sends twice what a reduce-scatter does"
            )
    lists = [op for op in ("broadcast", "gather", "scatter", "reduce", "all_to_all")
             if seen.sent(op)]  # fmt: skip
    if lists:
        found.append(f"traffic: {lists[0]}; one all-gather and one reduce-scatter each way do it")
    for op in ("all_gather", "reduce_scatter"):
        if seen.sent(op) > 2:
            found.append(f"traffic: {seen.sent(op)} calls of {op}, and one each way does it")
    return found


def _plain(seen: SeenAround) -> list[str]:
    """What any answer can have, but for its word on gathers: here they are wanted."""
    return [text for text in common(seen) if "gathers what should stay" not in text]
