"""python -m labs.planner.left_out: each source scored with constants fitted without it.

The errors are kept in constants.json, where the fit wrote them; nothing is fitted here. What the
planner says of a run that it has not seen is about as good as this, and its error bars are these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import exp

from labs.planner import published
from labs.planner.constants import FILE
from labs.planner.fit import scored_runs
from labs.planner.runs import Run
from labs.planner.score import aligned, mean

MEGATRON = "Megatron-style, all sources"


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


def table() -> str:
    """n, MAPE, bias, shares within 10 and 20 %, the worst row; the last line is what counts."""
    runs = {run.name: run for run in scored_runs(published.read())}
    lines, every = [["left out of the fit", "n", "MAPE", "bias", "≤10 %", "≤20 %", "worst"]], {}
    for name, those in offs().items():
        some = {run: off for run, off in those.items() if megatron_style(runs[run])}
        every |= some
        lines.append(_line(name, those))
        if some and len(some) < len(those):
            lines.append(_line("  of them Megatron-style", some))
    return aligned([*lines, _line(MEGATRON, every)])


def _line(name: str, those: Mapping[str, float]) -> list[str]:
    values = list(those.values())
    worst = max(those, key=lambda run: abs(those[run]))
    within = [mean([float(abs(off) <= most) for off in values]) for most in (0.1, 0.2)]
    return [
        name, str(len(values)), f"{mean([abs(off) for off in values]):.1%}",
        f"{mean(values):+.1%}", *(f"{share:.0%}" for share in within),
        f"{worst} {those[worst]:+.1%}",
    ]  # fmt: skip


if __name__ == "__main__":
    print(table())
