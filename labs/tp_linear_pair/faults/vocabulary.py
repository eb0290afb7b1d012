"""Faults of the loss over a split vocabulary: which of its three sums was left out, and such."""

from __future__ import annotations

from collections.abc import Callable

import torch

from labs.tp_linear_pair.faults import reading
from labs.tp_linear_pair.faults.fingerprints import every, grad, same, values_ok
from labs.tp_linear_pair.trial import Seen


def vocab_parallel_loss(seen: Seen) -> list[str]:
    return _in_groups(seen) if seen.case.groups else _in_the_world(seen)


def _in_groups(seen: Seen) -> list[str]:
    """What was right where the world is the group, and is not here."""
    if seen.ledger.count(section="trial", axis="world", rank=0):
        return ["the argument `group` is not used everywhere: a sum goes over the whole world"]
    return [
        "a rank's columns go by its place in the group, dist.get_rank(group): its rank in the "
        "world is another number"
    ]


def _in_the_world(seen: Seen) -> list[str]:
    case, n = seen.case, seen.case.ranks
    shards = [case.inputs[r]["logits_shard"].detach() for r in range(n)]
    targets = case.inputs[0]["targets"]
    width = shards[0].shape[-1]
    whole = torch.cat(shards, -1)
    largest = whole.amax(-1)
    tame = largest.abs() < 100  # tokens whose logits do not overflow

    def loss(r: int) -> torch.Tensor:
        out = seen.out[r]
        return out[tame] if out.shape == targets.shape else out.new_zeros(0)

    def there(value: torch.Tensor) -> torch.Tensor:
        return value[tame]

    right = whole.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    here = [(targets // width) == r for r in range(n)]
    lse = whole.logsumexp(-1)
    used = [r for r in range(n) if shards[r].isfinite().any()]
    found = []
    summed_max = _max_was_summed(seen)
    if summed_max and not values_ok(seen):
        found.append(
            "the largest logits were added up, so large ones overflow: all_reduce sums unless you "
            "pass op=dist.ReduceOp.MAX"
        )
    elif every(seen, lambda r: same(loss(r), there(case.out[r]))) and not values_ok(seen):
        high = largest > 100
        found.append(
            "logits far below 0 underflow: the max to subtract is the largest logit also where "
            "that is negative, not 0"
            if every(
                seen,
                lambda r: seen.same_shapes and same(seen.out[r][high], case.out[r][high]),
            )
            else "large logits overflow: subtract the max over all ranks before exp"
        )
    own = [shard.amax(-1).clamp_min(-1e30) for shard in shards]
    sums = sum((shards[r] - own[r].unsqueeze(-1)).exp().sum(-1) for r in range(n)).log()
    shifted = sum(((right - own[r]) * here[r]) for r in range(n))
    if every(seen, lambda r: same(loss(r), there(sums - shifted))) or every(
        seen, lambda r: same(loss(r), there(sums + own[r] - right))
    ):
        found.append(
            "each rank subtracts its own max, and the exponentials are summed all the same: the "
            "max must be that of all ranks"
        )
    if every(seen, lambda r: same(loss(r), there(lse - largest - right))):
        found.append(
            "the max is taken off the sum of exponentials and not off the target's logit: subtract "
            "it from both, or add it again at the end"
        )
    found += _taken_wrongly(seen, shards, lse, largest, tame)
    if _of_the_shard(loss, there, shards, right, here):
        found.append(
            "this is the cross-entropy of the holder's shard alone: F.cross_entropy knows this "
            "rank's columns only. The exponentials of all ranks must be summed before the log"
        )
    if not summed_max and any(loss(r).isnan().any() for r in range(n)):
        found.append(
            "nan: 0 · -inf and -inf - -inf are nan, and padding is -inf. Mask with torch.where or "
            "masked_fill, not by multiplying with 0"
        )
    if all(same(loss(r), there(shards[r].logsumexp(-1) - right), 1e-6) for r in used):
        found.append("the sum of exponentials is one rank's: it must be summed over the ranks")
    local = [lse - largest - torch.where(here[r], right - largest, 0.0) for r in range(n)]
    if every(seen, lambda r: same(loss(r), there(local[r]))):
        found.append(
            "the target's logit is known only to the rank that holds its column: the others take "
            "0. Sum it over the ranks"
        )
    if _counted_from(lambda r: (n - 1 - r) * width, seen, shards, lse - largest, largest):
        found.append("columns are counted in the wrong order: rank r holds those from r * V/t on")
    if _counted_from(lambda r: 0, seen, shards, lse - largest, largest):
        found.append(
            "targets count columns of the whole vocabulary: on rank r take r * V/t off, and look "
            "only for those that are left between 0 and V/t"
        )
    if not seen.same_shapes:
        found.append(f"return one loss a token, {tuple(targets.shape)}: no mean, no sum")
    return found + (_gradient(seen) if values_ok(seen) else [])


def _gradient(seen: Seen) -> list[str]:
    """What is wrong with the gradient of a right loss."""
    case, n, name = seen.case, seen.case.ranks, "logits_shard"
    right = [case.grads[r][name] for r in range(n)]
    if all(g[name] is None for g in seen.grads) or every(
        seen, lambda r: same(grad(seen, r, name), right[r])
    ):
        return []
    if every(seen, lambda r: same(grad(seen, r, name), n * right[r])):
        return [
            f"gradients are too large by a factor {n}: the sums are g's, and its backward is the "
            "identity"
        ]
    if every(
        seen,
        lambda r: same(grad(seen, r, name), right[r] / case.cotangent[r].unsqueeze(-1), 1e-6),
    ):
        return ["backward does not use the gradient that comes in: multiply by it, token by token"]
    if _max_in_graph(seen):
        return [
            "the max is left in the graph, and each rank's own largest logit gets a part of its "
            "gradient: detach the max, it needs no gradient (it cancels)"
        ]
    return [
        "the gradient is softmax minus one at the target's column, and only the rank that holds "
        "the target has that column"
    ]


def _counted_from(
    start: Callable[[int], int],
    seen: Seen,
    shards: list[torch.Tensor],
    rest: torch.Tensor,
    largest: torch.Tensor,
) -> bool:
    """Rank r looks for the target as if it held columns from `start(r)` on; rest: lse - largest."""
    targets, width = seen.case.inputs[0]["targets"], shards[0].shape[-1]
    taken = torch.zeros_like(rest)
    for r, shard in enumerate(shards):
        column = targets - start(r)
        here = (column >= 0) & (column < width)
        logit = shard.gather(-1, column.clamp(0, width - 1).unsqueeze(-1)).squeeze(-1)
        taken += torch.where(here, logit - largest, 0.0)
    wrong = rest - taken
    finite = wrong.isfinite() & (largest.abs() < 100)
    return bool(finite.any()) and every(
        seen,
        lambda r: seen.out[r].shape == wrong.shape and same(seen.out[r][finite], wrong[finite]),
    )


def _max_was_summed(seen: Seen) -> bool:
    """Three sums were sent, there is a max, and nobody says MAX."""
    return (
        seen.sent("all_reduce", "forward") >= 3
        and reading.says(seen.function, "max(")
        and not reading.says(seen.function, "ReduceOp.MAX")
    )


def _taken_wrongly(
    seen: Seen,
    shards: list[torch.Tensor],
    lse: torch.Tensor,
    largest: torch.Tensor,
    tame: torch.Tensor,
) -> list[str]:
    """Ranks that do not hold the target add a logit all the same: all of them, or at an edge."""
    targets, width = seen.case.inputs[0]["targets"], shards[0].shape[-1]
    column = [targets - r * width for r in range(len(shards))]
    clamped = [
        shard.gather(-1, at.clamp(0, width - 1).unsqueeze(-1)).squeeze(-1)
        for shard, at in zip(shards, column, strict=True)
    ]

    def are(counts: Callable[[torch.Tensor], torch.Tensor]) -> bool:
        """Whether the target's logit is the sum over the ranks where `counts` holds."""
        for rest, shift in ((lse - largest, largest), (lse, 0.0)):
            taken = sum(
                torch.where(counts(at), logit - shift, 0.0)
                for at, logit in zip(column, clamped, strict=True)
            )
            wrong = (rest - taken)[tame]
            if every(
                seen,
                lambda r, wrong=wrong: (
                    seen.out[r].shape == tame.shape and same(seen.out[r][tame], wrong)
                ),
            ):
                return True
        return False

    if are(lambda at: at > -torch.inf):
        return [
            "every rank adds a logit, also those that do not hold the target: after the clamp they "
            "read another column. A rank that does not hold it contributes 0"
        ]
    for edge in (
        lambda at: (at >= 0) & (at <= width),
        lambda at: (at > 0) & (at < width),
        lambda at: (at > 0) & (at <= width),
    ):
        if are(edge):
            return [
                "a target at the edge of a shard is counted twice or not at all: a rank holds the "
                "columns 0 <= target - rank * V/t < V/t"
            ]
    return []


def _of_the_shard(
    loss: Callable[[int], torch.Tensor],
    there: Callable[[torch.Tensor], torch.Tensor],
    shards: list[torch.Tensor],
    right: torch.Tensor,
    here: list[torch.Tensor],
) -> bool:
    """The loss is the cross-entropy of one shard, on the rank that holds the target or on all."""
    own = [shard.logsumexp(-1) for shard in shards]
    holder = sum(torch.where(here[r], own[r], 0.0) for r in range(len(shards)))
    everywhere = there(holder - right)
    alone = [there(torch.where(here[r], own[r] - right, 0.0)) for r in range(len(shards))]
    return any(
        all(same(loss(r), wrong[r]) for r in range(len(shards)))
        for wrong in ([everywhere] * len(shards), alone)
    )


def _max_in_graph(seen: Seen) -> bool:
    """The gradient is off where a rank's own largest logit is, by what flows through the max."""
    case, n = seen.case, seen.case.ranks
    shards = [given["logits_shard"].detach() for given in case.inputs]
    width, targets = shards[0].shape[-1], case.inputs[0]["targets"]
    lse = torch.cat(shards, -1).logsumexp(-1)
    used = [r for r in range(n) if shards[r].isfinite().any()]

    def wrong(r: int, holds: torch.Tensor) -> torch.Tensor:
        through = (holds - (shards[r].logsumexp(-1) - lse).exp()) * case.cotangent[r]
        at = torch.nn.functional.one_hot(shards[r].argmax(-1), width)
        return case.grads[r]["logits_shard"] + at * through.unsqueeze(-1)

    here = [((targets // width) == r).double() for r in range(n)]
    if len(used) == n and reading.says(seen.function, "amax("):
        # amax looks for its result among its inputs, and the all-reduce has changed the result
        got = [grad(seen, r, "logits_shard") for r in range(n)]
        if any(g is not None and g.isnan().any() for g in got):
            return True
    return any(
        all(same(grad(seen, r, "logits_shard"), wrong(r, holds[r]), 1e-6) for r in used)
        for holds in (here, [torch.ones_like(one) for one in here])
    )
