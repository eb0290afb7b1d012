"""The section "straggler": one rank computes at half speed, and all pay, each on its own axis.

Its tensor-parallel partner waits for it at every all-reduce, the other stages of its pipeline for
its messages, the other replicas at the sum of the gradients: all of them for as long as the step
has become longer. Formula, simulation of the ranks' programs, and the run: devices are simulated,
messages are real.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from labs import formulas
from labs.mesh.layout import Layout
from labs.mesh.programs import Span, Work, end, simulate, waited
from labs.mesh.straggler import Timed, on_rank
from labs.mesh_3d.ask import Ask
from labs.ranks import Run
from labs.result import Check, Result, by_clock, equal, near

SECTION = "straggler"
SLOW = 2.0
FORWARD, PARTS = 0.008, 2
"""Seconds of a part forward, twice that backward; attention and MLP of one layer on each stage."""
RESIDUAL = 0.008
"""Seconds that a run may take longer than simulated, or less."""
WAITED = 0.2
"""How far a measured wait may be off its formula, as a share of the delay."""
AXES = ("tp", "pp", "dp")
_MS = 1e3


@dataclass(frozen=True)
class Straggled:
    """One job: simulated, and its tries. slow: the rank that is slow; None: nobody."""

    job: Timed
    slow: int | None
    simulated: list[list[Span]]
    walls: list[float]  # by try, of the rank that ended last
    spans: list[list[list[Span]]]  # by try and rank

    @cached_property
    def best(self) -> int:
        """The try that was nearest to the simulation: what else the machine does only adds."""
        residuals = [abs(wall - end(self.simulated)) for wall in self.walls]
        return residuals.index(min(residuals))

    @property
    def wall(self) -> float:
        return self.walls[self.best]

    @property
    def measured(self) -> list[list[Span]]:
        """By rank."""
        return self.spans[self.best]

    @property
    def stage(self) -> int:
        """That is slow; the last one where nobody is."""
        layout = self.job.layout
        return layout.pp - 1 if self.slow is None else layout.coordinate(self.slow)["pp"]

    @property
    def _stage_times(self) -> tuple[float, float]:
        work = self.job.work
        return work.parts * work.forward, work.parts * work.backward

    @property
    def formula(self) -> float:
        """Seconds of the step."""
        times = 1.0 if self.slow is None else SLOW
        p, m = self.job.layout.pp, self.job.micro_batches
        return formulas.straggler_step(p, m, self.stage, *self._stage_times, times)

    @property
    def delay(self) -> float:
        """Seconds by which it is longer."""
        if self.slow is None:
            return 0.0
        p, m = self.job.layout.pp, self.job.micro_batches
        return formulas.straggler_delay(p, m, self.stage, *self._stage_times, SLOW)

    def waits(self, rank: int) -> dict[str, float]:
        """By axis, by the formula; the straggler is on the last stage, or nobody is."""
        layout, m = self.job.layout, self.job.micro_batches
        slow_at = None if self.slow is None else layout.coordinate(self.slow)
        return formulas.straggler_waiting(
            layout.coordinate(rank), slow_at, layout.pp, m, *self._stage_times, SLOW
        )

    @property
    def name(self) -> str:
        return f"{SECTION}, {self.job.layout}, {self.job.name}"


def jobs(
    layout: Layout, tries: int = 3, forward: float = FORWARD
) -> list[tuple[Timed, int | None]]:
    """Nobody slow; a rank of the last stage; one of the first. Each with the rank that is slow."""
    m = max(4, layout.pp)
    last = layout.rank(pp=layout.pp - 1, tp=layout.tp - 1)
    found = []
    for slow in dict.fromkeys([None, last, 0]):
        work = Work(PARTS, forward, 2 * forward, None if slow is None else {slow: SLOW})
        name = "nobody slow" if slow is None else f"rank {slow} slow"
        found.append((Timed(name, layout, m, work, tries), slow))
    return found


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Run the jobs on the ranks; add what came of them."""
    if ask.layout.ranks == 1:
        result.notes.append(f"{SECTION} left out: it needs 2 ranks or more")
        return
    todo, order = jobs(ask.layout), parts["one_f_one_b_order"]
    run = ask.launch(on_rank, [job for job, _ in todo], order)
    found = take(todo, run, order)
    result.values[SECTION] = found
    result.checks += checks(found, run)


def take(todo: Sequence[tuple[Timed, int | None]], run: Run, order: Callable) -> list[Straggled]:
    """What a run of these jobs came to, beside the simulation."""
    found = []
    for number, (job, slow) in enumerate(todo):
        told = [value[number] for value in run.values[: job.layout.ranks]]
        walls = [max(one[n]["wall"] for one in told) for n in range(job.tries)]
        spans = [[[Span(*span) for span in one[n]["spans"]] for one in told]
                 for n in range(job.tries)]  # fmt: skip
        found.append(Straggled(job, slow, simulate(job.programs(order)), walls, spans))
    return found


def checks(found: Sequence[Straggled], run: Run | None = None) -> list[Check]:
    """The first is the run in which nobody is slow. run: for its ledger."""
    made = []
    for one in found:
        made += simulated(one)
        made += called(one, run) if run is not None else []
        residual = (one.wall - end(one.simulated)) * _MS
        made.append(
            by_clock(near(f"{one.name}: wall time beyond the simulated", round(residual, 3), 0,
                          RESIDUAL * _MS, "ms", "simulator"))
        )  # fmt: skip
        if one.slow is not None and one.stage == one.job.layout.pp - 1:
            made += paid(one, found[0])
    return made


def simulated(one: Straggled) -> list[Check]:
    """The simulation against the formulas, with nothing measured."""
    made = [
        equal(f"{one.name}: simulated step", _ms(end(one.simulated)), _ms(one.formula), "ms",
              "straggler_step")
    ]  # fmt: skip
    if one.stage == one.job.layout.pp - 1:
        off = [
            rank for rank, spans in enumerate(one.simulated)
            if any(abs(waited(spans)[a] - one.waits(rank)[a]) > 1e-9 for a in AXES)
        ]  # fmt: skip
        told = ", ".join(map(str, off)) or "none"
        made.append(
            equal(f"{one.name}: ranks that wait otherwise than by formula, on some axis", told,
                  "none", "", "straggler_waiting")
        )  # fmt: skip
    return made


def called(one: Straggled, run: Run) -> list[Check]:
    """Whether every rank met and sent as often as a step has it: a run that left a wait out is fast
    for no good reason."""
    layout, job = one.job.layout, one.job
    m, k, n = job.micro_batches, job.work.parts, job.tries
    want = dict(tp=2 * k * m * layout.ranks if layout.tp > 1 else 0,
                pp=2 * m * layout.dp * (layout.pp - 1) * layout.tp,
                dp=layout.ranks if layout.dp > 1 else 0)  # fmt: skip
    ops = dict(tp="all_reduce", pp="send", dp="all_reduce")
    got = {axis: run.ledger.count(section=job.name, axis=axis, op=op) for axis, op in ops.items()}
    return [
        equal(f"{one.name}: {ops[axis]} along {axis}, all ranks", got[axis] / n, want[axis],
              "a step", "the programs")
        for axis in AXES if want[axis]
    ]  # fmt: skip


def cost(one: Straggled, without: Straggled, rank: int) -> dict[str, float]:
    """By axis, how much longer a rank waited than in the run where nobody is slow. Seconds."""
    slow, even = waited(one.measured[rank]), waited(without.measured[rank])
    return {axis: slow[axis] - even[axis] for axis in AXES}


def payers(one: Straggled, without: Straggled) -> dict[int, str]:
    """The axis along which each rank waited longer by half of the delay or more; "": none."""
    found = {}
    for rank in range(one.job.layout.ranks):
        longer = cost(one, without, rank)
        axis = max(AXES, key=longer.__getitem__)
        found[rank] = axis if longer[axis] >= one.delay / 2 else ""
    return found


def told(by_rank: Mapping[int, str]) -> str:
    """ "tp: 2; pp: 0 1; dp: 4 5 6 7"."""
    lines = []
    for axis in AXES:
        those = [str(rank) for rank, on in by_rank.items() if on == axis]
        lines += [f"{axis}: {' '.join(those)}"] if those else []
    return "; ".join(lines)


def paid(one: Straggled, without: Straggled) -> list[Check]:
    """Who waited on which axis, and for how long; the straggler is on the last stage.

    Behind a straggler on another stage some ranks wait for less than the whole delay: they are done
    before it is.
    """
    layout = one.job.layout
    at = layout.coordinate(one.slow)
    due = {
        rank: formulas.straggler_pays(layout.coordinate(rank), at) for rank in range(layout.ranks)
    }
    made = [
        by_clock(equal(f"{one.name}: who waits for it, by axis", told(payers(one, without)),
                       told(due), "", "straggler_pays"))
    ]  # fmt: skip
    for axis in AXES:
        those = [rank for rank, on in due.items() if on == axis]
        if those:
            mean = sum(cost(one, without, rank)[axis] for rank in those) / len(those)
            made.append(
                by_clock(near(f"{one.name}: longer waits along {axis}, mean of {len(those)}",
                              _ms(mean), _ms(one.delay), round(WAITED * one.delay * _MS, 3), "ms",
                              "m·(slow-1)·(f+b)"))
            )  # fmt: skip
    return made


def _ms(seconds: float) -> float:
    return round(seconds * _MS, 3)
