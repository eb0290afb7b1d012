"""Runs a schedule on real ranks: one short loop over the rank's instructions, messages and all.

The executor decides nothing: what is done in which order is the schedule's, so a wrong schedule
runs wrongly, or not at all, and shows it. Receives are posted two ahead and sends are not waited
for until the end, so that a message travels while the rank computes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn

from labs.pipeline.device_clock import DeviceClock
from labs.pipeline.split_backward import Split
from labs.schedules.instructions import (
    BACKWARD_WEIGHT,
    FORWARD,
    RECEIVE_BACKWARD,
    RECEIVE_FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    Instruction,
    Schedule,
)

_AHEAD = 2  # receives that are posted before they are needed
_RECEIVES = (RECEIVE_FORWARD, RECEIVE_BACKWARD)
_SENDS = (SEND_FORWARD, SEND_BACKWARD)


@dataclass
class Step:
    """What one rank did in one step. Times in seconds since `origin` (time.monotonic)."""

    origin: float
    done: list[Instruction] = field(default_factory=list)  # what was computed, as it was computed
    starts: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    stored: int = 0
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
    micro-batch; group: the pipeline's ranks in their order, None: all; clock: a simulated device.
    """

    def __init__(
        self, schedule: Schedule, chunks: Sequence[nn.Module], shape: Sequence[int],
        dtype: torch.dtype = torch.float32, *, device: torch.device | str = "cpu",
        group: dist.ProcessGroup | None = None, clock: DeviceClock | None = None,
    ) -> None:  # fmt: skip
        self.schedule, self.chunks, self.clock, self.group = schedule, list(chunks), clock, group
        self.rank = dist.get_rank(group)
        if len(self.chunks) != schedule.chunks or dist.get_world_size(group) != schedule.ranks:
            raise ValueError(
                f"{schedule.name} needs {schedule.ranks} ranks of {schedule.chunks} chunks; there "
                f"are {dist.get_world_size(group)} ranks, and {len(self.chunks)} chunks on this one"
            )
        self.shape, self.dtype, self.device = tuple(shape), dtype, device
        self.split = [Split(chunk) for chunk in chunks] if schedule.splits_backward else None
        self.program = schedule.program(self.rank)
        self.last = schedule.stages - 1
        self._coming = [at for at in self.program if at.kind in _RECEIVES and self._far(at)]

    def _far(self, at: Instruction) -> bool:
        return self.schedule.peer(self.rank, at) != self.rank

    def _tag(self, at: Instruction) -> int:
        """One for each message of a step, so that no order can mix them up."""
        stage = self.schedule.stage(self.rank, at.chunk)
        back = at.kind in (SEND_BACKWARD, RECEIVE_BACKWARD)
        before = at.kind in (RECEIVE_FORWARD, SEND_BACKWARD)
        boundary = stage - 1 if before else stage
        return (boundary * self.schedule.micro_batches + at.micro_batch) * 2 + back

    def step(
        self, inputs: Mapping[int, torch.Tensor] | Sequence[torch.Tensor] = (),
        losses: Sequence[Callable[[torch.Tensor], torch.Tensor]] = (), origin: float | None = None,
    ) -> Step:  # fmt: skip
        """One step: all micro-batches, forward and backward; gradients are added to the parameters.

        inputs: what the first stage reads, a micro-batch each; losses: a scalar of the last stage's
        output, a micro-batch each, scaled so that their sum is the step's loss.
        origin: time zero, one for all ranks (None: now).
        """
        run = _Running(self, inputs, losses, time.monotonic() if origin is None else origin)
        if self.clock is not None:
            self.clock.start(run.step.origin)
        for at in self.program:
            if at.kind in _RECEIVES:
                run.receive(at)
            elif at.kind in _SENDS:
                run.send(at)
            else:
                run.compute(at)
        return run.finish()


class _Running:
    """The state of one step."""

    def __init__(self, of: Executor, inputs: Sequence, losses: Sequence, origin: float) -> None:
        self.of, self.inputs, self.losses = of, inputs, losses
        self.step = Step(origin)
        self.posted: dict[Instruction, tuple] = {}  # receives under way
        self.next = 0  # of those that are to be posted
        self.here: dict[Instruction, tuple[torch.Tensor, float]] = {}  # arrived: tensor, ready at
        self.saved: dict[tuple[int, int], tuple] = {}  # (input, output) of a forward pass
        self.deferred: dict[tuple[int, int], list] = {}
        self.leaving: dict[tuple, tuple[torch.Tensor, float]] = {}  # computed, not yet sent
        self.sent: list[tuple] = []
        self.summed: list[torch.Tensor] = []
        for _ in range(_AHEAD):
            self._post()

    def _post(self) -> None:
        """Post the next receive, if there is one."""
        of = self.of
        if self.next == len(of._coming):
            return
        at = of._coming[self.next]
        self.next += 1
        size = torch.Size(of.shape)
        if of.clock is None:
            buffer = torch.empty(size, dtype=of.dtype, device=of.device)
        else:  # one number more: when the sender had it ready
            buffer = torch.empty(size.numel() + 1, dtype=of.dtype, device=of.device)
        peer = of.schedule.peer(of.rank, at)
        work = dist.irecv(buffer, group_src=peer, group=of.group, tag=of._tag(at))
        self.posted[at] = (work, buffer)

    def receive(self, at: Instruction) -> None:
        if not self.of._far(at):
            return  # handed over by this rank itself, in `send`
        work, buffer = self.posted.pop(at)
        work.wait()
        self._post()
        if self.of.clock is None:
            self.here[at] = (buffer, 0.0)
        else:
            self.here[at] = (buffer[:-1].view(self.of.shape), buffer[-1].item())

    def send(self, at: Instruction) -> None:
        of = self.of
        tensor, ready = self.leaving.pop((at.kind, at.micro_batch, at.chunk))
        if not of._far(at):
            to_next = at.kind == SEND_FORWARD
            kind = RECEIVE_FORWARD if to_next else RECEIVE_BACKWARD
            chunk = at.chunk + (1 if to_next else -1)
            self.here[Instruction(kind, at.micro_batch, chunk)] = (tensor, ready)
            return
        if of.clock is not None:
            tensor = torch.cat([tensor.flatten(), tensor.new_tensor([ready])])
        peer = of.schedule.peer(of.rank, at)
        work = dist.isend(tensor.contiguous(), group_dst=peer, group=of.group, tag=of._tag(at))
        self.sent.append((work, tensor))

    def compute(self, at: Instruction) -> None:
        of, step = self.of, self.step
        kind, i, chunk = at
        stage = of.schedule.stage(of.rank, chunk)
        began = time.monotonic()
        if kind == FORWARD:
            ready = self._forward(i, chunk, stage)
        elif kind == BACKWARD_WEIGHT:
            Split.finish(self.deferred.pop((i, chunk)))
            ready = 0.0
            step.stored -= 1
        else:
            ready = self._backward(i, chunk, stage)
        if of.clock is not None:
            _, end = of.clock.compute(kind, chunk, ready)
            for key in ((SEND_FORWARD, i, chunk), (SEND_BACKWARD, i, chunk)):
                if key in self.leaving:
                    self.leaving[key] = (self.leaving[key][0], end)
        step.done.append(at)
        step.starts.append(began - step.origin)
        step.ends.append(time.monotonic() - step.origin)

    def _forward(self, i: int, chunk: int, stage: int) -> float:
        of, ready = self.of, 0.0
        if stage == 0:
            x = self.inputs[i]
        else:
            x, ready = self.here.pop(Instruction(RECEIVE_FORWARD, i, chunk))
            x = x.requires_grad_(of.schedule.has_backward)
        y = of.chunks[chunk](x)
        if stage == of.last:
            y = self.losses[i](y) if self.losses else y
            self.summed.append(y.detach())
        else:
            self.leaving[SEND_FORWARD, i, chunk] = (y.detach(), ready)
        if of.schedule.has_backward:
            self.saved[i, chunk] = (x, y)
            self.step.stored += 1
            self.step.peak_stored = max(self.step.peak_stored, self.step.stored)
        return ready

    def _backward(self, i: int, chunk: int, stage: int) -> float:
        of, ready = self.of, 0.0
        x, y = self.saved.pop((i, chunk))
        if stage == of.last:
            y.backward()
        else:
            gradient, ready = self.here.pop(Instruction(RECEIVE_BACKWARD, i, chunk))
            torch.autograd.backward(y, gradient)
        if stage > 0:
            self.leaving[SEND_BACKWARD, i, chunk] = (x.grad, ready)
        if of.split is not None:
            self.deferred[i, chunk] = of.split[chunk].take()
        else:
            self.step.stored -= 1
        return ready

    def finish(self) -> Step:
        for work, _ in self.sent:
            work.wait()
        if self.summed and self.losses:
            self.step.loss = torch.stack(self.summed).sum().item()
        return self.step
