"""The sections of the lab: which jobs each of them runs, and what is checked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labs.context_parallel.jobs import RING, TORCH, ULYSSES, Job
from labs.ranks.run import Run
from labs.result import Result
from labs.ring_attention import grid, longest, memory, parity, traffic

GRID, LONG, MEMORY, LONGEST, BYTES = (
    "equal to one device", "long sequences", "memory", "longest", "bytes",
)  # fmt: skip
SECTIONS = (GRID, LONG, MEMORY, LONGEST, BYTES)
LIMIT = 300.0
"""Seconds that a launch may take; all of them together take less on two cores."""


@dataclass(frozen=True)
class Plan:
    """Jobs of the ring with their sections, and those of full attention on one rank."""

    ranks: int
    jobs: list[tuple[str, Job]]
    full: list[Job] = field(default_factory=list)
    longest: longest.Longest | None = None

    def numbers(self, section: str) -> list[tuple[int, Job]]:
        """The section's jobs with their places among all."""
        return [(at, job) for at, (name, job) in enumerate(self.jobs) if name == section]


def plan(
    n: int, sections: Sequence[str], length: int | None, lengths: Sequence[int],
    long: tuple[int, int] = grid.LONG_LENGTHS, budget: int = longest.BUDGET,
) -> Plan:  # fmt: skip
    """What `n` ranks run for these sections."""
    jobs: list[tuple[str, Job]] = []
    full: list[Job] = []
    most = None
    if GRID in sections:
        tokens = grid.LENGTH if length is None else length
        jobs += [(GRID, job) for job in (*grid.grid(n, tokens), *grid.others(n, tokens))]
    if LONG in sections:
        jobs += [(LONG, job) for job in grid.long_jobs(n, long)]
    if MEMORY in sections and n > 1:
        jobs += [(MEMORY, job) for job in memory.ring_jobs(n, lengths)]
        full += memory.full_jobs([T for T in memory.FULL_LENGTHS if max(lengths) >= T])
    if LONGEST in sections and n > 1:
        most = longest.longest(n, budget)
        jobs += [(LONGEST, job) for job in most.ring_jobs]
        full += most.full_jobs
    if BYTES in sections:
        jobs += [(BYTES, job) for job in traffic.jobs(n)]
    return Plan(n, jobs, full, most)


def take_full(result: Result, plan: Plan, run: Run) -> None:
    """Add what full attention on one rank held."""
    of_longest = plan.longest.full_jobs if plan.longest else []
    found = memory.peaks(plan.full, run)
    result.values["full peaks"] = [one for one in found if one.job not in of_longest]
    result.values["longest"] = [one for one in found if one.job in of_longest]
    result.checks += memory.checks(result.values["full peaks"])


def take(result: Result, plan: Plan, parts: Mapping, run: Run) -> None:
    """Add the checks of the ring's run, and what figures draw from."""
    result.run = run
    wholes = parity.Wholes()
    for section in (GRID, LONG):
        held = [parity.hold(job, at, run, parts, wholes) for at, job in plan.numbers(section)]
        result.values[section] = held
        for way, what in ((RING, section), (ULYSSES, "Ulysses"), (TORCH, "torch's ring")):
            result.checks += parity.checks([one for one in held if one.job.way == way], what)
        if section == LONG:
            first = held[0].job.length if held else 0
            alike = [one for one in held if one.job.length == first]
            result.checks += parity.growth(alike, f"T={first}, fp32")
    peaks = memory.peaks([job for _, job in plan.numbers(MEMORY)], run)
    result.values["ring peaks"] = peaks
    result.checks += memory.checks(peaks)
    if plan.longest:
        told = memory.peaks([job for _, job in plan.numbers(LONGEST)], run)
        result.values["longest"] = [*result.values.get("longest", []), *told]
        result.checks += longest.checks(plan.longest, result.values["longest"])
    result.checks += traffic.checks([job for _, job in plan.numbers(BYTES)], run)
