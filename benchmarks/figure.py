"""One measured figure: its samples, the bound it must keep, and a line of the table."""

import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """Samples of one quantity. `bound`: the median must not exceed it; None: only shown."""

    name: str
    samples: list[float]
    unit: str  # "×" for a ratio
    bound: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def ok(self) -> bool:
        return self.bound is None or self.median <= self.bound

    def row(self) -> list[str]:
        """Name, median, min, max, n, target, verdict."""
        digits = 0 if self.unit == "MB" else 3
        middle, low, high = (
            f"{value:.{digits}f}" for value in (self.median, min(self.samples), max(self.samples))
        )
        target = "" if self.bound is None else f"≤ {self.bound:g}"
        verdict = "" if self.bound is None else "ok" if self.ok else "missed"
        return [self.name, self.unit, middle, low, high, str(len(self.samples)), target, verdict]


HEAD = ["figure", "unit", "median", "min", "max", "n", "target", ""]


def table(figures: list[Figure]) -> str:
    """The figures as aligned text, the first two columns to the left."""
    rows = [HEAD, *(figure.row() for figure in figures)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
