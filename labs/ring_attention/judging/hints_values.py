"""From a wrong out, lse, dq, dk or dv to what probably lies behind it.

Each slip is worked out from the parts of single blocks and compared with what came back.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from labs.ring_attention.judging import calls as judge_calls
from labs.ring_attention.judging.messages import ARRIVING
from labs.ring_attention.judging.trial_reference import Part, Reference


def of_kind(name: str, odd: str) -> str:
    """A tensor of the wrong shape or type."""
    if odd.startswith("shape") and name in ("dk", "dv"):
        return f"{name} has the shape of {name[1]}: summed over the query heads of each KV head"
    if odd.startswith("shape"):
        return "out has the shape of q, lse that of q without its last dimension"
    return "sums are in fp32 or better until the end; what is returned has the type that came in"


def of_value(
    name: str, reference: Reference, member: int, told: dict, wrong: judge_calls.Fault | None
) -> str:
    """What `name` on one rank of a ring is instead, and why. wrong: with the calls of attend."""
    got = told[name].double()
    job = reference.job
    if wrong:
        return wrong.hint
    if any("arriving in" in fault for fault in told["faults"]):
        return ARRIVING
    if got.isnan().any() or got.isinf().any() and name != "lse":
        if job.size > 1:
            return (
                "large scores overflow: subtract the larger of both lse before exp, as "
                "merge_partials does"
            )
        return (
            "-inf - -inf is not a number, nor is 0/0: a query that has seen no key yet has lse "
            "-inf; its out is 0, and so are its gradients"
        )
    if job.plain:
        return (
            "right on small blocks, and not on large ones: a buffer was written to while it was "
            "still being sent, or read before its wait"
        )
    slips = _forward(name, reference, member, told["calls"]) if name in ("out", "lse") else (
        _backward(name, reference, member, told["calls"])
    )  # fmt: skip
    for slip, why in slips:
        if _same(got, slip):
            return why
    return _ratio(name, got, reference, member)


def _same(got: torch.Tensor, slip: torch.Tensor) -> bool:
    if got.shape != slip.shape:
        return False
    apart = (got - slip).abs().masked_fill(got == slip, 0.0)
    return bool((apart <= 1e-2 * slip.abs().clamp(min=1e-6)).all()) and apart.max() < 1e-2


def _order(reference: Reference, member: int, calls: list[dict]) -> list[int]:
    """The ranks whose blocks were attended to, in this order."""
    found = [judge_calls.sources(reference, call) for call in calls]
    return list(dict.fromkeys(s for one in found for s in sorted(one)))


def _parts(reference: Reference, member: int, calls: list[dict]) -> list[Part]:
    return [reference.part(member, s) for s in _order(reference, member, calls)]


def _forward(
    name: str, reference: Reference, member: int, calls: list[dict]
) -> Iterator[tuple[torch.Tensor, str]]:
    parts = _parts(reference, member, calls)
    if len(parts) < 2:
        return
    outs, lses = (torch.stack([getattr(part, n) for part in parts]) for n in ("out", "lse"))
    if name == "out":
        yield (
            outs.mean(0),
            "a plain average: a block counts by the sum of its exponentials, exp(lse)",
        )
        yield (
            outs.sum(0),
            "the blocks' outs are added up: each is to be weighted by exp(lse - "
            "largest), over the sum of the weights",
        )
        yield outs[-1], "that of the last block: merge it with what came before"
        yield outs[0], "that of the first block: merge those that arrive into it"
        for weight, why in _merges():
            yield _folded(outs, lses, weight), why
        return
    yield lses[-1], "that of the last block: lse is over all keys, log(exp(lse_a) + exp(lse_b))"
    yield lses[0], "that of the first block: lse is over all keys, log(exp(lse_a) + exp(lse_b))"
    yield lses.sum(0), "the blocks' lse are added: add the exponentials, then take the log"
    yield lses.amax(0), "the largest of the blocks' lse: add the log of the summed weights"
    yield lses.mean(0), "the mean of the blocks' lse: add the exponentials, then take the log"
    yield lses.logsumexp(0).exp(), "the sum of the exponentials without its log"
    yield (lses - lses.amax(0)).exp().sum(0).log(), "the largest lse is not added again at the end"


def _merges() -> Iterator[tuple[object, str]]:
    def swapped(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (b - torch.logaddexp(a, b)).exp()

    def averaged(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.full_like(a, 0.5)

    def by_lse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a / (a + b)

    yield swapped, "the weights are swapped: out_a is weighted by exp(lse_a)"
    yield averaged, "a plain average: a block counts by the sum of its exponentials, exp(lse)"
    yield by_lse, "weighted by lse itself: the weight is exp(lse)"


def _folded(outs: torch.Tensor, lses: torch.Tensor, weight: object) -> torch.Tensor:
    out, lse = outs[0], lses[0]
    for more, more_lse in zip(outs[1:], lses[1:], strict=True):
        a = weight(lse, more_lse).nan_to_num().unsqueeze(-1)
        out, lse = a * out + (1 - a) * more, torch.logaddexp(lse, more_lse)
    return out


def _backward(
    name: str, reference: Reference, member: int, calls: list[dict]
) -> Iterator[tuple[torch.Tensor, str]]:
    c = reference.job.ranks
    parts = _parts(reference, member, calls)
    if name == "dq":
        if len(parts) > 1:
            yield parts[-1].dq, "it is what the last block adds: add up over all blocks"
            yield parts[0].dq, "it is what the first block adds: add up over all blocks"
        yield (
            sum(reference.expected(m, name) for m in range(c)),
            "summed over the ranks: each rank's queries are its own",
        )
        return
    own = getattr(reference.part(member, member), name)
    yield (
        own,
        "it holds only what this rank's own queries add: the sums travel with their "
        "block, and every rank adds to them",
    )
    if len(parts) > 1:
        added = sum(getattr(part, name) for part in parts)
        yield (
            added,
            "it was not sent: what this rank's queries add to other ranks' keys was "
            "added up here. The sums travel with their block, and home at the end",
        )
    for hops in range(1, c):
        yield (
            reference.expected((member + hops) % c, name),
            f"it is that of rank {(member + hops) % c}'s keys, not sent home: the sums are {hops} "
            f"hop{'s' * (hops > 1)} off. After c hops in all they are where their keys are",
        )
    other = {"dk": "dv", "dv": "dk"}[name]
    yield reference.expected(member, other), f"it is that of {other}: dq, dk, dv in this order"
    last = getattr(reference.part((member - 1) % c, member), name)
    yield last, "it is what one other rank adds: add to the sum that arrives, do not replace it"
    yield (
        reference.expected(member, name) - own,
        "what this rank's own queries add is missing",
    )
    yield (
        sum(reference.expected(m, name) for m in range(c)),
        "summed over the ranks: each rank's keys are its own",
    )


def _ratio(name: str, got: torch.Tensor, reference: Reference, member: int) -> str:
    """Whether it is the right tensor times a number, and where that number comes from."""
    want, job = reference.expected(member, name), reference.job
    c, root = job.ranks, job.width**0.5
    if got.shape != want.shape or not want.isfinite().all() or not want.any():
        return ""
    ratio = (got * want).sum() / (want * want).sum()
    if abs(ratio - 1) < 5e-3 and (got - want).abs().max() < 2e-2 * want.abs().max():
        return (
            "nearly right: rounded on the way. Merge and add up in the type of what the block's "
            "attention returned, fp32 or better, and round once, at the end"
        )
    if not _same(got, ratio * want):
        return ""
    named = {
        1 / c: f"averaged over the {c} ranks: each adds its part, with factor 1",
        float(c): f"{c} times too large: added up once for each of the {c} ranks",
        1 / root: "divided by sqrt(d_h) once too often: attend_backward has applied the scale",
        root: "the scale 1/sqrt(d_h) is taken off again: attend_backward has applied it",
        2.0: "twice too large: is something added twice?",
        -1.0: "the sign is wrong",
    }
    for number, why in named.items():
        if abs(ratio.item() / number - 1) < 5e-3:
            return why
    return f"by a factor {ratio.item():.3g}"
