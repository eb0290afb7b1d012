"""The ranks against one device: every output, every gradient, put together from the shards."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labs import equality
from labs.ranks import Run
from labs.result import Check, at_least, at_most
from labs.tp_linear_pair import one_device, sharding
from labs.tp_linear_pair.experiments import EXPERIMENTS, ROW_FIRST, WRONG, Job


@dataclass(frozen=True)
class _Compared:
    """One job against one device: the output and the gradient that use most of their bounds."""

    job: Job
    output: equality.Gap
    gradient: equality.Gap
    gradients: int
    over: list[str]  # the gradients that are over their bounds
    apart: float  # between ranks that hold the same weight


def parity(jobs: list[Job], wholes: list[one_device.Weights], run: Run, each: bool) -> list[Check]:
    """Outputs and every gradient against one device, in the course's sense of equal.

    each: a row for each job; else one row for the worst of all.
    """
    n = run.world_size
    held = [
        _compare(job, weights, [value[job.section] for value in run.values])
        for job, weights in zip(jobs, wholes, strict=True)
        if not job.section.startswith("traffic")
    ]
    wrong = [c for c in held if c.job.way in WRONG]
    held = [c for c in held if c not in wrong]
    if not held:
        return []
    eps = f"one device, ε = {_eps(held[0].job):.0e}"
    if each or len(held) == 1:
        rows = [(c.job.section, [c]) for c in held]
    else:
        rows = [("every part", held)]
    found = []
    for name, group in rows:
        out = max((c.output for c in group), key=_over)
        grad = max((c.gradient for c in group), key=_over)
        count = sum(c.gradients for c in group)
        over = [wrong_name for c in group for wrong_name in c.over]
        where = f"in {', '.join(over[:6])}" if over else ""
        at = f"{name}, t={n}"
        found.append(at_most(f"{at}: output on every rank", out.difference, out.bound, "", eps))
        found.append(at_most(f"{at}: {count} gradients", grad.difference, grad.bound, where, eps))
    apart = max(c.apart for c in held)
    found.append(at_most(f"t={n}: replicated weights get equal gradients", apart, 0.0, "", "exact"))
    return found + [_damage(c, n) for c in wrong]


def _damage(c: _Compared, n: int) -> Check:
    """A way that is wrong on purpose must be seen to be wrong, where it is."""
    if c.job.way == "without f":
        seen, told = c.gradient, "gradient of x off by"
    else:
        seen, told = c.output, "output off by"
    source = f"wrong on purpose: {c.job.way}"
    return at_least(
        f"{c.job.section}, t={n}: {told}", seen.difference, 1e6 * seen.bound, "", source
    )


def _eps(job: Job) -> float:
    return equality.EPS[job.cotangent.dtype]


def _compare(job: Job, weights: one_device.Weights, values: list[dict]) -> _Compared:
    want_out, want = _on_one_device(job, weights)
    scale = max(grad.abs().max().item() for grad in want.values())
    outs = [equality.gap("output", v["out"].detach(), want_out, scale, _eps(job)) for v in values]
    grads, apart = _whole_gradients(job, weights, values)
    for rank, value in enumerate(values):
        if "x" in want:  # one that never arrived is nowhere near
            got = value["dx"] if value["dx"] is not None else want["x"] * torch.nan
            grads[f"x on rank {rank}"], want[f"x on rank {rank}"] = got, want["x"]
    want.pop("x", None)
    gaps = [equality.gap(key, grads[key], want[key], scale, _eps(job)) for key in want]
    over = [gap.name for gap in gaps if not gap.ok]
    return _Compared(job, max(outs, key=_over), max(gaps, key=_over), len(gaps), over, apart)


def _over(gap: equality.Gap) -> float:
    """How much of its bound a gap uses; not a number uses all."""
    used = gap.difference / gap.bound if gap.bound else float("inf")
    return float("inf") if used != used else used


def _on_one_device(
    job: Job, weights: one_device.Weights
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    leaves = one_device.with_gradients(weights)
    x = job.x.clone()
    if not EXPERIMENTS[job.experiment].tokens:
        x.requires_grad_()
    out = EXPERIMENTS[job.experiment].one_device(x, leaves, job.shape)
    out.backward(job.cotangent / job.cotangent.numel())
    grads = one_device.gradients(leaves)
    return out.detach(), grads if x.grad is None else {**grads, "x": x.grad}


def _whole_gradients(
    job: Job, weights: one_device.Weights, values: list[dict]
) -> tuple[dict[str, torch.Tensor], float]:
    """The ranks' gradients put together, and how far apart replicas of one weight are."""
    if job.way == "by torch":
        return values[0]["grads"], _apart([value["grads"] for value in values])
    shards = [dict(value["grads"]) for value in values]
    if job.way in ROW_FIRST:  # cut by rows here: put together, then left as it is
        whole = torch.cat([shard.pop("up_w") for shard in shards], 0)
        bias = [shard.pop("up_b") for shard in shards]
        like = {k: w for k, w in weights.items() if k not in ("up_w", "up_b")}
        rest, apart = sharding.assemble(shards, like, job.shape.heads, job.shape.kv_heads)
        same = max(apart, _apart([{"up_b": one} for one in bias]))
        return {**rest, "up_w": whole, "up_b": bias[0]}, same
    return sharding.assemble(shards, weights, job.shape.heads, job.shape.kv_heads)


def _apart(ranks: list[dict[str, torch.Tensor]]) -> float:
    """The largest difference between the first rank's tensors and another's of the same names."""
    gaps = [
        sharding.largest_gap(ranks[0][name], other[name]) for other in ranks[1:] for name in other
    ]
    return max(gaps, default=0.0)
