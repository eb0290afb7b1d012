"""All layouts of a cluster: refused with the reason, too large with the bytes, or timed and ranked.

    for dp·pp·cp·tp = G          every factorization, refused ones counted by reason
        for v, mbs               rounds and batch
            for recompute        the least that fits: more of it only takes longer
                for ZeRO         each stage that was asked for
                    seconds      kept, best first

Each refusal keeps a count and one example, a sentence (labs/planner/legal.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from heapq import heappush, heapreplace

from labs.planner.cluster import Cluster
from labs.planner.cost.constants import Constants, frozen
from labs.planner.cost.kernels import Machine, machine_of
from labs.planner.cost.memory import (
    gathered_part,
    layer_part,
    stage_memory,
    stage_part,
    state_part,
    worst_stage,
    worst_stages,
)
from labs.planner.cost.time import StepTime, least_seconds, step_seconds, step_time
from labs.planner.layout import Layout
from labs.planner.legal import divisors, first_refusal
from labs.planner.model import Model
from labs.planner.software import TODAY, Software
from labs.planner.units import both

TOO_LARGE = "memory"
FIRST_THAT_FITS = "more recompute than needed"


@dataclass(frozen=True)
class Space:
    """What is tried. sp: sequence parallelism wherever tp > 1."""

    cp: tuple[int, ...] = (1,)
    mbs: tuple[int, ...] = (1, 2, 4)
    zero: tuple[int, ...] = (1,)
    recompute: tuple[str, ...] = ("none", "selective", "full")
    chunks: int = 8  # v is a divisor of a stage's layers, up to this
    sp: bool = True


WIDE = Space(cp=(1, 2, 4, 8, 16), mbs=(1, 2, 4, 8), zero=(0, 1, 2, 3), chunks=64)
"""Everything the planner knows of: for one long search."""


@dataclass
class Refused:
    """Layouts that one reason speaks against: how many, and one of them in a sentence."""

    reason: str
    count: int = 0
    example: str = ""


@dataclass(frozen=True)
class Plan:
    """A layout with its seconds a step and the bytes of its worst stage."""

    layout: Layout
    seconds: float
    memory: float


@dataclass
class Found:
    """The best plans first; how many were legal and fit; what was refused, by reason."""

    plans: list[Plan] = field(default_factory=list)
    fitting: int = 0
    refused: dict[str, Refused] = field(default_factory=dict)

    def refuse(self, reason: str, example: str = "", count: int = 1) -> None:
        """Count a refusal; the first of a reason leaves its sentence."""
        kept = self.refused.setdefault(reason, Refused(reason))
        kept.count += count
        kept.example = kept.example or example


def degrees(gpus: int, cp: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
    """Every (dp, pp, cp, tp) whose product is `gpus`."""
    for t in divisors(gpus):
        for c in cp:
            if gpus // t % c == 0:
                for p in divisors(gpus // t // c):
                    yield gpus // t // c // p, p, c, t


def search(
    model: Model, cluster: Cluster, batch: int, software: Software = TODAY,
    space: Space | None = None, best: int = 10, constants: Constants | None = None,
) -> Found:  # fmt: skip
    """The `best` fastest plans that fit, for a global batch of `batch` sequences.

    Raises ValueError for software whose bytes are counted tensor by tensor: a step at a time.
    """
    if software.eager:
        raise ValueError("software with eager=True is counted a layout at a time: stage_memory")
    space, machine = space or Space(), machine_of(cluster, constants or frozen())
    tried = _Tried(model, cluster, software, space, machine)
    zero, word = space.zero[0], space.recompute[0]
    for dp, pp, cp, tp in degrees(cluster.gpus, space.cp):
        sp = space.sp and tp > 1
        plain = Layout(dp, pp, cp, tp, batch=batch, sp=sp)
        against = first_refusal(model, cluster, plain)
        if against:
            tried.found.refuse(against.reason, against.sentence)
            continue
        chunks = _chunks(model, pp, space.chunks)
        if tried.state_too_large(replace(plain, ends=chunks[0][1]), len(chunks)):
            continue
        for v, ends in chunks:
            for place, mbs in enumerate(space.mbs):
                if not tried.one(Layout(dp, pp, cp, tp, v, mbs, batch, zero, sp, word, ends)):
                    tried.larger(len(space.mbs) - place - 1)
                    break
    tried.rank(best)
    return tried.found


def explain(
    model: Model, cluster: Cluster, plan: Plan, software: Software = TODAY
) -> tuple[StepTime, list[str]]:
    """A plan's seconds by what they go to, and the bytes of each stage that could be the worst."""
    time = step_time(model, cluster, plan.layout, software)
    stages = [stage_memory(model, plan.layout, s, software) for s in worst_stages(plan.layout)]
    return time, [f"stage {one.stage}: {both(one.total)}" for one in stages]


def _chunks(model: Model, pp: int, most: int) -> list[tuple[int, bool]]:
    """v and `ends` that cut the layers evenly; an uneven plain pipeline where nothing does."""
    if pp == 1:
        return [(1, False)]
    ends = model.layers % pp != 0 and (model.layers + 2) % pp == 0 and model.layers + 2 >= 2 * pp
    each = (model.layers + (2 if ends else 0)) // pp
    if model.layers % pp and not ends:
        return [(1, False)]
    return [(v, ends) for v in divisors(each) if v <= most]


@dataclass
class _Tried:
    """One search: what is asked for, what is refused, and what fits with its least seconds."""

    model: Model
    cluster: Cluster
    software: Software
    space: Space
    machine: Machine
    found: Found = field(default_factory=Found)
    fitting: list[tuple[float, Layout, int, str, float]] = field(default_factory=list)
    kept: dict[tuple[int, int, int], list[tuple[str, float, float]]] = field(default_factory=dict)

    def state_too_large(self, at: Layout, chunks: int) -> bool:
        """Whether the state alone does not fit, whatever ZeRO, v, mbs and recompute are."""
        state, zero = min(
            (state_part(self.model, at, 0, self.software, zero).total, zero)
            for zero in self.space.zero
        )
        if state <= self.cluster.usable:
            return False
        example = (
            f"{replace(at, zero=zero)}: state alone is {both(state)}, and a plan may fill "
            f"{both(self.cluster.usable)} of {self.cluster.gpu.name}"
        )
        self.found.refuse(TOO_LARGE, example, self.choices * chunks * len(self.space.mbs))
        return True

    def layers(self, at: Layout) -> list[tuple[str, float, float]]:
        """Each word of recompute with what a layer keeps under it: the same for every pp and v."""
        key = (at.cp, at.tp, at.mbs)
        if key not in self.kept:
            self.kept[key] = [
                (word, *layer_part(self.model, at, self.software, word))
                for word in self.space.recompute
            ]
        return self.kept[key]

    @property
    def choices(self) -> int:
        """Of ZeRO and recompute, for one micro-batch."""
        return len(self.space.zero) * len(self.space.recompute)

    def larger(self, more: int) -> None:
        """Count the larger micro-batches of a layout that does not fit: they do not either."""
        if more:
            self.found.refuse(TOO_LARGE, count=more * self.choices)

    def one(self, at: Layout) -> bool:
        """Time a layout with every stage of ZeRO, each with the least recompute that fits.

        False where nothing fits; a layout that is refused for another reason is no such case.
        """
        share = at.dp * at.mbs
        if at.batch % share or (at.v > 1 and at.batch // share % at.pp):
            refused = first_refusal(self.model, self.cluster, at)
            self.found.refuse(refused.reason, refused.sentence)
            return True
        before = len(self.fitting)
        stages = worst_stages(at)
        loads = [stage_part(self.model, at, stage, self.software) for stage in stages]
        kept, usable = self.layers(at), self.cluster.usable
        for zero in self.space.zero:
            states = [
                state_part(self.model, at, stage, self.software, zero).total for stage in stages
            ]
            held = gathered_part(self.model, at, self.software, zero)
            for place, (word, each, again) in enumerate(kept):
                most = 0.0
                for state, (layers, ends) in zip(states, loads, strict=True):
                    most = max(most, state + each * layers + ends)
                most += held + again
                if most <= usable:
                    rest = len(kept) - place - 1
                    if rest:
                        known = FIRST_THAT_FITS in self.found.refused
                        example = "" if known else f"{at}: recompute '{word}' fits already"
                        self.found.refuse(FIRST_THAT_FITS, example, rest)
                    words = (self.model, self.machine, self.software)
                    least = least_seconds(*words, at, word)
                    self.fitting.append((least, at, zero, word, most))
                    break
                self._too_large(at, zero, word)
        return len(self.fitting) > before

    def rank(self, best: int) -> None:
        """Time the layouts that fit, those first that could be fastest, until none is left that
        could be among the best: its least seconds are more than theirs.
        """
        self.found.fitting = len(self.fitting)
        self.fitting.sort(key=lambda one: one[0])
        words, timed = (self.model, self.machine, self.software), []
        for place, (least, at, zero, word, memory) in enumerate(self.fitting):
            if len(timed) == best and least > -timed[0][0]:
                break
            layout = at
            if zero != at.zero or word != at.recompute:
                layout = Layout(
                    at.dp, at.pp, at.cp, at.tp, at.v, at.mbs, at.batch, zero, at.sp, word, at.ends
                )
            entry = (-step_seconds(*words, layout), -place, layout, memory)
            if len(timed) < best:
                heappush(timed, entry)
            elif entry > timed[0]:
                heapreplace(timed, entry)
        timed.sort(key=lambda one: (-one[0], -one[1]))
        self.found.plans = [Plan(at, -seconds, memory) for seconds, _, at, memory in timed]

    def _too_large(self, at: Layout, zero: int, word: str) -> None:
        """Count it; the first leaves its bytes in a sentence."""
        if TOO_LARGE in self.found.refused:
            self.found.refuse(TOO_LARGE)
            return
        layout = replace(at, zero=zero, recompute=word)
        worst = worst_stage(self.model, layout, self.software)
        self.found.refuse(
            TOO_LARGE,
            f"{layout}: stage {worst.stage} would hold {both(worst.total)}, and a plan may fill "
            f"{both(self.cluster.usable)} of {self.cluster.gpu.name}",
        )
