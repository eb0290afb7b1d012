"""Calls, waits and places in a program, in words."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labs.ranks import output
from labs.ranks.doctor.standing import ROOTED, Call
from labs.ranks.journal import RECV, RECV_ANY, SEND


@dataclass(frozen=True)
class Places:
    """Names the lines of a run's code as the learner knows them.

    folder: of the run, where the cells lie as files; labels: the cell that each such file holds.
    """

    folder: Path | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def own(self, file: str) -> bool:
        """Whether the file is one of the learner's cells."""
        return Path(file).name in self.labels and file.startswith(str(self.folder))

    def tell(self, file: str, line: int) -> str:
        """ "cell [5], line 4: dist.send(x, 1)"; "" for an unknown place."""
        if not file:
            return ""
        linecache.checkcache(file)  # it may have been edited since
        text = output.clean(linecache.getline(file, line), self.folder).strip()
        name = self.labels[Path(file).name] if self.own(file) else output.clean(file, self.folder)
        return f"{name}, line {line}" + (f": {text[:100]}" if text else "")


def some(ranks: Sequence[int]) -> str:
    """ "rank 2", "ranks 0 and 1", "ranks 0, 2 and 3", "ranks 0 and 2–7"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    told = []
    for run in runs:
        told += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else map(str, run)
    names = f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]
    return f"rank{'s' if len(ranks) > 1 else ''} {names}"


def verb(ranks: Sequence[int], one: str, many: str) -> str:
    return one if len(ranks) == 1 else many


def nth(place: int) -> str:
    """1st, 2nd, 3rd, 4th, … 11th …"""
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10)
    return f"{place}{ending or 'th'}"


def tensor(call: Call) -> str:
    """ "(4, 8) float32", or its bytes where the shape is not known."""
    if call.dtype == "?":
        return f"{call.payload:,} bytes" if call.payload else ""
    if call.shape is None:
        return f"{call.payload:,} bytes of {call.dtype}"
    shape = f"({call.shape[0]},)" if len(call.shape) == 1 else str(call.shape)
    return f"{shape} {call.dtype}"


def group(call: Call) -> str:
    """ "world", or the axis, or the ranks of a group without a name."""
    return call.group.axis


def on(call: Call) -> str:
    """ " on tp" for a group that is not all ranks."""
    return "" if group(call) == "world" else f" on {group(call)}"


def doing(call: Call) -> str:
    """A call as what one waits in, after "rank 0 waits "."""
    if call.kind in (SEND, RECV, RECV_ANY):
        tag = f" with tag {call.tag}" if call.tag else ""
        where = on(call)
        what = f"{tensor(call)} " if tensor(call) else ""
        if call.kind == SEND:
            return f"to send {what}to rank {call.peer}{tag}{where}"
        who = "any rank" if call.peer is None else f"rank {call.peer}"
        return f"to receive {what}from {who}{tag}{where}"
    if call.op == "new_group":
        return "in new_group, which every rank of the world must call"
    return f"in {collective(call)}"


def collective(call: Call, always: bool = False) -> str:
    """A collective with its tensor, root and place. always: name the reduction SUM too."""
    what = f" of {tensor(call)}" if tensor(call) else ""
    root = f" with root {call.peer}" if call.op in ROOTED and call.peer is not None else ""
    named = call.reduction and (always or call.reduction != "SUM")
    reduction = f" ({call.reduction})" if named else ""
    return f"{call.op}{reduction}{what}{root}, its {nth(call.place)} collective{on(call)}"


def short(call: Call) -> str:
    """A call in a word or two, for an arrow in a picture."""
    return {"send": "send", "recv": "recv", "recv_any": "recv"}.get(call.op, call.op)


def number(count: int, of: str) -> str:
    """ "no message", "1 message", "2 messages"."""
    return f"{count or 'no'} {of}{'' if count == 1 else 's'}"
