"""Steps to be run on real ranks, as data: which schedule, which model, on which clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from labs import text
from labs.gpt import GPT, Shape, token_losses
from labs.schedules.instructions import Instruction, Schedule
from labs.schedules.simulate import Times, simulate

_REST = 60.0  # seconds for all but what simulated devices take
MicroBatchLoss = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
TINY = Shape(layers=8, d=16, heads=2, length=8)
COMPUTING = Shape(layers=4, d=256, heads=4, length=128)
"""A model whose stage takes 10 ms or more on one thread of a laptop."""


@dataclass(frozen=True)
class Job:
    """One schedule on the first `schedule.ranks` ranks of the world.

    times: of a simulated device, in seconds for a stage (None: compute as fast as it goes);
    rows: sequences in a micro-batch; uneven: micro-batches of unequal numbers of valid tokens, the
    first with none; tries: steps, each on fresh gradients; gradients: report them; memory: report
    the peak of live bytes; message_time: report that of one message;
    programs: see labs/pipeline/executor.py.
    """

    name: str
    schedule: Schedule
    times: Times | None = None
    model: Shape = TINY
    rows: int = 1
    dtype: torch.dtype = torch.float64
    seed: int = 0
    uneven: bool = False
    tries: int = 1
    gradients: bool = False
    memory: bool = False
    message_time: bool = False
    programs: tuple[tuple[Instruction, ...], ...] | None = field(default=None, repr=False)

    @property
    def batch(self) -> int:
        """Sequences of the whole batch."""
        return self.rows * self.schedule.micro_batches

    @property
    def message_bytes(self) -> int:
        """Bytes of what travels between two stages: (rows, T, d), and a time on a device clock."""
        numbers = self.rows * self.model.length * self.model.d + (self.times is not None)
        return numbers * self.dtype.itemsize


def limit(jobs: Sequence[Job]) -> float:
    """Seconds until a run of these jobs is ended: what its simulated devices take, and a minute."""
    timed = [job for job in jobs if job.times is not None]
    return _REST + sum(job.tries * simulate(job.schedule, job.times).makespan for job in timed)


def plain_loss(losses: torch.Tensor, valid: torch.Tensor, count: int) -> torch.Tensor:
    """A micro-batch's part of the loss where all tokens count: (B, T) losses, tokens in all."""
    return losses.sum() / count


@dataclass(frozen=True)
class Data:
    """A batch: tokens, targets and which targets count, (B, T) each."""

    tokens: torch.Tensor
    targets: torch.Tensor
    valid: torch.Tensor

    @property
    def count(self) -> int:
        """Valid tokens of the whole batch."""
        return int(self.valid.sum())


def data(job: Job) -> Data:
    """The job's batch of real text, the same wherever it is made."""
    tokens, targets = text.batch(job.batch, job.model.length, job.seed)
    valid = torch.ones_like(tokens)
    if job.uneven:
        lengths = torch.arange(job.batch) * 3 % (job.model.length + 1)
        lengths[: job.rows] = 0  # the first micro-batch
        valid = (torch.arange(job.model.length) < lengths[:, None]).long()
    return Data(tokens, targets, valid.to(job.dtype))


@dataclass(frozen=True)
class Whole:
    """The same step on one device."""

    loss: float
    gradients: dict[str, torch.Tensor]


def one_device(job: Job) -> Whole:
    """Loss and gradients of the whole batch at once: the mean over its valid tokens."""
    model, of = GPT(job.model, job.seed).to(job.dtype), data(job)
    loss = (token_losses(model(of.tokens), of.targets) * of.valid).sum() / of.count
    loss.backward()
    return Whole(loss.item(), {name: p.grad for name, p in model.named_parameters()})


def computing(schedule: Schedule, tries: int = 5) -> Job:
    """A job that really computes, long enough for messages to be small beside it."""
    return Job("real compute", schedule, None, COMPUTING, rows=4, dtype=torch.float32, tries=tries,
               message_time=True)  # fmt: skip
