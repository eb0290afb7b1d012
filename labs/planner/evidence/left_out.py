"""Each source predicted with constants fitted without it.

The errors are kept in constants.json, where the fit wrote them; nothing is fitted here. What the
planner says of a run that it has not seen is about as good as this (unseen.py).
"""

from __future__ import annotations

import json
from math import exp

from labs.planner.cost.constants import FILE
from labs.planner.evidence import published
from labs.planner.evidence.fit import scored_runs
from labs.planner.evidence.runs import Run


def megatron_style(run: Run) -> bool:
    """Tensor and pipeline parallel, no ZeRO-3, 16 bits, tp ≤ 8, the micro-batch printed."""
    sixteen = run.software.dtype in ("bf16", "fp16")
    printed = run.row["micro_batch"] is not None
    return sixteen and printed and run.layout.tp <= 8 and run.layout.zero < 3


def offs() -> dict[str, dict[str, float]]:
    """By source: predicted/measured - 1 of each run, by id."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))["left_out"]
    return {
        name: {run: exp(error) - 1 for run, error in one["log_errors"].items()}
        for name, one in kept.items()
    }


def residuals() -> list[float]:
    """Of Megatron-style runs, ascending: a prediction's error bars are their quantiles."""
    runs = {run.name: run for run in scored_runs(published.read())}
    return sorted(
        off
        for those in offs().values()
        for name, off in those.items()
        if megatron_style(runs[name])
    )
