"""Three ways to a ring's time: the formula, the simulator, and the ranks; and what is left over.

Sections "zigzag" (who works how much on causal attention, and what that does to the step) and
"overlap" (the next block travels while this one is worked on). Counts and order are exact; what a
clock measured is marked so. Of a few tries the shortest counts: what else the machine does only
adds to one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from labs import formulas
from labs.context_parallel.clock.device import ALL, PAIRS, WHOLE
from labs.context_parallel.clock.simulate import simulate
from labs.context_parallel.clock.timed_jobs import FASTER, PLAIN, ZIGZAG, Timed
from labs.context_parallel.clock.timeline import (
    BACKWARD,
    FORWARD,
    Computation,
    Message,
    RingTimeline,
)
from labs.ranks.run import Run
from labs.result import Check, Result, at_least, by_clock, equal, near

RESIDUAL = 0.004
"""Seconds that a run may take longer than simulated, where no rank waits long for a message."""
WAITING = 0.1
"""The same as a share of the simulated time, where all wait for every message: then each delay of
the machine adds up round the ring."""
HOP = 0.3
"""How far a message may be off its bytes over the link's rate, as a share."""
RATIO = 0.05
"""How far a ratio of two measured times may be off its formula, as a share."""
MS = 1e3


@dataclass(frozen=True)
class Try:
    """One run of a ring. Seconds."""

    measured: RingTimeline
    wall: float  # from the agreed start until the last rank was done
    told: Sequence[dict]  # by rank; labs/context_parallel/clock/timed_on_rank.py

    def blocks(self, rank: int, phase: str = FORWARD) -> list[dict]:
        """What the rank worked on in that pass, in order."""
        return [one for one in self.told[rank]["blocks"] if one["phase"] == phase]

    @property
    def began_with_messages(self) -> int:
        """Forward computations, of all ranks, that began with the next block on its way."""
        first = [one for rank in range(len(self.told)) for one in self.blocks(rank)]
        return sum(min(one["under_way"]) > 0 for one in first)

    @property
    def arrived_meanwhile(self) -> int:
        """Blocks, of all ranks, that were there before the computation at hand was over."""
        count = 0
        for rank, told in enumerate(self.told):
            came = [m for m in told["messages"] if m["op"] == "recv" and m["forward"]]
            ends = [one["end"] for one in self.blocks(rank)]
            count += sum(m["arrived"] <= end for m, end in zip(came, ends, strict=False))
        return count


@dataclass(frozen=True)
class Agreement:
    """One job: computed, simulated, run. Seconds."""

    job: Timed
    pair: float
    kv: float  # a message of K and V, measured in the same job with nothing computed
    sums: float
    slow_link: bool  # whether the link is as slow as the job says
    tries: tuple[Try, ...]

    @cached_property
    def simulated(self) -> RingTimeline:
        return simulate(self.job.times(self.pair, self.kv, self.sums))

    @property
    def formula(self) -> float:
        return self.job.formula(self.pair, self.kv)

    @property
    def best(self) -> Try:
        return min(self.tries, key=lambda one: one.wall)

    @property
    def residual(self) -> float:
        """Measured minus simulated."""
        return self.best.wall - self.simulated.makespan

    @property
    def block(self) -> float:
        """Forward, of one whole block of a ring of equal ones."""
        return self.job.of_message * self.kv

    def by_rank(self, name: str) -> list[int]:
        """ "pairs" or "worked", summed over the rank's blocks of the forward pass."""
        told = self.tries[0]
        return [sum(b[name] for b in told.blocks(rank)) for rank in range(self.job.ranks)]

    def __str__(self) -> str:
        return (
            f"{self.job.name}: formula {self.formula * MS:.1f} · simulated "
            f"{self.simulated.makespan * MS:.1f} · measured {self.best.wall * MS:.1f} ms, "
            f"residual {self.residual * MS:+.1f} ms"
        )


def agreements(jobs: Sequence[Timed], run: Run) -> list[Agreement]:
    """What `run`, whose jobs these were, came to."""
    found = []
    for number, job in enumerate(jobs):
        told = [value[number] for value in run.values[: job.ranks]]
        tries = []
        for n in range(job.tries):
            by_rank = [one["tries"][n] for one in told]
            wall = max(one["wall"] for one in by_rank)
            tries.append(Try(_measured(by_rank), wall, by_rank))
        pair, kv, sums = (told[0][name] for name in ("pair", "kv", "sums"))
        slow = all(one["slow_link"] for one in told)
        found.append(Agreement(job, pair, kv, sums, slow, tuple(tries)))
    return found


def _measured(told: Sequence[dict]) -> RingTimeline:
    """A rank's n-th send is its right neighbour's n-th receive."""
    ranks = len(told)
    computations = [
        Computation(rank, one["phase"], one["block"], one["start"], one["end"])
        for rank in range(ranks) for one in told[rank]["blocks"]
    ]  # fmt: skip
    messages = []
    for rank in range(ranks):
        sent = [m for m in told[rank]["messages"] if m["op"] == "send"]
        came = [m for m in told[(rank + 1) % ranks]["messages"] if m["op"] == "recv"]
        for one, other in zip(sent, came, strict=False):
            if other["arrived"] is not None:
                phase = FORWARD if one["forward"] else BACKWARD
                start = max(one["posted"], other["posted"])
                messages.append(Message(rank, phase, one["what"], start, other["arrived"]))
    return RingTimeline(ranks, computations, messages)


def take(result: Result, jobs: Sequence[Timed], run: Run) -> None:
    """Add the checks of a run of these jobs to a result, and what figures draw from."""
    found = agreements(jobs, run)
    result.run = run
    result.checks += checks(found)
    result.values["timed"] = found
    result.notes += [str(one) for one in found if one.job.ranks == max(j.ranks for j in jobs)]


def checks(found: Sequence[Agreement]) -> list[Check]:
    """All checks of these jobs."""
    made = []
    for one in found:
        made += _balance(one) if one.job.causal else _under_way(one)
        made.append(_residual(one))
    return [*made, *_ratios(found), *_saved(found), *_hop(found)]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(f"{n:,}" for n in numbers)


def _balance(one: Agreement) -> list[Check]:
    """Who worked how much, counted on the ranks by the places that the ring handed to a block."""
    job, c = one.job, one.job.ranks
    own, told = job.length // c, one.tries[0].told
    plain = job.layout == PLAIN
    if job.work == PAIRS:
        unit, source = "visible pairs", "r·n² + n(n+1)/2" if plain else "T(T+1)/2c"
        wanted = [
            formulas.causal_pairs(job.length, c, rank) if plain
            else formulas.zigzag_pairs(job.length, c) for rank in range(c)
        ]  # fmt: skip
    elif job.work == WHOLE:
        unit, source = "pairs, whole blocks", "(r+1)·n²" if plain else "(c+1)/2·n²"
        wanted = [own * own * (rank + 1) if plain else own * own * (c + 1) // 2
                  for rank in range(c)]  # fmt: skip
    else:
        unit, source, wanted = "pairs, seen or not", "c·n²", [c * own * own] * c
    blocks = [len(one.tries[0].blocks(rank)) for rank in range(c)]
    seen = job.places()[0] + 1
    return [
        equal(f"{job.name}: worked on, by rank", _listed(one.by_rank("worked")),
              _listed(wanted), unit, source),
        equal(f"{job.name}: blocks attended to, by rank", _listed(blocks),
              _listed([rank + 1 if plain else c for rank in range(c)]), "blocks",
              "r + 1" if plain else "c"),
        equal(f"{job.name}: every query saw all keys up to its own place",
              [t["keys"] for t in told] == seen.tolist(), True, "", "the mask"),
        equal(f"{job.name}: ranks that a rank's dV comes from",
              _listed([int(n) for t in told for n in t["ranks"]]),
              _listed([c - rank if plain else c for rank in range(c)]), "ranks", "the mask"),
    ]  # fmt: skip


def _under_way(one: Agreement) -> list[Check]:
    """Order: what was on its way when a computation began. No clock is asked."""
    c = one.job.ranks
    began = {tried.began_with_messages for tried in one.tries}
    wanted = 0 if one.job.blocking else c * (c - 1)
    made = [
        equal(f"{one.job.name}: simulated time", round(one.simulated.makespan * 1e6),
              round(one.formula * 1e6), "µs",
              "f + (c-1)(f + μ)" if one.job.blocking else "f + (c-1)·max(f, μ)"),
        equal(f"{one.job.name}: computations that began with the next block on its way",
              _listed(sorted(began)), _listed([wanted]), f"of {c * c}, all ranks",
              "all but each rank's last" if wanted else "a blocking ring: none"),
    ]  # fmt: skip
    if wanted and one.job.of_message == FASTER:
        made.append(
            by_clock(at_least(f"{one.job.name}: blocks that arrived meanwhile",
                              max(tried.arrived_meanwhile for tried in one.tries),
                              0.75 * wanted, f"of {wanted}, all ranks", "f > μ"))
        )  # fmt: skip
    return made


def _residual(one: Agreement) -> Check:
    bound = RESIDUAL
    if not one.job.causal and (one.job.blocking or one.job.of_message < 1):
        bound = max(bound, WAITING * one.simulated.makespan)
    return by_clock(
        near(f"{one.job.name}: wall time minus the simulated", round(one.residual * MS, 3), 0,
             round(bound * MS, 3), "ms", "simulator")
    )  # fmt: skip


def _hop(found: Sequence[Agreement]) -> list[Check]:
    """How long a message takes, against the link that it travels over."""
    one = next((one for one in found if one.slow_link), None)
    if one is None:
        return []
    expected = one.job.block_bytes / one.job.link * MS
    return [
        by_clock(near("a message of K and V, nothing computed", round(one.kv * MS, 2),
                      round(expected, 2), HOP * expected, "ms", "bytes / rate of the link"))
    ]  # fmt: skip


def pairs_of(found: Sequence[Agreement]) -> list[tuple[Agreement, Agreement]]:
    """Jobs that differ in one thing: plain and zigzag; with overlap and without."""
    both = []
    for one in found:
        for other in found:
            alike = (one.job.ranks, one.job.work, one.job.of_message) == (
                other.job.ranks, other.job.work, other.job.of_message
            )  # fmt: skip
            layouts = (one.job.layout, other.job.layout) == (PLAIN, ZIGZAG)
            waits = not one.job.causal and not other.job.causal
            if alike and (layouts or (waits and other.job.blocking > one.job.blocking)):
                both.append((one, other))
    return both


def _ratios(found: Sequence[Agreement]) -> list[Check]:
    """The causal step, plain over zigzag."""
    made = []
    for plain, zigzag in pairs_of(found):
        if not plain.job.causal:
            continue
        c, whole = plain.job.ranks, plain.job.work == WHOLE
        expected = formulas.zigzag_speedup(c, whole)
        got = plain.best.wall / zigzag.best.wall
        made.append(
            by_clock(near(f"c={c}, {plain.job.work}: plain step over zigzag's", round(got, 3),
                          round(expected, 3), RATIO * expected, "times",
                          "2c/(c+1)" if whole else "2 - 1/c"))
        )  # fmt: skip
    nothing = [one for one in found if one.job.work == ALL]
    for one in nothing:
        slow = next((o for o in found if (o.job.ranks, o.job.layout, o.job.work)
                     == (one.job.ranks, PLAIN, WHOLE)), None)  # fmt: skip
        if slow is not None:
            got = slow.best.wall / one.best.wall
            made.append(
                by_clock(near(f"c={one.job.ranks}, {ALL}: plain step over zigzag's",
                              round(got, 3), 1, RATIO, "times", "no faster"))
            )  # fmt: skip
    return made


def _saved(found: Sequence[Agreement]) -> list[Check]:
    """What overlap is worth, and that a ring without it would be found out."""
    made = []
    for ring, control in pairs_of(found):
        if ring.job.causal:
            continue
        saved = control.best.wall - ring.best.wall
        hidden = (ring.job.ranks - 1) * min(ring.block, ring.kv)
        told = f"{ring.job.name}: a blocking ring takes longer by"
        made.append(
            by_clock(at_least(told, round(saved * MS, 1), round(hidden / 2 * MS, 1), "ms",
                              f"half of (c-1)·min(f, μ) = {hidden * MS:.1f}"))
        )  # fmt: skip
    return made
