"""Executors that do one thing wrong, run on ranks beside the right one.

Used by test_pipeline_mutants.py and test_pipeline_channels.py.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from unittest.mock import patch

import torch

from labs.pipeline import executor, on_rank
from labs.pipeline.jobs import Job
from labs.pipeline.messages import RECEIVES, Messages
from labs.schedules.instructions import Schedule
from solutions.one_f_one_b import micro_batch_loss

HELD = 0.015  # seconds


@contextlib.contextmanager
def held_receives() -> Iterator[None]:
    """Every message reaches the rank 15 ms after it has come."""
    receive = Messages.receive

    def late(self, at):
        got = receive(self, at)
        time.sleep(HELD)
        return got

    with patch.object(Messages, "receive", late):
        yield


@contextlib.contextmanager
def same_slice() -> Iterator[None]:
    """Every micro-batch reads the first one's tokens."""
    cut, calls = on_rank.micro_batches, []

    def first(batch, count):
        calls.append(count)
        parts = cut(batch, count)
        return parts[:1] * count if len(calls) % 3 == 1 else parts  # tokens, targets, valid

    with patch.object(on_rank, "micro_batches", first):
        yield


class _Kept(dict):
    """Gives away what it holds and holds it all the same."""

    def pop(self, key):
        return self[key]


@contextlib.contextmanager
def kept_activations(graph: bool) -> Iterator[None]:
    """A forward pass stays stored after its backward pass; graph: with all that autograd saved."""
    start, backward = executor._Running.__init__, torch.autograd.backward

    def keeping(self, *given):
        start(self, *given)
        self.saved = _Kept()

    def retaining(*given, **more):
        backward(*given[:2], retain_graph=graph)

    with (
        patch.object(executor._Running, "__init__", keeping),
        patch.object(torch.autograd, "backward", retaining),
    ):
        yield


@contextlib.contextmanager
def kept_sends() -> Iterator[None]:
    """What is sent is held to the end of the step."""
    with patch.object(Messages, "_let_go", lambda *given: None):
        yield


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """A channel for each direction and no tags, as where NCCL carries the messages."""
    with patch.object(on_rank, "channels", partial(on_rank.channels, apart=True)):
        yield


@contextlib.contextmanager
def own_order() -> Iterator[None]:
    """As `apart`, and receives are posted as the receiver wants them, not as they are sent."""
    start = Messages.__init__

    def own(self, schedule, rank, programs, *given):
        start(self, schedule, rank, programs, *given)
        wanted = [at for at in programs[rank] if at.kind in RECEIVES]
        for coming in self._coming.values():
            coming.sort(key=wanted.index)

    with apart(), patch.object(Messages, "__init__", own):
        yield


def not_divided(losses, valid, valid_in_batch):
    return (losses * valid).sum()


def divided_twice(losses, valid, valid_in_batch):
    return micro_batch_loss(losses, valid, valid_in_batch) / 4


def mean_of_its_own(losses, valid, valid_in_batch):
    """Each micro-batch counts as much as any other, whatever its number of tokens."""
    return (losses * valid).sum() / valid.sum().clamp(min=1) / 4


RIGHT = "right"
MUTANTS: dict[str, Callable] = {
    RIGHT: contextlib.nullcontext,
    "receives held": held_receives,
    "same slice": same_slice,
    "activations kept": partial(kept_activations, graph=False),
    "graphs kept": partial(kept_activations, graph=True),
    "sends kept": kept_sends,
    "apart": apart,
    "own order": own_order,
    "not divided": contextlib.nullcontext,
    "divided twice": contextlib.nullcontext,
    "mean of means": contextlib.nullcontext,
    "other programs": contextlib.nullcontext,
}
LOSSES = {
    "not divided": not_divided, "divided twice": divided_twice, "mean of means": mean_of_its_own,
}  # fmt: skip


def run(todo: Sequence[tuple[str, str, Job]]) -> list[dict | None]:
    """On a rank: each (mutant, part, job) in turn. The ledger's sections are those of `section`."""
    found = []
    for mutant, some in groupby(todo, key=lambda one: one[0]):
        jobs = [replace(job, name=section(mutant, part, job.name)) for _, part, job in some]
        with MUTANTS[mutant]():
            found += on_rank.on_rank(jobs, LOSSES.get(mutant, micro_batch_loss))
    return found


def section(mutant: str, part: str, name: str) -> str:
    """What the messages of a job are booked under."""
    return f"{mutant}, {part}: {name}"


def in_order_of_the_sends(schedule: Schedule) -> bool:
    """Whether every rank takes the messages of each channel in the order in which they are sent."""
    programs = [schedule.program(rank) for rank in range(schedule.ranks)]
    for rank, program in enumerate(programs):
        wanted = [at for at in program if at.kind in RECEIVES]
        made = Messages(schedule, rank, programs, torch.empty(1), None, None)
        for coming in made._coming.values():
            if coming != sorted(coming, key=wanted.index):
                return False
    return True
