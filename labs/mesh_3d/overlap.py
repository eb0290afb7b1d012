"""The section "overlap": gradients are summed along dp while the backward pass goes on.

A unit's sum (ZeRO-2's) travels beside the next unit's backward pass, or all of them after it. What
a step has to wait for is then one message instead of all, as long as a unit's backward pass takes
longer than its message. Formula, simulation, run: devices are simulated, messages are real, on a
link that is slow on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from labs import formulas
from labs.mesh.overlap import LINK, Pass, Reduced, on_rank, simulate
from labs.mesh_3d.ask import Ask
from labs.ranks import Run
from labs.result import Check, Result, at_most, by_clock, equal, near

SECTION = "overlap"
MOST = 4  # ranks of the data-parallel group
LONGER, SHORTER = 2.0, 0.5
"""A unit's backward pass in messages: one that hides a message, and one that does not."""
RESIDUAL = 0.1
"""How far a run may be off the simulator, as a share of the whole pass."""
HOP = 0.3
"""How far a message may be off its bytes over the link's rate, as a share."""
_MS = 1e3


@dataclass(frozen=True)
class Overlapped:
    """One job: by formula, simulated, and run on each rank. Seconds."""

    job: Reduced
    ranks: int
    message: float  # one alone, measured in the same run
    slow_link: bool
    tries: Sequence[Sequence[dict]]  # by try and rank, as labs/mesh/overlap.py tells

    @property
    def backward(self) -> float:
        """Of one unit."""
        return self.job.of_message * self.message

    @cached_property
    def simulated(self) -> Pass:
        n = self.job.units
        return simulate([self.backward] * n, [self.message] * n, self.job.overlap)

    @property
    def formula(self) -> float:
        """Seconds in which messages are waited for and nothing is computed."""
        return formulas.reduction_exposed(
            self.job.units, self.backward, self.message, self.job.overlap
        )

    @cached_property
    def walls(self) -> list[float]:
        """By try, of the rank that was done last."""
        return [max(told["wall"] for told in one) for one in self.tries]

    @property
    def wall(self) -> float:
        """The shortest: what else the machine does only adds."""
        return min(self.walls)

    @property
    def best(self) -> Sequence[dict]:
        """By rank."""
        return self.tries[self.walls.index(self.wall)]

    @property
    def exposed(self) -> float:
        """Measured: wall time beyond the backward pass itself."""
        return self.wall - self.job.units * self.backward

    @property
    def went_on(self) -> int:
        """Sums, of all ranks, that the backward pass went on beside."""
        return sum(told["went_on"] for told in self.best)

    @property
    def name(self) -> str:
        return f"{SECTION}, dp={self.ranks}, {self.job.name}"

    def __str__(self) -> str:
        return (
            f"{self.name}: exposed by formula {self.formula * _MS:.1f} · simulated "
            f"{self.simulated.exposed * _MS:.1f} · measured {self.exposed * _MS:.1f} ms, of "
            f"{self.wall * _MS:.1f} ms"
        )


def jobs(tries: int = 3, numel: int = 12 * 2**15) -> list[Reduced]:
    """Two lengths of a unit's backward pass, each with sums at the end and beside it."""
    found = []
    for times in (LONGER, SHORTER):
        for overlap in (False, True):
            way = "beside the backward pass" if overlap else "all at the end"
            name = f"{way}, a unit's backward takes {times:g} messages"
            found.append(Reduced(name, times, overlap, numel=numel, tries=tries))
    return found


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Run the passes on up to four ranks, all of one data-parallel group; add what came of it."""
    if ask.ranks == 1:
        result.notes.append(f"{SECTION} left out: it needs 2 ranks or more")
        return
    todo = jobs()
    found = take(todo, ask.launch(on_rank, todo, ranks=min(MOST, ask.ranks)))
    result.values[SECTION] = found
    result.checks += checks(found)
    if not all(one.slow_link for one in found):
        result.notes.append(
            f"{SECTION}: this system cannot slow a link down, so messages take no time to speak of"
        )


def take(todo: Sequence[Reduced], run: Run) -> list[Overlapped]:
    """What a run of these jobs came to."""
    found = []
    for number, job in enumerate(todo):
        told = [value[number] for value in run.values]
        tries = [[one["tries"][n] for one in told] for n in range(job.tries)]
        slow = all(one["slow_link"] for one in told)
        found.append(Overlapped(job, len(told), told[0]["message"], slow, tries))
    return found


def checks(found: Sequence[Overlapped]) -> list[Check]:
    """Gradients are whole, messages began when they should, and what they cost."""
    made = []
    for one in found:
        n, units = one.ranks, one.job.units
        whole = n * (n + 1) // 2  # rank r's gradients are all r + 1
        sums = {number for told in one.best for number in told["sums"]}
        made += [
            equal(f"{one.name}: every summed gradient", ", ".join(f"{s:g}" for s in sorted(sums)),
                  f"{whole:g}", "", "1 + … + n"),
            equal(f"{one.name}: sums that were not waited for at once", one.went_on,
                  n * units if one.job.overlap else 0, "of all ranks", "n·units, or none"),
            near(f"{one.name}: simulated, exposed", _ms(one.simulated.exposed), _ms(one.formula),
                 1e-3, "ms", "reduction_exposed"),
        ]  # fmt: skip
        if one.slow_link:
            made.append(_agrees(one))
    if found and found[0].slow_link:
        made.append(_message(found[0]))
        for at_end, beside in zip(found[::2], found[1::2], strict=True):
            made.append(
                by_clock(at_most(f"{beside.name}: measured, exposed as a part of all at the end",
                                 round(beside.exposed / at_end.exposed, 3),
                                 round((1 + beside.formula / at_end.formula) / 2, 3), "",
                                 "nearer to the formula than to 1"))
            )  # fmt: skip
    return made


def _agrees(one: Overlapped) -> Check:
    within = RESIDUAL * one.simulated.end
    return by_clock(
        near(f"{one.name}: measured, exposed", _ms(one.exposed), _ms(one.formula), _ms(within),
             "ms", "reduction_exposed")
    )  # fmt: skip


def _message(one: Overlapped) -> Check:
    """gloo's reduce-scatter is an all-reduce: it sends twice what a ring reduce-scatter would."""
    sent = formulas.gloo_reduce_scatter_bytes(4 * one.job.numel, one.ranks)
    due = sent / LINK
    return by_clock(
        near(f"{SECTION}, dp={one.ranks}: a unit's message alone", _ms(one.message), _ms(due),
             _ms(HOP * due), "ms", "gloo_reduce_scatter_bytes / the link's rate")
    )  # fmt: skip


def _ms(seconds: float) -> float:
    return round(seconds * _MS, 3)
