"""What a run gave: values, ledger, timeline, memory of every rank; and how it failed, if so."""

import json
import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from labs.ranks import output
from labs.ranks.devices import Placement
from labs.ranks.ledger import Ledger, Row

if TYPE_CHECKING:
    from labs.ranks.doctor.diagnosis import Diagnosis

# What a rank says when another one was the first to fail.
_VICTIM = re.compile(
    r"(closed|reset) by peer|Connection (closed|reset|refused)|Broken pipe|Socket closed|"
    r"Timed out waiting|failed to connect",
    re.IGNORECASE,
)

_MOST_LINES = 12  # of an error's message
_FROM_TORCH = re.compile(r"\btorch\b|labs/ranks/hooks|labs/ranks/dispatcher")


@dataclass
class Run:
    """One launch, all ranks. Lists are by rank; times in seconds, sizes in bytes."""

    placement: Placement
    mode: str  # "warm" or "cold"
    values: list = field(default_factory=list)
    kept: list[dict] = field(default_factory=list)  # what ranks reported before their end
    ledger: Ledger = field(default_factory=Ledger)
    timeline: list[dict] = field(default_factory=list)
    memory: list[dict] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    output: str = ""
    failure: str | None = None
    culprit: int | None = None
    diagnosis: "Diagnosis | None" = None  # what the failure was, in parts
    note: str | None = None  # what ran on after all ranks had returned, and was ended
    seconds: float = 0.0
    origin: float = 0.0  # time.time() from which `timeline` counts; 0: it is time.time() itself

    @property
    def world_size(self) -> int:
        return self.placement.ranks

    @property
    def backend(self) -> str:
        return self.placement.backend

    @property
    def device(self) -> str:
        return self.placement.device


class RunFailed(RuntimeError):
    """A run that did not come to its end. `run` holds what its ranks had reported."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.failure)
        self.run = run

    def _render_traceback_(self) -> list[str]:
        """In a notebook: the cause on the ranks, and who waits for whom, without our own stack."""
        drawn = self.run.diagnosis and self.run.diagnosis.picture()
        if drawn:
            from IPython.display import display

            display(drawn)
        return [str(self)]

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class Interrupted(KeyboardInterrupt):
    """A run that was interrupted; its ranks are gone. A notebook shows one line of it."""

    def __init__(self) -> None:
        super().__init__("the run was interrupted; its ranks were ended")

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


def gather(
    folder: Path, placement: Placement, mode: str, labels: dict[str, str], origin: float
) -> tuple[Run, list[dict | None]]:
    """Read what the ranks left in `folder`. Second: each rank's error, or None."""
    run = Run(placement, mode, origin=origin)
    errors: list[dict | None] = []
    printed = {}
    rows = []
    for rank in range(placement.ranks):
        told, unread = _read(folder / f"report.{rank}")
        kept = told.get("kept") or _read(folder / f"kept.{rank}")[0]
        run.values.append(told.get("value"))
        run.kept.append(kept)
        rows += [Row(*row) for row in told.get("ledger", [])]
        run.timeline += [_since(event, origin) for event in told.get("timeline", [])]
        run.memory += told.get("memory", [])
        if told:
            peak = dict(rank=rank, name="process", peak_rss_bytes=told["peak_rss_bytes"])
            run.memory.append(peak)
            run.threads.append(told["threads"])
        errors.append(unread or told.get("error"))
        printed[rank] = output.clean(output.read_capped(folder / f"out.{rank}"), folder)
        for file, cell in labels.items():
            printed[rank] = printed[rank].replace(file, cell)
    run.ledger = Ledger(rows)
    run.output = output.ordered(printed)
    for error in filter(None, errors):
        tidy(error, folder, labels)
    return run, errors


def _read(path: Path) -> tuple[dict, dict | None]:
    """What a rank wrote; and, where that cannot be read, an error as a rank would report it."""
    from labs.ranks import report  # here: it needs torch

    try:
        told = report.load(path) or {}
        return {**told, **json.loads(told.get("account", "{}"))}, None
    except ValueError as error:
        return {}, dict(at=0.0, type="ValueError", message=str(error), frames=[], began=True)


def _since(event: dict, origin: float) -> dict:
    ends = {k: event[k] - origin for k in ("start", "end") if event[k] is not None}
    return {**event, **ends}


def tidy(error: dict, folder: Path, labels: dict[str, str]) -> None:
    """Name cells as the learner knows them, drop machine paths."""
    error["message"] = output.clean(error["message"], folder)
    for frame in error["frames"]:
        cell = labels.get(Path(frame["file"]).name)
        own = cell is not None and frame["file"].startswith(str(folder))
        frame["own"], frame["library"] = own, output.is_library(frame["file"])
        frame["file"] = cell if own else output.clean(frame["file"], folder)
        frame["text"] = output.clean(frame["text"], folder)


def root_cause(errors: list[dict | None]) -> tuple[int, dict] | None:
    """Rank and error that came first, victims of another rank's end last of all."""
    found = [(rank, error) for rank, error in enumerate(errors) if error]
    found.sort(key=lambda pair: (is_victim(pair[1]), pair[1]["at"]))
    return found[0] if found else None


def is_victim(error: dict) -> bool:
    """Whether the error, or one that it came from, is torch's word that another rank was gone.

    A learner's own error may read like that too (a file server that refused a connection).
    """
    return any(
        _FROM_TORCH.search(raised) and _VICTIM.search(message)
        for raised, message in error.get("chain", [("torch", error["message"])])
    )


def tell(rank: int, error: dict) -> str:
    """The error in at most ~20 lines: the rank, the error, and the lines that lead to it."""
    frames = [f for f in error["frames"] if f["own"]]
    if not frames:  # not from a cell: the course's own code, or a module of the learner's
        frames = [f for f in error["frames"] if not f["library"]]
        frames = [f for f in frames if not f["file"].startswith("labs/ranks/")]
    told = f"rank {rank}: {error['type']}: {error['message']}"[:2000].splitlines()
    lines = told if len(told) <= _MOST_LINES else [*told[: _MOST_LINES - 1], "[…]"]
    for frame in frames[-6:]:
        lines.append(f"  {frame['file']}, line {frame['line']}, in {frame['function']}")
        if frame["text"]:
            lines.append(f"    {frame['text'].strip()}")
    return "\n".join(lines)
