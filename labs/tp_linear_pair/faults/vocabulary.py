"""Faults of the loss over a split vocabulary: which of its three sums was left out, and such."""

from __future__ import annotations

from collections.abc import Callable

import torch

from labs.tp_linear_pair.faults.fingerprints import every, grad, same, values_ok
from labs.tp_linear_pair.trial import Seen


def vocab_parallel_loss(seen: Seen) -> list[str]:
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
    if every(seen, lambda r: same(loss(r), there(case.out[r]))) and not values_ok(seen):
        found.append("large logits overflow: subtract the max over all ranks before exp")
    own = [shard.amax(-1).clamp_min(-1e30) for shard in shards]
    sums = sum((shards[r] - own[r].unsqueeze(-1)).exp().sum(-1) for r in range(n)).log()
    shifted = sum(((right - own[r]) * here[r]) for r in range(n))
    if every(seen, lambda r: same(loss(r), there(sums - shifted))):
        found.append(
            "each rank subtracts its own max, and the exponentials are summed all the same: the "
            "max must be that of all ranks"
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
