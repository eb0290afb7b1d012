"""Comparisons from which every diagnosis is made."""

from __future__ import annotations

from collections.abc import Callable

import torch

from labs.tp_linear_pair.trial import Seen


def same(one: torch.Tensor | None, other: torch.Tensor, eps: float = 1e-9) -> bool:
    """Equal but for rounding."""
    if one is None or one.shape != other.shape:
        return False
    gap = (one - other).abs().max().item()
    return gap <= eps * max(1.0, other.abs().max().item())


def every(seen: Seen, test: Callable[[int], bool]) -> bool:
    return all(test(rank) for rank in range(seen.case.ranks))


def values_ok(seen: Seen) -> bool:
    return every(seen, lambda r: same(seen.out[r], seen.case.out[r]))


def grad(seen: Seen, rank: int, name: str) -> torch.Tensor | None:
    return seen.grads[rank].get(name)


def common(seen: Seen) -> list[str]:
    """Mistakes that any of the exercises can have."""
    found = []
    changed = sorted({name for names in seen.changed for name in names})
    if changed:
        found.append(
            f"{' and '.join(changed)} was changed in place: work on a copy of what still belongs "
            "to somebody else (all_reduce works in place)"
        )
    if odd := next(filter(None, seen.odd), ""):
        found.append(f"{odd}: keep the type, layout and device that came in")
    if seen.same_shapes and all(g is None for grads in seen.grads for g in grads.values()):
        found.append(
            "nothing flows back: the result has left the graph. Autograd does not see through "
            "dist.all_reduce; write a torch.autograd.Function"
            if seen.sent()
            else "nothing flows back: the result has left the graph, by detach() or .data, say"
        )
    gathers = [op for op in ("all_gather", "all_to_all", "gather") if seen.sent(op)]
    if gathers:
        found.append(
            f"traffic: {gathers[0]} gathers what should stay on its rank. Work on the shards and "
            "send results only"
        )
    return found


def bias_gradient(seen: Seen, name: str) -> list[str]:
    case, n = seen.case, seen.case.ranks
    right = case.grads[0][name]
    if every(seen, lambda r: same(grad(seen, r, name), right / n)):
        return [
            f"the bias gradient is {n} times too small: bias/{n} on each rank gives the right sum "
            "and the wrong gradient. Add the whole bias once, after the all-reduce"
        ]
    if every(seen, lambda r: same(grad(seen, r, name), n * right)):
        return [
            f"the bias gradient is {n} times too large: every rank sees the gradient of z whole, "
            "so nothing is to be summed"
        ]
    got = [grad(seen, r, name) for r in range(n)]
    if same(got[0], right) and all(g is None or not g.any() for g in got[1:]):
        return [
            "the bias gradient is there on rank 0 only: every rank holds this bias and must update "
            "it alike"
        ]
    return []


def shuffled(seen: Seen) -> list[str]:
    """Every rank returns the right shard of another rank."""
    case, n = seen.case, seen.case.ranks
    at = [next((s for s in range(n) if same(seen.out[r], case.out[s])), None) for r in range(n)]
    if None not in at and at != list(range(n)):
        return [f"right shards in the wrong order: rank 0 returns those of rank {at[0]}"]
    return []


def no_gradient(seen: Seen, name: str) -> list[str]:
    """An input that nothing flows back to, while something flows back to another."""
    grads = [grad(seen, r, name) for r in range(seen.case.ranks)]
    if any(g is not None for grads in seen.grads for g in grads.values()) and all(
        g is None or not g.any() for g in grads
    ):
        if values_ok(seen):
            return [f"{name} gets no gradient: on the way the result has left the graph"]
        return [f"{name} gets no gradient: the weights that were handed in are not used"]
    return []
