"""A step on a mesh as data: what each rank computes, whom it meets, what it sends. Pure Python.

    compute   a part of a layer (attention, MLP) for one micro-batch, so many seconds
    meet      a collective: goes on when all of its group have come (tp after each part; dp at the
              end of the step)
    send, receive   an activation or a gradient, between neighbouring stages

The same programs are simulated here and followed by real ranks in labs/mesh/straggler.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labs.mesh.layout import Layout
from labs.schedules.instructions import (
    BACKWARD,
    FORWARD,
    RECEIVE_BACKWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    Instruction,
    Schedule,
)

COMPUTE, MEET, SEND, RECEIVE = "compute", "meet", "send", "receive"
_WITH_NEXT = (SEND_FORWARD, RECEIVE_BACKWARD)


class Act(NamedTuple):
    """One thing that a rank does. label: of the micro-batch that it is for, "F0"; ranks: the group
    that meets, or the one other end; tag: of a message."""

    what: str
    label: str
    seconds: float = 0.0
    axis: str = ""
    ranks: tuple[int, ...] = ()
    tag: int = 0


class Span(NamedTuple):
    """A rank computed (axis ""), or waited along an axis, from `start` to `end`."""

    axis: str
    label: str
    start: float
    end: float


Program = Sequence[Act]


@dataclass(frozen=True)
class Work:
    """What a rank's computation takes. Seconds of a part (of which a stage has `parts`)."""

    parts: int = 2
    forward: float = 0.006
    backward: float = 0.012
    slow: Mapping[int, float] | None = None  # rank: how many times as long it takes

    def seconds(self, kind: str, rank: int) -> float:
        """Of one part for one micro-batch."""
        times = (self.slow or {}).get(rank, 1.0)
        return times * (self.forward if kind == FORWARD else self.backward)


def programs(layout: Layout, schedule: Schedule, work: Work) -> list[list[Act]]:
    """What every rank of the mesh does in one step. `schedule` is that of each pipeline."""
    return [_program(rank, layout, schedule, work) for rank in range(layout.ranks)]


def _program(rank: int, layout: Layout, schedule: Schedule, work: Work) -> list[Act]:
    stage = layout.coordinate(rank)["pp"]
    found: list[Act] = []
    for at in schedule.program(stage):
        label = f"{at.kind[-1]}{at.micro_batch}"
        if at.kind in (FORWARD, BACKWARD):
            for _ in range(work.parts):
                found.append(Act(COMPUTE, label, work.seconds(at.kind, rank)))
                if layout.tp > 1:
                    found.append(Act(MEET, label, 0.0, "tp", tuple(layout.group(rank, "tp"))))
        elif schedule.ranks > 1:
            found.append(_message(at, label, rank, layout))
    if layout.dp > 1:
        found.append(Act(MEET, "gradients", 0.0, "dp", tuple(layout.group(rank, "dp"))))
    return found


def _message(at: Instruction, label: str, rank: int, layout: Layout) -> Act:
    what = SEND if at.kind in (SEND_FORWARD, SEND_BACKWARD) else RECEIVE
    other = layout.peers(rank, "pp", 1 if at.kind in _WITH_NEXT else -1)
    back = at.kind in (SEND_BACKWARD, RECEIVE_BACKWARD)
    return Act(what, label, 0.0, "pp", (other,), 2 * at.micro_batch + back)


def simulate(given: Sequence[Program]) -> list[list[Span]]:
    """When each rank computes and when it waits: everything starts as soon as it can.

    Messages and meetings take no time of their own. Raises ValueError for programs that wait for
    each other for ever.
    """
    ranks = [_Simulated(rank, program) for rank, program in enumerate(given)]
    sent: dict[tuple, float] = {}
    met: dict[tuple, dict[int, float]] = {}
    while any(one.left for one in ranks):
        if not sum(one.go_on(sent, met) for one in ranks):
            stuck = ", ".join(f"{one.rank} at {one.left[0].label}" for one in ranks if one.left)
            raise ValueError(f"these ranks wait for each other for ever: {stuck}")
    return [one.spans for one in ranks]


class _Simulated:
    """One rank: its time, and what it has yet to do."""

    def __init__(self, rank: int, program: Program) -> None:
        self.rank, self.left, self.now = rank, list(program), 0.0
        self.spans: list[Span] = []
        self.meetings: dict[tuple[int, ...], int] = {}  # how often it met each group

    def go_on(self, sent: dict[tuple, float], met: dict[tuple, dict[int, float]]) -> int:
        """Do what can be done; how much that was."""
        done = 0
        while self.left:
            act = self.left[0]
            until = self._until(act, sent, met)
            if until is None:
                break
            if until > self.now:
                axis = "" if act.what == COMPUTE else act.axis
                self.spans.append(Span(axis, act.label, self.now, until))
            self.now = until
            self.left.pop(0)
            done += 1
        return done

    def _until(self, act: Act, sent: dict, met: dict) -> float | None:
        """When it is done; None: it cannot be known yet."""
        if act.what == COMPUTE:
            return self.now + act.seconds
        if act.what == SEND:
            sent[self.rank, act.ranks[0], act.tag] = self.now
            return self.now
        if act.what == RECEIVE:
            there = sent.get((act.ranks[0], self.rank, act.tag))
            return None if there is None else max(self.now, there)
        number = self.meetings.get(act.ranks, 0)
        come = met.setdefault((act.ranks, number), {})
        come[self.rank] = self.now
        if len(come) < len(act.ranks):
            return None
        self.meetings[act.ranks] = number + 1
        return max(come.values())


def end(spans: Sequence[Sequence[Span]]) -> float:
    """When the last rank is done."""
    return max(span.end for of in spans for span in of)


def waited(spans: Sequence[Span]) -> dict[str, float]:
    """Of one rank, by axis: the time that it waited."""
    found = dict(tp=0.0, pp=0.0, dp=0.0)
    for span in spans:
        if span.axis:
            found[span.axis] += span.end - span.start
    return found
