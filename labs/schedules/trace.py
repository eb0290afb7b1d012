"""Computations and messages as trace events, for Perfetto (ui.perfetto.dev) or chrome://tracing.

Each rank is a process of the trace. What it computed is one track of slices, one after the other,
with arrows to what needed it; its messages overlap, so they are asynchronous events on tracks of
their own beside it. Format: "Trace Event Format", Google 2016; times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from labs.schedules.instructions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    FORWARD,
)
from labs.schedules.timeline import Span, Timeline

_NAMES = {
    FORWARD: "forward", BACKWARD: "backward", BACKWARD_INPUT: "backward, input",
    BACKWARD_WEIGHT: "backward, weights",
}  # fmt: skip
# Names of colours that both viewers know.
_COLOURS = {
    FORWARD: "thread_state_runnable", BACKWARD: "thread_state_iowait",
    BACKWARD_INPUT: "thread_state_iowait", BACKWARD_WEIGHT: "thread_state_running",
}  # fmt: skip


@dataclass(frozen=True)
class Computed:
    """What ranks computed in one step, in the seconds of a run's timeline.

    began: by rank, when the timeline's own zero was, in seconds since the launch.
    """

    name: str
    timeline: Timeline
    began: tuple[float, ...]


def track(rank: int) -> dict[str, int]:
    """Process and thread of a rank. Both from 1 on: 0 is the idle process of Linux to Perfetto."""
    return dict(pid=rank + 1, tid=rank + 1)


def to_events(
    timeline: Timeline, offset: float | Sequence[float] = 0.0, name: str = "", first: int = 0
) -> list[dict]:
    """A slice for each computation, and an arrow from each to that of the next stage.

    offset: seconds that are added to the timeline's, for all ranks or by rank; name: of the step;
    first: the least number that no other arrow of the trace has. Two events an arrow.
    """
    ranks = timeline.schedule.ranks
    by_rank = [float(offset)] * ranks if isinstance(offset, (int, float)) else list(offset)
    moved = [
        Span(s.rank, s.instruction, s.start + by_rank[s.rank], s.end + by_rank[s.rank])
        for s in timeline.spans()
    ]
    return [*(_slice(span, name) for span in moved), *_arrows(timeline, moved, first)]


def _slice(span: Span, name: str) -> dict:
    kind, i, chunk = span.instruction
    begin, end = _ns(span.start), max(_ns(span.start), _ns(span.end))
    return dict(name=str(span.instruction), cat=_NAMES[kind], ph="X", **track(span.rank),
                ts=begin / 1e3, dur=(end - begin) / 1e3, cname=_COLOURS[kind],
                args=dict(step=name, micro_batch=i, chunk=chunk))  # fmt: skip


def _ns(seconds: float) -> int:
    """Whole nanoseconds: a slice may not end after the next one's start by a rounding."""
    return round(seconds * 1e9)


def _arrows(timeline: Timeline, spans: Iterable[Span], first: int) -> list[dict]:
    """From a computation to the one on another rank that needs what it made."""
    schedule, numbers, found = timeline.schedule, count(first), []
    at: dict[tuple[bool, int, int], Span] = {}  # (forward, micro-batch, stage)
    for span in spans:
        kind, i, chunk = span.instruction
        if kind != BACKWARD_WEIGHT:
            at[kind == FORWARD, i, schedule.stage(span.rank, chunk)] = span
    for (forward, i, stage), span in at.items():
        needs = at.get((forward, i, stage + (1 if forward else -1)))
        if needs is None or needs.rank == span.rank:
            continue
        both = dict(name="activation" if forward else "gradient", cat="needs", id=next(numbers))
        # An arrow belongs to the slice that is there at its time: the last moment of the first.
        leaves = span.start + 0.99 * (span.end - span.start)
        found.append(dict(both, ph="s", **track(span.rank), ts=_ns(leaves) / 1e3))
        found.append(dict(both, ph="f", bp="e", **track(needs.rank), ts=_ns(needs.start) / 1e3))
    return found


def messages(timeline: Sequence[dict]) -> list[dict]:
    """Begin and end of each call of a run's timeline (labs/ranks/book.py); no end: length 0."""
    found = []
    for number, e in enumerate(timeline):
        end = e["start"] if e["end"] is None else max(e["start"], e["end"])
        args = {"payload_bytes": e["payload_bytes"], "section": e["section"], "phase": e["phase"]}
        args |= {"peer": e["peer"]} if "peer" in e else {}
        both = dict(name=f"{e['op']} {e['axis']}", cat="messages", id=number, **track(e["rank"]))
        found.append(dict(both, ph="b", ts=_ns(e["start"]) / 1e3, args=args))
        found.append(dict(both, ph="e", ts=_ns(end) / 1e3))
    return found


def named(ranks: Iterable[int]) -> list[dict]:
    """What the viewers show as the names of processes and tracks, in the order of the ranks."""
    found = []
    for rank in ranks:
        both = dict(ph="M", **track(rank))
        found.append(dict(both, name="process_name", args={"name": f"rank {rank}"}))
        found.append(dict(both, name="process_sort_index", args={"sort_index": rank}))
        found.append(dict(both, name="thread_name", args={"name": "computations"}))
    return found


def trace(computed: Sequence[Computed], timeline: Sequence[dict]) -> dict:
    """The whole trace of a run: computations and messages in the order of their times."""
    steps: list[dict] = []
    arrows = 0
    for one in computed:
        new = to_events(one.timeline, one.began, one.name, arrows)
        arrows += sum(event["ph"] == "s" for event in new)
        steps += new
    events = [*steps, *messages(timeline)]
    # What begins comes before what ends or refers to it at the same moment: sorting is stable.
    events.sort(key=lambda event: event["ts"])
    ranks = {e["rank"] for e in timeline} | {r for c in computed for r in range(len(c.began))}
    return {"traceEvents": [*named(sorted(ranks)), *events]}
