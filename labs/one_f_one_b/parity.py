"""Every stage's gradients against one device, for each job that reports them."""

from __future__ import annotations

from collections.abc import Sequence

from labs.one_f_one_b.jobs import GRADIENTS, Planned
from labs.pipeline.parity import held
from labs.ranks.run import Run
from labs.result import Check


def parity(planned: Sequence[Planned], run: Run) -> list[Check]:
    """Of each job that reports its gradients."""
    found = []
    for number, one in enumerate(planned):
        if one.section == GRADIENTS:
            told = [value[number] for value in run.values[: one.job.schedule.ranks]]
            loss = told[-1]["steps"][-1]["loss"]
            found += held(one.job.name, one.job, [t["gradients"] for t in told], loss)
    return found
