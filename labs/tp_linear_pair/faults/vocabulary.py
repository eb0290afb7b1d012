"""Faults of the loss over a split vocabulary: which of its three sums was left out, and such."""

from __future__ import annotations

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
    if _from_wrong_end(seen, shards, lse, largest):
        found.append("columns are counted in the wrong order: rank r holds those from r * V/t on")
    if (
        values_ok(seen)
        and not every(
            seen, lambda r: same(grad(seen, r, "logits_shard"), case.grads[r]["logits_shard"])
        )
        and any(g["logits_shard"] is not None for g in seen.grads)
    ):
        found.append(
            "the gradient is softmax minus one at the target's column, and only the rank that "
            "holds the target has that column"
        )
    return found


def _from_wrong_end(
    seen: Seen, shards: list[torch.Tensor], lse: torch.Tensor, largest: torch.Tensor
) -> bool:
    """Rank r looks for the target among the columns of rank t-1-r."""
    case, n = seen.case, seen.case.ranks
    targets = case.inputs[0]["targets"]
    width = shards[0].shape[-1]
    taken = torch.zeros_like(lse)
    for r in range(n):
        column = targets - (n - 1 - r) * width
        here = (column >= 0) & (column < width)
        logit = shards[r].gather(-1, column.clamp(0, width - 1).unsqueeze(-1)).squeeze(-1)
        taken += torch.where(here, logit - largest, 0.0)
    wrong = lse - largest - taken
    finite = wrong.isfinite() & (largest.abs() < 100)
    return bool(finite.any()) and every(
        seen,
        lambda r: seen.out[r].shape == wrong.shape and same(seen.out[r][finite], wrong[finite]),
    )
