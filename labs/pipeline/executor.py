"""Runs a schedule on real ranks: one short loop over the rank's instructions, messages and all.

The executor decides nothing: what is done in which order is the schedule's, so a wrong schedule
runs wrongly, or not at all, and shows it. A message travels while the rank computes
(labs/pipeline/messages.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn

from labs.pipeline.device_clock import DeviceClock
from labs.pipeline.messages import RECEIVES, SENDS, Channel, Messages, Programs, other_end
from labs.pipeline.split_backward import Split
from labs.pipeline.stamps import stamps
from labs.schedules.instructions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
    RECEIVE_BACKWARD,
    RECEIVE_FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    Instruction,
    Schedule,
)

Losses = Sequence[Callable[[torch.Tensor], torch.Tensor]]


@dataclass
class Step:
    """What one rank did in one step. Times in seconds since `origin` (time.monotonic)."""

    origin: float
    done: list[Instruction] = field(default_factory=list)  # what was computed, as it was computed
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    peak_stored: int = 0  # most forward passes stored at once
    loss: float | None = None  # on the rank of the last stage

    def to_dict(self) -> dict:
        """Plain data, to be reported by a rank."""
        return dict(
            done=[tuple(at) for at in self.done], starts=self.starts, ends=self.ends,
            peak_stored=self.peak_stored, loss=self.loss,
        )  # fmt: skip


class Executor:
    """One rank's part of a pipeline.

    chunks: the rank's stages, chunk by chunk; shape, dtype: of what travels between stages, for one
    micro-batch; group: the pipeline's ranks in their order, None: all; clock: a simulated device;
    programs: what each rank does, messages and all (None: as the schedule says); channels: see
    labs/pipeline/messages.py.

    Raises ValueError when ranks or chunks are not those of the schedule.
    """

    def __init__(
        self, schedule: Schedule, chunks: Sequence[nn.Module], shape: Sequence[int],
        dtype: torch.dtype = torch.float32, *, device: torch.device | str = "cpu",
        group: dist.ProcessGroup | None = None, clock: DeviceClock | None = None,
        programs: Programs | None = None,
        channels: dict[Channel, dist.ProcessGroup] | None = None,
    ) -> None:  # fmt: skip
        self.schedule, self.chunks, self.clock = schedule, list(chunks), clock
        self.rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        if len(self.chunks) != schedule.chunks or ranks != schedule.ranks:
            raise ValueError(
                f"{schedule.name} needs {schedule.ranks} ranks of {schedule.chunks} chunks; there "
                f"are {ranks} ranks, and {len(self.chunks)} chunks on this one"
            )
        self.shape, self.device = torch.Size(shape), torch.device(device)
        self.split = [Split(chunk) for chunk in chunks] if schedule.splits_backward else None
        if programs is None:
            programs = [schedule.program(rank) for rank in range(ranks)]
        self.program = programs[self.rank]
        self.last = schedule.stages - 1
        # On a simulated device one number more travels: when the sender had it ready.
        size = self.shape if clock is None else (self.shape.numel() + 1,)
        like = torch.empty(size, dtype=dtype, device=self.device)
        self.messages = Messages(schedule, self.rank, programs, like, group, channels)

    def step(
        self, inputs: Mapping[int, torch.Tensor] | Sequence[torch.Tensor] = (),
        losses: Losses = (), origin: float | None = None,
    ) -> Step:  # fmt: skip
        """One step: all micro-batches, forward and backward; gradients are added to the parameters.

        inputs: what the first stage reads, a micro-batch each; losses: a scalar of the last stage's
        output, a micro-batch each, scaled so that their sum is the step's loss.
        origin: time zero, one for all ranks (None: now).
        """
        run = _Running(self, inputs, losses, time.monotonic() if origin is None else origin)
        self.messages.begin()
        if self.clock is not None:
            self.clock.start(run.step.origin)
        for at in self.program:
            if at.kind in RECEIVES:
                run.receive(at)
            elif at.kind in SENDS:
                run.send(at)
            else:
                run.compute(at)
        return run.finish()


class _Running:
    """The state of one step."""

    def __init__(self, of: Executor, inputs: Sequence, losses: Losses, origin: float) -> None:
        self.of, self.inputs, self.losses = of, inputs, losses
        self.step = Step(origin)
        self.stamps = stamps(of.device, origin)
        self.here: dict[Instruction, tuple[torch.Tensor, float]] = {}  # arrived: tensor, ready at
        self.saved: dict[tuple[int, int], tuple] = {}  # (input, output) of a forward pass
        self.deferred: dict[tuple[int, int], list] = {}  # weights' gradients not yet worked out
        self.leaving: dict[tuple, tuple[torch.Tensor, float]] = {}  # computed, not yet sent
        self.summed: list[torch.Tensor] = []

    def _far(self, at: Instruction) -> bool:
        """Whether the other end is another rank; with one rank all stages are here."""
        return self.of.schedule.ranks > 1

    def receive(self, at: Instruction) -> None:
        if not self._far(at):
            return  # handed over by this rank itself, in `send`
        got = self.of.messages.receive(at)
        if self.of.clock is None:
            self.here[at] = (got, 0.0)
        else:
            self.here[at] = (got[:-1].view(self.of.shape), got[-1].item() + self.of.clock.message)

    def send(self, at: Instruction) -> None:
        of = self.of
        made_by = FORWARD if at.kind == SEND_FORWARD else self._back
        tensor, ready = self._take(self.leaving, (at.kind, at.micro_batch, at.chunk), at, made_by)
        if not self._far(at):
            self.here[other_end(of.schedule, of.rank, at)] = (tensor, ready)
            return
        if of.clock is not None:
            tensor = torch.cat([tensor.flatten(), tensor.new_tensor([ready])])
        of.messages.send(at, tensor.contiguous())

    def compute(self, at: Instruction) -> None:
        of, step = self.of, self.step
        kind, i, chunk = at
        stage = of.schedule.stage(of.rank, chunk)
        self.stamps.begin()
        here = time.monotonic() - step.origin
        if kind == FORWARD:
            ready = self._forward(at, stage)
        elif kind == BACKWARD_WEIGHT:
            Split.finish(self._take(self.deferred, (i, chunk), at, BACKWARD_INPUT))
            ready = 0.0
        else:
            ready = self._backward(at, stage)
        step.peak_stored = max(step.peak_stored, len(self.saved) + len(self.deferred))
        if of.clock is not None:
            _, end = of.clock.compute(kind, chunk, ready, here)
            for key in ((SEND_FORWARD, i, chunk), (SEND_BACKWARD, i, chunk)):
                if key in self.leaving:
                    self.leaving[key] = (self.leaving[key][0], end)
        self.stamps.end()
        step.done.append(at)

    @property
    def _back(self) -> str:
        return BACKWARD if self.of.split is None else BACKWARD_INPUT

    def _take(self, held: dict, key: tuple, at: Instruction, made_by: str) -> tuple | list:
        """What `at` needs. Raises RuntimeError, a sentence, where the program has not made it."""
        if key not in held:
            needed = at._replace(kind=made_by)
            raise RuntimeError(f"{at} needs {needed}, and this rank's program has not done it yet")
        return held.pop(key)

    def _forward(self, at: Instruction, stage: int) -> float:
        of, ready = self.of, 0.0
        _, i, chunk = at
        if stage == 0:
            x = self.inputs[i]
        else:
            arrived = Instruction(RECEIVE_FORWARD, i, chunk)
            x, ready = self._take(self.here, arrived, at, RECEIVE_FORWARD)
            x = x.requires_grad_(of.schedule.has_backward)
        y = of.chunks[chunk](x)
        if stage == of.last:
            y = self.losses[i](y) if self.losses else y
            self.summed.append(y.detach())
        else:
            self.leaving[SEND_FORWARD, i, chunk] = (y.detach(), ready)
        if of.schedule.has_backward:
            self.saved[i, chunk] = (x, y)
        return ready

    def _backward(self, at: Instruction, stage: int) -> float:
        of, ready = self.of, 0.0
        _, i, chunk = at
        x, y = self._take(self.saved, (i, chunk), at, FORWARD)
        if stage == of.last:
            y.backward()
        else:
            arrived = Instruction(RECEIVE_BACKWARD, i, chunk)
            gradient, ready = self._take(self.here, arrived, at, RECEIVE_BACKWARD)
            torch.autograd.backward(y, gradient)
        if stage > 0:
            if x.grad is None:
                made = at._replace(kind=FORWARD)
                raise RuntimeError(
                    f"{at}: no gradient reached the stage's input: the graph of {made} is cut, by "
                    "detach(), item() or a new tensor"
                )
            self.leaving[SEND_BACKWARD, i, chunk] = (x.grad, ready)
        if of.split is not None:
            self.deferred[i, chunk] = of.split[chunk].take()
        return ready

    def finish(self) -> Step:
        self.of.messages.end()
        self.step.starts, self.step.ends = self.stamps.read()
        if self.summed and self.losses:
            self.step.loss = torch.stack(self.summed).sum().item()
        return self.step
