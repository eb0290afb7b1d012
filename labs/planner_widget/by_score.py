"""The section "score": predictions beside published runs that the constants were not fitted on."""

from __future__ import annotations

from labs.planner.evidence import left_out
from labs.planner.evidence.fit import scored_runs
from labs.planner.evidence.published import read
from labs.planner_widget.asked import Asked
from labs.result import Result, at_least, at_most

SECTION = "score"
MAPE, WITHIN_10 = 0.10, 0.70
"""What is aimed at over all Megatron-style runs left out: mean error, share within 10 %."""


def add(result: Result, asked: Asked, ranks: int, mode: str | None, status: bool) -> None:
    """Two checks, and the runs behind them in values["score"]."""
    offs = left_out.residuals()
    n = len(offs)
    source = f"{n} Megatron-style runs, each predicted by a fit without its source"
    mape = sum(map(abs, offs)) / n
    within = sum(abs(off) <= 0.1 for off in offs) / n
    result.checks += [
        at_most("score: mean absolute error of a step's seconds", mape, MAPE, "", source),
        at_least("score: share of runs within 10 %", within, WITHIN_10, "", source),
    ]
    runs = {run.name: run for run in scored_runs(read())}
    result.values[SECTION] = [
        (name, runs[name].seconds, off, left_out.megatron_style(runs[name]), source)
        for source, those in left_out.offs().items()
        for name, off in those.items()
    ]
