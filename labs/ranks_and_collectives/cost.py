"""α and β of this machine: fitted to what was measured, and what they say of each collective.

From the ping-pong of two ranks comes one α and one β. With these the formula and the simulator say
how long every collective should take. What was measured is held against both; nothing is tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from labs import formulas
from labs.ranks.devices import cores
from labs.ranks_and_collectives import simulator
from labs.ranks_and_collectives.algorithms import messages


@dataclass(frozen=True)
class Point:
    """A size and the seconds it took: the fastest of several tries, and their median."""

    whole: int
    seconds: float
    median: float


@dataclass(frozen=True)
class Fit:
    """α in seconds a step, β in seconds a byte, and how well they fit."""

    alpha: float
    beta: float
    residual: float  # median over the points of |fitted / measured - 1|

    def __str__(self) -> str:
        rate = f"{1e-9 / self.beta:.1f} GB/s" if self.beta else "no limit"
        return f"α {self.alpha * 1e6:.0f} µs, 1/β {rate}, off by {self.residual:.0%}"


def fit(points: Sequence[tuple[int, float, float]]) -> Fit:
    """α and β for points (steps, bytes, seconds): least squares of the relative error, neither < 0.

    Relative, because sizes and times span four powers of ten: an absolute error of the largest
    would hide all others, and α with them.
    """
    a = [steps / seconds for steps, _, seconds in points]
    b = [size / seconds for _, size, seconds in points]
    aa, bb = sum(x * x for x in a), sum(y * y for y in b)
    ab = sum(x * y for x, y in zip(a, b, strict=True))
    det = aa * bb - ab * ab
    alpha = (sum(a) * bb - sum(b) * ab) / det if det else 0.0
    beta = (sum(b) * aa - sum(a) * ab) / det if det else 0.0
    if alpha < 0 or not det:
        alpha, beta = 0.0, sum(b) / bb
    elif beta < 0:
        alpha, beta = sum(a) / aa, 0.0
    off = [abs(alpha * x + beta * y - 1) for x, y in zip(a, b, strict=True)]
    return Fit(alpha, beta, median(off))


def lanes() -> int:
    """Messages that this machine moves at full speed at once: one core writes, another reads."""
    return max(1, cores() // 2)


@dataclass(frozen=True)
class Timed:
    """One collective on t ranks: measured times beside formula and simulator."""

    op: str
    ranks: int
    points: tuple[Point, ...]
    link: Fit  # of the ping-pong
    lanes: int

    def steps(self) -> int:
        """Messages one after the other, by the formula."""
        return formulas.collective_messages(self.op, 1.0, self.ranks).steps

    def formula(self, whole: float) -> float:
        """Seconds where every rank has a link of its own."""
        return formulas.collective_seconds(
            self.op, whole, self.ranks, self.link.alpha, self.link.beta
        )

    def simulated(self, whole: float) -> float:
        """Seconds on this machine's lanes."""
        sent, block = messages(self.op, self.ranks), whole / self.ranks
        return simulator.seconds(sent, self.link.alpha, self.link.beta, block, self.lanes)

    def fit(self) -> Fit:
        """α a step and β a byte of this collective's own."""
        return fit([(self.steps(), self.passed(p.whole), p.seconds) for p in self.points])

    def passed(self, whole: int) -> float:
        """Bytes that pass the busiest rank."""
        return self.steps() * formulas.collective_messages(self.op, whole, self.ranks).size

    def ratio(self, model: Callable[[float], float]) -> float:
        """Median over the sizes of what `model` says ÷ what was measured."""
        return median(model(p.whole) / p.seconds for p in self.points)

    def __str__(self) -> str:
        return (
            f"{self.op:<14} t={self.ranks}  own fit: {self.fit()}; predicted ÷ measured: "
            f"formula {self.ratio(self.formula):.2f}, simulator {self.ratio(self.simulated):.2f}"
        )


def point(whole: int, spans: Sequence[Sequence[tuple[float, float]]]) -> Point:
    """From the last rank's coming to the last one's leaving; spans: by rank, one a try."""
    took = [
        max(left for _, left in of_ranks) - max(came for came, _ in of_ranks)
        for of_ranks in zip(*spans, strict=True)
    ]
    return Point(whole, min(took), median(took))


def ping_pong(points: Sequence[Point]) -> Fit:
    """α and β of one message."""
    return fit([(1, p.whole, p.seconds) for p in points])
