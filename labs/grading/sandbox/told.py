"""What ranks tell of themselves, held to its form: they may write whatever they like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from labs.grading.sandbox import frames
from labs.ranks import output
from labs.ranks import run as runs
from labs.ranks.run import is_victim, root_cause

__all__ = ["cause", "clean", "is_victim", "report", "standing", "tidy"]

_ROW = (int, str, str, str, str, str, int, int, float, float)  # labs.ranks.Row
_MOST = 2**50  # calls or bytes of one row
_MOST_ROWS, _MOST_CAUSES = 10_000, 20
_LONGEST = 4000  # characters
_EVENT = dict(
    rank=int, section=str, op=str, axis=str, phase=str, payload_bytes=int, start=float,
)  # fmt: skip
"""What a call of the timeline has; besides, when it ended, and with whom it was."""
_MOST_EVENTS = 5000
_MOST_RANKS = 1000
_ERROR = {"at": float, "type": str, "message": str}
_FRAME = {"file": str, "line": int, "function": str, "text": str}
_STACK = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def report(frame: object, rank: int) -> dict:
    """The report of rank `rank`, each part of its kind. Raises frames.BadFrame for another form."""
    if not isinstance(frame, dict):
        raise frames.BadFrame("a message out of its turn")
    error = frame.get("error")
    if error is not None:
        error = _error(error)
    elif "value" not in frame:
        raise frames.BadFrame("a report without a value")
    rows = frame.get("ledger", [])
    memory = frame.get("memory", [])
    kept = frame.get("kept", {})
    if not isinstance(rows, list) or len(rows) > _MOST_ROWS:
        raise frames.BadFrame("an account of another form")
    if not all(_is_row(row, rank) for row in rows):
        raise frames.BadFrame("an account of another form")
    if not isinstance(memory, list) or not all(_is_memory(one, rank) for one in memory):
        raise frames.BadFrame("an account of memory of another form")
    if not isinstance(kept, dict):
        raise frames.BadFrame("what was kept has another form")
    timeline = _timeline(frame.get("timeline", []), rank)
    return dict(
        value=frame.get("value"), error=error, ledger=rows, memory=memory, kept=kept,
        timeline=timeline,
    )  # fmt: skip


def _timeline(events: object, rank: int) -> list[dict]:
    """The calls one by one, each with its own parts and no other."""
    if not isinstance(events, list) or len(events) > _MOST_EVENTS:
        raise frames.BadFrame("a timeline of another form")
    if not all(_is_event(event, rank) for event in events):
        raise frames.BadFrame("a timeline of another form")
    return events


def _is_event(event: object, rank: int) -> bool:
    if not isinstance(event, dict) or type(event.get("rank")) is not int or event["rank"] != rank:
        return False
    if set(event) - {"peer"} != {*_EVENT, "end"}:
        return False
    peer, end = event.get("peer", 0), event["end"]
    return (
        all(type(event[name]) is kind for name, kind in _EVENT.items())
        and all(len(event[name]) <= 200 for name, kind in _EVENT.items() if kind is str)
        and (end is None or type(end) is float)
        and type(peer) is int
        and 0 <= peer < _MOST_RANKS
        and event["payload_bytes"] >= 0
    )


def _is_row(row: object, rank: int) -> bool:
    return (
        isinstance(row, tuple)
        and len(row) == len(_ROW)
        and row[0] == rank
        and all(_is_part(value, kind) for value, kind in zip(row, _ROW, strict=True))
    )


def _is_part(value: object, kind: type) -> bool:
    """Text, or a number that calls and bytes can be: none below 0, and no NaN."""
    if kind is str:
        return type(value) is str and len(value) <= _LONGEST
    numbers = (int, float) if kind is float else (int,)
    return type(value) in numbers and 0 <= value <= _MOST


def _is_memory(told: object, rank: int) -> bool:
    return (
        isinstance(told, dict)
        and isinstance(told.get("name"), str)
        and type(told.get("rank")) is int
        and told["rank"] == rank
        and all(isinstance(told.get(key), int) for key in ("peak_bytes", "largest_bytes"))
    )


def _error(error: object) -> dict:
    kinds_hold = isinstance(error, dict) and all(
        isinstance(error.get(name), kind) for name, kind in _ERROR.items()
    )
    if not kinds_hold or not isinstance(error.get("frames"), list):
        raise frames.BadFrame("an error of another form")
    stack = [_frame(one) for one in error["frames"][-50:]]
    told = error.get("chain", [])
    if not isinstance(told, list):
        raise frames.BadFrame("an error of another form")
    chain = [
        (pair[0][:_LONGEST], pair[1][:_LONGEST]) for pair in told[:_MOST_CAUSES]
        if isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(p, str) for p in pair)
    ]  # fmt: skip
    message = error["message"][:_LONGEST]
    return dict(
        at=error["at"], type=error["type"][:200], message=message, began=True, frames=stack,
        chain=chain or [("torch", message)],
    )  # fmt: skip


def _frame(told: object) -> dict:
    if not isinstance(told, dict):
        raise frames.BadFrame("an error of another form")
    if not all(isinstance(told.get(name), kind) for name, kind in _FRAME.items()):
        raise frames.BadFrame("an error of another form")
    found = {name: told[name] for name in _FRAME}
    return {n: v[:_LONGEST] if isinstance(v, str) else v for n, v in found.items()}


def cause(errors: Sequence[dict | None]) -> tuple[int, dict] | None:
    """The rank and the error that are told: of the first rank that is no victim of another's.

    Which of several came first, the machine decides; a grade is the same each time.
    """
    own = [(rank, one) for rank, one in enumerate(errors) if one and not is_victim(one)]
    return own[0] if own else root_cause(list(errors))


def tidy(error: dict, labels: Mapping[str, str], folder: Path) -> None:
    """Name cells as the student knows them, and no path of a sandbox."""
    runs.tidy(error, folder, dict(labels))


def clean(text: str, labels: Mapping[str, str], folder: Path) -> str:
    """What ranks printed, fit to show: capped, without paths."""
    text = output.clean(text, folder)
    if len(text) > output.CAP:
        half = output.CAP // 2
        text = f"{text[:half]}\n[…]\n{text[-half:]}"
    for file, cell in labels.items():
        text = text.replace(file, cell)
    return text


def standing(rank: int, said: str, labels: Mapping[str, str]) -> str:
    """Where a rank stood, from the stacks that it wrote: the call, and the student's own line."""
    call = ""
    for file, line, function in _STACK.findall(said):
        name = Path(file).name
        if name in labels:
            what = f"in {call}, called from " if call else "in "
            return f"\n  rank {rank} stood {what}{labels[name]}, line {line}, in {function}"
        if "torch" in file and not function.startswith(("_", "<", "wrapper")):
            call = function
    return ""
