"""Every stage's gradients against one device: of the executor, and of torch's own schedules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from labs import equality
from labs.one_f_one_b.accounts import equal_gradients
from labs.one_f_one_b.jobs import GRADIENTS, Planned
from labs.pipeline.jobs import Job, one_device
from labs.ranks.run import Run
from labs.result import Check, at_most, equal


def parity(planned: Sequence[Planned], run: Run) -> list[Check]:
    """Of each job that reports its gradients."""
    found = []
    for number, one in enumerate(planned):
        if one.section == GRADIENTS:
            told = [value[number] for value in run.values[: one.job.schedule.ranks]]
            loss = told[-1]["steps"][-1]["loss"]
            found += held(one.job.name, one.job, [t["gradients"] for t in told], loss)
    return found


def held(
    label: str, job: Job, by_rank: Sequence[Mapping[str, torch.Tensor]], loss: float
) -> list[Check]:
    """Loss and gradients that the ranks report, against one device's. Each parameter is on one."""
    whole, eps = one_device(job), equality.EPS[job.dtype]
    got = {name: gradient for of_rank in by_rank for name, gradient in of_rank.items()}
    names = sorted(name for of_rank in by_rank for name in of_rank)
    once = names == sorted(whole.gradients)
    found = [
        equal(f"{label}: every parameter has a gradient, on one rank", once, True, "", "one device")
    ]
    if once:
        gaps = equality.gaps(got, whole.gradients, eps)
        scale = max(gradient.abs().max().item() for gradient in whole.gradients.values())
        far = max(gap.difference for gap in gaps) / scale
        found.append(equal_gradients(label, far, eps, "one device"))
    apart = abs(loss - whole.loss) / abs(whole.loss)
    return [*found, at_most(f"{label}: loss apart", apart, eps, "of the loss", "one device")]
