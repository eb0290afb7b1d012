"""Loss and gradients that ranks report, against the same step on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from labs import equality
from labs.pipeline.jobs import Job, one_device
from labs.result import Check, at_most, equal


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
        far = max(gaps, key=lambda gap: gap.used).difference / scale
        found.append(
            at_most(f"{label}: difference of gradients", far, eps, "of the largest", "one device")
        )
    apart = abs(loss - whole.loss) / abs(whole.loss)
    return [
        *found,
        at_most(f"{label}: difference of the loss", apart, eps, "of the loss", "one device"),
    ]
