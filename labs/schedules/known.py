"""The schedules of the course: what each is called, and what the formulas say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labs import formulas
from labs.schedules.instructions import Order, Schedule, make
from labs.schedules.simulate import Seconds, Times


@dataclass(frozen=True)
class Known:
    """One schedule. `order`: the exercise of notebook 03 that writes it.

    makespan(p, m, v, f, b): for ranks that are alike and messages that are free;
    stored(p, rank, m, v): most forward passes of one chunk that a rank stores at once.
    """

    title: str
    order: str
    looped: bool  # whether a rank holds several chunks
    makespan: Callable[[int, int, int, float, float], float]
    stored: Callable[[int, int, int, int], int]
    source: str

    def make(self, order: Order, ranks: int, micro_batches: int, chunks: int = 1) -> Schedule:
        """The schedule of an order, under its own title. Raises ValueError as `make` does."""
        if not self.looped:
            return make(self.title, order, ranks, micro_batches)
        if chunks == 1:  # `make` names the chunks only where there are several; this order wants it
            return make(self.title, lambda *given: order(*given, 1), ranks, micro_batches)
        return make(f"{self.title} v={chunks}", order, ranks, micro_batches, chunks)

    def seconds(self, schedule: Schedule, times: Times) -> float:
        """The makespan by the formula, in the unit of `times`.

        times: of a chunk; a rank's whole part takes v times as long. Of stages that differ it is
        given the mean, for it knows no others.
        """
        v, f, b = schedule.chunks, _mean(times.forward), _mean(times.backward)
        return self.makespan(schedule.ranks, schedule.micro_batches, v, v * f, v * b)

    def share(self, schedule: Schedule, times: Times) -> float:
        """Bubble ÷ total time, by the formula."""
        each = _mean(times.forward) + _mean(times.backward)
        work = schedule.micro_batches * schedule.chunks * each
        return 1 - work / self.seconds(schedule, times)


def _mean(seconds: Seconds) -> float:
    return sum(seconds) / len(seconds) if isinstance(seconds, Sequence) else seconds


def _plain(p: int, m: int, v: int, f: float, b: float) -> float:
    return formulas.step_time(p, m, f, b, v)


def _zero_bubble(p: int, m: int, v: int, f: float, b: float) -> float:
    return m * (f + b) + formulas.zero_bubble_idle(p, f, b / 2, b / 2)


_NARAYANAN = "Narayanan et al. 2021, 2.2"
KNOWN: dict[str, Known] = {
    "gpipe": Known(
        "GPipe", "gpipe_order", False, _plain,
        lambda p, rank, m, v: formulas.stored_gpipe(m), "Huang et al. 2019",
    ),
    "one_f_one_b": Known(
        "1F1B", "one_f_one_b_order", False, _plain,
        lambda p, rank, m, v: formulas.stored_1f1b(p, rank, m), _NARAYANAN,
    ),
    "interleaved": Known(
        "interleaved 1F1B", "interleaved_order", True, _plain,
        lambda p, rank, m, v: formulas.stored_interleaved(p, rank, m, v), _NARAYANAN,
    ),
    "breadth_first": Known(
        "breadth-first", "breadth_first_order", True, _plain,
        lambda p, rank, m, v: m * v, "Lamy-Poirier 2023",
    ),
    "zero_bubble": Known(
        "ZB-H1", "zero_bubble_order", False, _zero_bubble,
        lambda p, rank, m, v: formulas.stored_zero_bubble(p, m), "Qi et al. 2023",
    ),
}  # fmt: skip
"""By name. What is stored holds always. For its time, breadth-first in several chunks needs m ≥ p;
ZB-H1 too, with I and W half of B each, and no longer than F."""
