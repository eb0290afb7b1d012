"""What is judged of one trial: values, gradients, traffic, the largest tensor, refusals.

Each function makes a verdict from what came back. None raises, whatever an answer returned.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from labs.equality import EPS, Gap, gap, gap_by_place
from labs.exercise import FAILED, NOT_REACHED, PASSED, Verdict
from labs.tp_linear_pair.trial import Seen

VALUES, GRADIENTS, TRAFFIC = "forward values", "gradients", "traffic"
MEMORY, REFUSAL = "largest tensor", "refuses what cannot be shared"
_EPS = EPS[torch.float64]
_Worst = tuple[Gap, torch.Tensor, torch.Tensor]


def values(seen: Seen) -> Verdict:
    """The output of every rank, place by place."""
    worst = None
    for rank, (got, want) in enumerate(zip(seen.out, seen.case.out, strict=True)):
        name = f"rank {rank}"
        if seen.odd[rank]:
            return Verdict(VALUES, FAILED, f"{name} of {seen.case.ranks}: {seen.odd[rank]}")
        if got.shape != want.shape:
            return Verdict(
                VALUES, FAILED,
                f"{name} of {seen.case.ranks}: shape {tuple(got.shape)}, expected "
                f"{tuple(want.shape)}",
            )  # fmt: skip
        scale = seen.case.place_scale
        found = (
            gap(name, got, want, 0.0, _EPS)
            if scale is None
            else gap_by_place(name, got, want, scale, _EPS)
        )
        worst = _worse(worst, (found, got, want))
    changed = sorted({name for names in seen.changed for name in names})
    if changed and worst[0].ok:
        told = f"{seen.case.label}\nright, but {' and '.join(changed)} was changed in place"
        return Verdict(VALUES, FAILED, told)
    return _verdict(VALUES, *worst, seen.case.label)


def gradients(seen: Seen) -> Verdict:
    """The gradient of every input, against the largest gradient of the case."""
    if not seen.same_shapes:  # there was nothing to go backward from
        return Verdict(GRADIENTS, NOT_REACHED)
    scale = max(g.abs().max().item() for grads in seen.case.grads for g in grads.values())
    worst = None
    for rank, grads in enumerate(seen.case.grads):
        for name, want in grads.items():
            got = seen.grads[rank].get(name)
            if got is None:
                return Verdict(
                    GRADIENTS, FAILED, f"rank {rank} of {seen.case.ranks}: {name} got no gradient"
                )
            if got.shape != want.shape:  # the input itself was given another shape
                return Verdict(
                    GRADIENTS, FAILED,
                    f"rank {rank} of {seen.case.ranks}: the gradient of {name} has shape "
                    f"{tuple(got.shape)}, expected {tuple(want.shape)}",
                )  # fmt: skip
            found = gap(f"{name} on rank {rank}", got, want, scale, _EPS)
            worst = _worse(worst, (found, got, want))
    return _verdict(GRADIENTS, *worst, seen.case.label)


def _worse(one: _Worst | None, other: _Worst) -> _Worst:
    """The one that is farther beyond its bound. Not a number is beyond every bound."""
    if one is None:
        return other
    kept = other[0].difference * one[0].bound <= one[0].difference * other[0].bound
    return one if kept or not one[0].difference <= torch.inf else other


def _verdict(name: str, found: Gap, got: torch.Tensor, want: torch.Tensor, label: str) -> Verdict:
    told = f"largest difference {found.difference:.1e}, bound {found.bound:.1e}"
    if found.ok:
        return Verdict(name, PASSED, told)
    at = found.place
    return Verdict(
        name, FAILED,
        f"{label}\n{found.name}: got {got.flatten()[at]:.6g}, expected {want.flatten()[at]:.6g}; "
        f"{told}",
    )  # fmt: skip


def traffic(seen: Seen) -> Verdict:
    """Exactly the calls that the algorithm needs, on every rank, and no other."""
    wanted, told = seen.case.traffic, []
    for rank in range(seen.case.ranks):
        left, told = seen.calls(rank), []
        for want in wanted:
            match = [call for call in left if want.allows(call)]
            if not match:
                return _traffic_failed(seen, rank)
            left.remove(match[0])
            told.append(match[0] if want.at_most else want)
        if left:
            return _traffic_failed(seen, rank)
    return Verdict(TRAFFIC, PASSED, "; ".join(map(str, told)) or "nothing sent")


def _traffic_failed(seen: Seen, rank: int) -> Verdict:
    got = "; ".join(map(str, seen.calls(rank))) or "nothing"
    want = "; ".join(map(str, seen.case.traffic)) or "nothing"
    return Verdict(
        TRAFFIC, FAILED, f"{seen.case.label}\nrank {rank} sent {got}\nexpected {want}"
    )  # fmt: skip


def memory(seen: Seen) -> Verdict:
    """No allocation of the size of (B, T, V), in whatever type."""
    case = seen.case
    limit, got = case.largest_bytes, max(seen.largest_bytes)
    if min(seen.largest_bytes) < case.least_bytes:
        told = (
            f"the largest allocation that was seen has {min(seen.largest_bytes):,} bytes, and the "
            f"gradient of logits_shard alone has {case.least_bytes:,}: they were not all traced"
        )
        return Verdict(MEMORY, FAILED if seen.same_shapes else NOT_REACHED, told)
    told = f"{got:,} bytes, (B, T, V) has {limit:,}"
    if got >= limit:
        return Verdict(MEMORY, FAILED, told)
    held = {size for sizes in seen.sizes for size in sizes} & set(case.never_bytes)
    if held:
        told = f"a tensor of {max(held):,} bytes: that is (B, T, V) in a smaller type"
        return Verdict(MEMORY, FAILED, f"{case.label}\n{told}")
    return Verdict(MEMORY, PASSED, told)


def refusal(seen: Seen) -> Verdict:
    """Each of the inputs that cannot be shared out raises ValueError."""
    told = ""
    for given, made in zip(seen.case.refused, seen.refusals, strict=True):
        asked = ", ".join(f"{k} = {v}" for k, v in given.items() if k != "w")
        if not made.startswith("ValueError"):
            return Verdict(REFUSAL, FAILED, f"{asked}: expected ValueError, got: {made}")
        told = told or asked
    return Verdict(REFUSAL, PASSED, told)


PROPERTIES: dict[str, Callable[[Seen], Verdict]] = {
    VALUES: values, GRADIENTS: gradients, TRAFFIC: traffic, MEMORY: memory, REFUSAL: refusal,
}  # fmt: skip
