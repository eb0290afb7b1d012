"""How far off a prediction of seconds may be: what published runs left out of the fit were off by.

    low, high = error_bars(layout, software).of(1.20)      seconds

Of the runs of the same kind as the layout the middle 80 % are taken: one run in ten was slower than
`high`, one in ten faster than `low`. Where fewer than TEN runs are of that kind, it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from labs.planner.evidence import published
from labs.planner.evidence.fit import FITTED, belongs, scored_runs
from labs.planner.evidence.left_out import offs
from labs.planner.evidence.runs import Run
from labs.planner.evidence.score import score_rows
from labs.planner.layout import Layout
from labs.planner.software import Software

TEN = 10
SHARE = 0.8
MEGATRON, ZERO3, CP, OTHER = (
    "tensor and pipeline parallel, 16 bits, tp ≤ 8, no ZeRO-3",
    "ZeRO-3",
    "context parallel",
    "another number format, or tp above 8",
)
FAMILIES = ("Llama 3", "torchtitan", "nanotron")
KINDS = (MEGATRON, ZERO3, CP, OTHER)


@dataclass(frozen=True)
class Bars:
    """Quantiles of predicted/measured - 1 of `n` runs of a kind."""

    kind: str
    n: int
    low: float
    high: float

    def of(self, seconds: float) -> tuple[float, float]:
        """Between what and what the measured time was in 80 % of the runs, for this prediction."""
        return seconds / (1 + self.high), seconds / (1 + self.low)

    def __str__(self) -> str:
        few = "" if self.n >= TEN else f"; only {self.n} such runs are known, so take it as a hint"
        return (
            f"80 % of {self.n} published runs that it was not fitted on ({self.kind}) were "
            f"predicted between {self.low:+.0%} and {self.high:+.0%} of what was measured{few}"
        )


def kind_of(layout: Layout, software: Software) -> str:
    """Which of KINDS a layout belongs to."""
    if layout.cp > 1:
        return CP
    if layout.zero == 3:
        return ZERO3
    if software.dtype in ("bf16", "fp16") and layout.tp <= 8:
        return MEGATRON
    return OTHER


def family(run: Run) -> str:
    """Who published a run that is in no fit, and of which kind it is: for a table by source."""
    source = str(run.row["source"])
    who = next((name for name in FAMILIES if name in source), source)
    if run.layout.cp > 1:
        return f"{who}, cp > 1"
    return f"{who}, {run.software.dtype}" if run.software.dtype == "fp8" else who


def error_bars(layout: Layout, software: Software) -> Bars:
    """The bars of a layout's kind."""
    return _bars()[kind_of(layout, software)]


@cache
def _bars() -> dict[str, Bars]:
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for run, off in unseen():
        found[kind_of(run.layout, run.software)].append(off)
    return {kind: _of(kind, sorted(values)) for kind, values in found.items()}


def unseen() -> list[tuple[Run, float]]:
    """Every run with a time and what it was off by, under constants that were not fitted on it.

    Runs of the sources of the fit: left out with their source; all others: by the frozen constants.
    """
    rows = published.read()
    left = {name: off for those in offs().values() for name, off in those.items()}
    found = [(run, left[run.name]) for run in scored_runs(rows) if run.name in left]
    held = {run.name for run, _ in found}
    fitted = {run.name for run in scored_runs(rows) if belongs(run, FITTED)}
    for one in score_rows(rows).scored:
        if one.off is not None and one.run.name not in held | fitted:
            found.append((one.run, one.off))
    return found


def _of(kind: str, values: list[float]) -> Bars:
    return Bars(kind, len(values), _quantile(values, 0.5 - SHARE / 2),
                _quantile(values, 0.5 + SHARE / 2))  # fmt: skip


def _quantile(values: list[float], share: float) -> float:
    """Linear between the two nearest of ascending values (Hyndman and Fan, 1996, type 7)."""
    at = share * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])
