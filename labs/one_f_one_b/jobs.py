"""What the lab runs, as data: each section's jobs, and the schedule that each of them is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from labs.gpt import Shape
from labs.pipeline.jobs import TINY, Job, computing
from labs.pipeline.orders import Asked, schedules
from labs.pipeline.orders import legal as linted
from labs.pipeline.partition import layer_counts
from labs.schedules.instructions import Schedule
from labs.schedules.known import KNOWN, Known
from labs.schedules.simulate import Times

SLOTS, CLOCK, COMPUTE, STORED, GRADIENTS, TORCH, COPIES = (
    "slots", "device clock", "real compute", "stored", "gradients", "torch", "copies",
)  # fmt: skip
SECTIONS = (SLOTS, CLOCK, COMPUTE, STORED, GRADIENTS, TORCH, COPIES)
FIXED_BATCH = 32
"""Sequences of the batch that is cut into more and more micro-batches."""
FULL = 6
"""Micro-batches a rank of the step that must store no more than one of 2p: what is sent is gone."""
LET_GO = "sent and let go: 1F1B"
SLOW = ("gpipe", "one_f_one_b")
"""Run with messages that take time: then the two do not take the same."""
CLOCKED = ("one_f_one_b", "interleaved", "zero_bubble")
COMPARED = ("gpipe", "one_f_one_b", "interleaved", "breadth_first", "zero_bubble")
LAYERS = 62
"""On four stages: 16, 16, 15, 15."""


@dataclass(frozen=True)
class Planned:
    """A job, its section, the schedule's name, and the formula where one applies to its time."""

    section: str
    name: str
    job: Job
    timed: bool = False

    @property
    def known(self) -> Known:
        return KNOWN[self.name]


class Orders:
    """The orders that the lab runs, each asked once for all that is wanted of it."""

    def __init__(self, parts: Mapping[str, Callable]) -> None:
        self.parts = parts
        self._made: dict[tuple[str, Asked], Schedule] = {}

    def want(self, name: str, asked: Sequence[Asked]) -> list[Schedule]:
        """Schedules by (ranks, micro-batches, chunks)."""
        new = [one for one in dict.fromkeys(asked) if (name, one) not in self._made]
        known = KNOWN[name]
        if new:
            made = linted(schedules(known, self.parts[known.order], new))
            self._made.update(
                {(name, one): schedule for one, schedule in zip(new, made, strict=True)}
            )
        return [self._made[name, one] for one in asked]

    def one(self, name: str, p: int, m: int, v: int = 1) -> Schedule:
        return self.want(name, [(p, m, v if KNOWN[name].looped else 1)])[0]


def chunks(name: str) -> int:
    """Chunks a rank in this lab."""
    return 2 if KNOWN[name].looped else 1


def legal(name: str, p: int, m: int) -> bool:
    """Whether that schedule exists: interleaved needs a multiple of p."""
    return name != "interleaved" or m % p == 0


def jobs(
    orders: Orders, p: int, sections: Sequence[str], micro_batches: Sequence[int], forward: float,
    tries: int,
) -> list[Planned]:  # fmt: skip
    """All jobs of these sections on `p` ranks."""
    found: list[Planned] = []
    if CLOCK in sections:
        for name in CLOCKED:
            v = chunks(name)
            times = Times(forward / v, 2 * forward / v)
            for m in micro_batches:
                if legal(name, p, m):
                    schedule = orders.one(name, p, m, v)
                    job = Job(f"{schedule.name} m={m}", schedule, times, tries=tries)
                    found.append(Planned(CLOCK, name, job, timed=m >= p))
        found.append(_many_layers(orders, p, forward, tries))
        found += [_slow_messages(orders, name, p, forward, tries) for name in SLOW]
    if COMPUTE in sections and p > 1:
        job = computing(orders.one("one_f_one_b", 2, 8))
        found.append(Planned(COMPUTE, "one_f_one_b", job, timed=True))
    if STORED in sections:
        found += _stored(orders, p)
    if GRADIENTS in sections:
        found += _gradients(orders, p)
    return found


def _many_layers(orders: Orders, p: int, forward: float, tries: int) -> Planned:
    """Stages of unequal numbers of layers: 62 on 4 are 16, 16, 15, 15."""
    counts = layer_counts(LAYERS, p)
    by_stage = [forward * count * p / LAYERS for count in counts]
    times = Times(by_stage, [2 * seconds for seconds in by_stage])
    job = Job(f"{LAYERS} layers", orders.one("one_f_one_b", p, 2 * p), times, tries=tries)
    return Planned(CLOCK, "one_f_one_b", job)


def _slow_messages(orders: Orders, name: str, p: int, forward: float, tries: int) -> Planned:
    """Messages that take a fifth of a forward pass: not for nothing any more."""
    times = Times(forward, 2 * forward, message=forward / 5)
    schedule = orders.one(name, p, 4 * p)
    job = Job(f"slow messages, {name}", schedule, times, tries=tries)
    return Planned(CLOCK, name, job)


def storing(p: int) -> Shape:
    """A model with a layer for each chunk of `p` ranks, two a rank where there are four."""
    return Shape(layers=max(8, 2 * p), d=64, heads=4, length=64)


def _stored(orders: Orders, p: int) -> list[Planned]:
    """Peaks in count and bytes: at a fixed micro-batch, and at a fixed batch."""
    found = []
    for name in COMPARED:
        for m in (p, 2 * p) if name == "gpipe" else (2 * p,):
            schedule = orders.one(name, p, m, chunks(name))
            job = Job(f"stored: {schedule.name} m={m}", schedule, None, storing(p), rows=2,
                      dtype=torch.float32, memory=True)  # fmt: skip
            found.append(Planned(STORED, name, job))
    for m in (2 * p, FULL * p):
        job = Job(f"{LET_GO} m={m}", orders.one("one_f_one_b", p, m), None, storing(p), rows=2,
                  dtype=torch.float32, memory=True)  # fmt: skip
        found.append(Planned(STORED, "one_f_one_b", job))
    for name in ("gpipe", "one_f_one_b"):
        for m in (4, 8, 16):
            schedule = orders.one(name, p, m)
            job = Job(f"batch of {FIXED_BATCH}: {schedule.name} m={m}", schedule, None, storing(p),
                      rows=FIXED_BATCH // m, dtype=torch.float32, memory=True)  # fmt: skip
            found.append(Planned(STORED, name, job))
    return found


def _gradients(orders: Orders, p: int) -> list[Planned]:
    """Every schedule, every smaller world, odd numbers, unequal token counts."""
    wanted: list[tuple[str, int, int, int, bool]] = [  # name, ranks, micro-batches, layers, uneven
        *(("one_f_one_b", n, 4, 8, False) for n in range(1, p + 1)),
        *(("one_f_one_b", p, m, 8, False) for m in {1, max(1, p - 2)}),
        ("one_f_one_b", min(3, p), 4, 10, False),
        ("one_f_one_b", min(2, p), 4, 7, False),
        ("one_f_one_b", p, 5, 8, True),
        ("gpipe", p, 5, 8, True),
        *((name, p, 2 * p, 2 * max(4, p), False) for name in COMPARED if name != "one_f_one_b"),
    ]
    found = []
    for name, n, m, layers, uneven in wanted:
        shape = Shape(max(layers, n * chunks(name)), TINY.d, TINY.heads, TINY.length)
        told = f"{shape.layers} layers" + (", unequal token counts" if uneven else "")
        schedule = orders.one(name, n, m, chunks(name))
        job = Job(f"{schedule.name}, p={n}, m={m}, {told}", schedule, None, shape, rows=2,
                  uneven=uneven, gradients=True)  # fmt: skip
        found.append(Planned(GRADIENTS, name, job))
    return found
