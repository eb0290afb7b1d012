"""Checks of the section "dropout": which masks are alike, which are not, and what comes of it."""

from __future__ import annotations

from itertools import combinations

import torch

from labs import equality
from labs.ranks import Run
from labs.result import Check, at_least, at_most, equal
from labs.sequence_parallel import dropout, masks
from labs.sequence_parallel.masks import A_SEED_EACH, ONE_SEED, PLACES, RULE, SHARE, SP, TP, Job

_RULE = "inside and outside the regions"
_ALIKE = SHARE * (1 - SHARE)
"""Half of the share of places in which two masks that know nothing of each other differ."""


def checks(job: Job, run: Run) -> list[Check]:
    """All checks of the section."""
    found = []
    for name in (TP, SP):
        found += _masks(name, job, run) + _against_one_device(name, job, run)
    return found + _wrong_on_purpose(job, run)


def differing(name: str, place: str, job: Job, run: Run, axis: str) -> list[float]:
    """For each pair of ranks that differ in this coordinate alone: share of places that differ."""
    found = []
    for one, other in combinations(range(job.dp * job.tp), 2):
        (dp, tp), (dp_other, tp_other) = divmod(one, job.tp), divmod(other, job.tp)
        alone = dp == dp_other if axis == "tp" else tp == tp_other
        if alone:
            pair = (run.values[rank][name]["masks"][place] for rank in (one, other))
            found.append(torch.ne(*pair).double().mean().item())
    return found


def _at(name: str, job: Job) -> str:
    return f"{name}, dp={job.dp} tp={job.tp}"


def _masks(name: str, job: Job, run: Run) -> list[Check]:
    found, at = [], _at(name, job)
    outside = [differing(name, place, job, run, "tp") for place in dropout.OUTSIDE]
    inside = [differing(name, place, job, run, "tp") for place in dropout.INSIDE]
    if job.tp > 1:
        least = min(share for shares in inside for share in shares)
        found.append(at_least(f"{at}: masks inside the regions differ within a TP group, share",
                              least, _ALIKE, "", _RULE))  # fmt: skip
        if name == SP:
            least = min(share for shares in outside for share in shares)
            found.append(at_least(f"{at}: masks of other tokens differ within a TP group, share",
                                  least, _ALIKE, "", _RULE))  # fmt: skip
        else:
            pairs = [share == 0 for shares in outside for share in shares]
            found.append(equal(f"{at}: masks outside are equal within a TP group, pairs",
                               sum(pairs), len(pairs), "", _RULE))  # fmt: skip
    if job.dp > 1:
        least = min(min(differing(name, place, job, run, "dp")) for place in PLACES)
        found.append(at_least(f"{at}: masks differ between DP groups, share", least, _ALIKE, "",
                              "other samples"))  # fmt: skip
    drawn = [value[name]["masks"][place] for value in run.values for place in PLACES]
    kept = sum(mask.sum().item() for mask in drawn) / sum(mask.numel() for mask in drawn)
    off = abs(1 - kept - SHARE)
    return [*found, at_most(f"{at}: share dropped is {SHARE}, off by", off, 0.1 * SHARE, "", "p")]


def _against_one_device(name: str, job: Job, run: Run) -> list[Check]:
    """Every DP group against one device that uses its masks."""
    eps, sharded = equality.EPS[job.cotangent.dtype], name == SP
    gaps: dict[str, list[equality.Gap]] = {"output": [], "gradients": []}
    apart = 0.0
    for dp in range(job.dp):
        values = [run.values[dp * job.tp + tp][name] for tp in range(job.tp)]
        want_out, want = masks.on_one_device(job, dp, masks.whole_masks(values, sharded))
        outs, grads, replicas_apart = masks.together(job, values, sharded)
        apart = max(apart, replicas_apart)
        scale = max(grad.abs().max().item() for grad in want.values())
        gaps["output"] += [equality.gap("output", out, want_out, scale, eps) for out in outs]
        gaps["gradients"] += [equality.gap(k, grads[k], want[k], scale, eps) for k in want]
    found = []
    for what, group in gaps.items():
        worst = max(group, key=lambda gap: gap.used)
        over = ", ".join(dict.fromkeys(gap.name for gap in group if not gap.ok))
        found.append(
            at_most(f"{_at(name, job)}: {what}", worst.difference, worst.bound,
                    f"in {over}" if over and what == "gradients" else "",
                    "one device with the same masks")
        )  # fmt: skip
    return [*found, at_most(f"{_at(name, job)}: replicated weights get equal gradients", apart, 0.0,
                            "", "exact")]  # fmt: skip


def _wrong_on_purpose(job: Job, run: Run) -> list[Check]:
    """One seed for all, a seed for each: what is seen of either."""
    found = []
    for axis, size, places, told in (
        ("tp", job.tp, dropout.INSIDE, "inside equal within a TP group"),
        ("dp", job.dp, PLACES, "equal between DP groups"),
    ):
        alike = [s == 0 for place in places for s in differing(ONE_SEED, place, job, run, axis)]
        if size > 1:
            found.append(equal(f"{_at(ONE_SEED, job)}: masks {told}, pairs", sum(alike), len(alike),
                               "", _source(ONE_SEED)))  # fmt: skip
    if job.tp > 1:
        outs = [value[A_SEED_EACH]["out"] for value in run.values]
        apart = min(
            (outs[rank] - outs[rank - rank % job.tp]).abs().max().item()
            for rank in range(len(outs)) if rank % job.tp
        )  # fmt: skip
        found.append(at_least(f"{_at(A_SEED_EACH, job)}: replicated activations drift apart by",
                              apart, 1e-3, "", _source(A_SEED_EACH)))  # fmt: skip
    return found


def _source(name: str) -> str:
    return f"wrong on purpose: {RULE[name]}"
