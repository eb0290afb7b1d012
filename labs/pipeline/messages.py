"""The messages between the stages of a pipeline: receives posted ahead, sends under way.

gloo matches a message by its tag, so each has its own and no order can mix two up. NCCL knows no
tags and carries out what two ranks exchange one after the other, so there each direction has a
channel (a group) of its own, and receives are posted in the order in which the sender sends: that
order is data, in the schedule.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from labs import ranks
from labs.schedules.instructions import (
    RECEIVE_BACKWARD,
    RECEIVE_FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    Instruction,
    Schedule,
)

RECEIVES = (RECEIVE_FORWARD, RECEIVE_BACKWARD)
SENDS = (SEND_FORWARD, SEND_BACKWARD)
# A gradient that is sent is part of the backward pass, though the sender is done with computing it.
_PHASE = dict.fromkeys((SEND_FORWARD, RECEIVE_FORWARD), "forward") | dict.fromkeys(
    (SEND_BACKWARD, RECEIVE_BACKWARD), "backward"
)
_AHEAD = 1  # receives of a channel that are posted besides the one that is waited for
Channel = tuple[str, bool]  # forward or backward, and whether it goes round from the last rank
Programs = Sequence[Sequence[Instruction]]


def tag(schedule: Schedule, rank: int, at: Instruction) -> int:
    """One for each message of a step; the same at both ends."""
    stage = schedule.stage(rank, at.chunk)
    back = at.kind in (SEND_BACKWARD, RECEIVE_BACKWARD)
    before = at.kind in (RECEIVE_FORWARD, SEND_BACKWARD)
    boundary = stage - 1 if before else stage
    return (boundary * schedule.micro_batches + at.micro_batch) * 2 + back


def other_end(schedule: Schedule, rank: int, send: Instruction) -> Instruction:
    """The receive, on the peer, of a send of `rank`."""
    forwards = send.kind == SEND_FORWARD
    stage = schedule.stage(rank, send.chunk) + (1 if forwards else -1)
    kind = RECEIVE_FORWARD if forwards else RECEIVE_BACKWARD
    return Instruction(kind, send.micro_batch, schedule.home(stage)[1])


def channels(size: int, apart: bool | None = None) -> dict[Channel, dist.ProcessGroup] | None:
    """A group of the first `size` ranks for each channel; None where tags do (gloo).

    All ranks of the world call it in the same order, those outside of it too: ranks that had made
    other numbers of groups before would not find each other. apart: make them whatever the backend.
    """
    if size == 1 or not (dist.get_backend() == "nccl" if apart is None else apart):
        return None
    return {
        (kind, round_): dist.new_group(range(size))
        for kind in (RECEIVE_FORWARD, RECEIVE_BACKWARD)
        for round_ in (False, True)
    }


class Messages:
    """One rank's messages. Tensors have one shape and type, and `more` numbers after them."""

    def __init__(
        self, schedule: Schedule, rank: int, programs: Programs, like: torch.Tensor,
        group: dist.ProcessGroup | None, channels: dict[Channel, dist.ProcessGroup] | None,
    ) -> None:  # fmt: skip
        self.schedule, self.rank, self.like, self.group = schedule, rank, like, group
        self.channels = channels
        self._coming: dict[tuple, list[Instruction]] = {}  # by (peer, channel), as they are sent
        for peer, program in enumerate(programs):
            for at in program if peer != rank else ():
                if at.kind in SENDS and schedule.peer(peer, at) == rank:
                    mine = other_end(schedule, peer, at)
                    self._coming.setdefault((peer, self._channel(mine)), []).append(mine)
        self._taken = {peer: self._taken_by(peer, program) for peer, program in enumerate(programs)}

    def _taken_by(self, peer: int, program: Sequence[Instruction]) -> dict:
        """By message from `peer`: which of this rank's it has received by the time it sends it."""
        new, found = [], {}
        for at in program:
            if self.schedule.peer(peer, at) != self.rank or peer == self.rank:
                continue
            if at.kind in RECEIVES:
                new.append(at)
            elif at.kind in SENDS:
                found[other_end(self.schedule, peer, at)] = new
                new = []
        return found

    def begin(self) -> None:
        """A new step: post the first receives."""
        self._left = {key: list(reversed(coming)) for key, coming in self._coming.items()}
        self._posted: dict[Instruction, tuple[dist.Work, torch.Tensor]] = {}
        self._sent: dict[tuple, tuple[dist.Work, torch.Tensor]] = {}  # by peer and its receive
        for key in self._left:
            for _ in range(_AHEAD):
                self._post_next(key)

    def _channel(self, receive: Instruction) -> Channel:
        peer = self.schedule.peer(self.rank, receive)
        forwards = receive.kind == RECEIVE_FORWARD
        return receive.kind, (peer > self.rank) == forwards

    def _post_next(self, key: tuple) -> None:
        if self._left[key]:
            self._post(self._left[key].pop())

    def _where(self, at: Instruction, receive: Instruction) -> dict:
        if self.channels is None:
            return dict(group=self.group, tag=tag(self.schedule, self.rank, at))
        return dict(group=self.channels[receive], tag=0)

    def _post(self, at: Instruction) -> None:
        room = torch.empty_like(self.like)
        where = self._where(at, self._channel(at))
        with ranks.phase(_PHASE[at.kind]):
            work = dist.irecv(room, group_src=self.schedule.peer(self.rank, at), **where)
        self._posted[at] = (work, room)

    def receive(self, at: Instruction) -> torch.Tensor:
        """Post the next message of its channel, and wait for this one.

        In this order: to post takes the rank a moment, and while it waits it has nothing to do.
        """
        key = (self.schedule.peer(self.rank, at), self._channel(at))
        while at not in self._posted:
            if at in self._left.get(key, ()):
                self._post_next(key)
            else:  # nobody's program sends it
                self._post(at)
        work, room = self._posted.pop(at)
        if key in self._left:
            self._post_next(key)
        work.wait()
        for taken in self._taken[key[0]].get(at, ()):  # by now these have arrived
            self._let_go(key[0], taken)
        return room

    def _let_go(self, peer: int, taken: Instruction) -> None:
        held = self._sent.pop((peer, taken), None)
        if held:
            held[0].wait()

    def send(self, at: Instruction, tensor: torch.Tensor) -> None:
        """Send, and go on. The tensor is held until a later message tells that it has arrived.

        To ask the message itself would be to wait for it: gloo does not say whether it has left.
        """
        peer = self.schedule.peer(self.rank, at)
        forwards = at.kind == SEND_FORWARD
        channel = (
            RECEIVE_FORWARD if forwards else RECEIVE_BACKWARD,
            (self.rank > peer) == forwards,
        )
        with ranks.phase(_PHASE[at.kind]):
            work = dist.isend(tensor, group_dst=peer, **self._where(at, channel))
        self._sent[peer, other_end(self.schedule, self.rank, at)] = (work, tensor)

    def end(self) -> None:
        """Wait until every message has left."""
        for work, _ in self._sent.values():
            work.wait()
        self._sent = {}
