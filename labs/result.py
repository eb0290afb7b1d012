"""What a lab hands back: each measurement beside its formula, and the run it came from."""

from __future__ import annotations

import importlib
import json
import math
import platform
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path

from labs.ranks.ledger import Ledger
from labs.ranks.run import Run
from labs.schedules.trace import Computed, trace

SCHEMA = "model-parallelism-labs/run/1"


@dataclass(frozen=True)
class Check:
    """One measurement and the formula or reference that it is held against."""

    name: str
    measured: float | int | bool | str
    expected: float | int | bool | str
    relation: str  # "==", "<=", ">="; measured RELATION expected (or bound)
    bound: float | None
    unit: str
    source: str
    ok: bool
    clock: bool = False  # measured by a clock: whatever else the machine does may fail it

    @property
    def shown(self) -> tuple[str, str]:
        """Measurement and target as text: differences as powers of ten, counts in full."""
        target = self.expected if self.bound is None else self.bound
        if isinstance(target, float) and target < 1 and isinstance(self.measured, float):
            return f"{self.measured:.1e}", f"{target:.1e}"
        return _number(self.measured), _number(target)

    def __str__(self) -> str:
        measured, target = self.shown
        return (
            f"{'ok  ' if self.ok else 'FAIL'} {self.name}: {measured} {self.relation} {target}"
            f"{' ' + self.unit if self.unit else ''}   [{self.source}]"
        )


def equal(name: str, measured: object, expected: object, unit: str, source: str) -> Check:
    """Counts, bytes, verdicts: exactly equal."""
    if isinstance(measured, float) and measured.is_integer():
        measured = int(measured)
    if isinstance(expected, float) and expected.is_integer():
        expected = int(expected)
    return Check(name, measured, expected, "==", None, unit, source, measured == expected)


def at_most(name: str, measured: float, bound: float, unit: str, source: str) -> Check:
    """A size or a difference that may not pass its bound. Not a number fails."""
    return Check(name, measured, 0, "<=", bound, unit, source, bool(measured <= bound))


def near(
    name: str, measured: float, expected: float, within: float, unit: str, source: str
) -> Check:
    """A measured number that may be off its formula by `within`, in the same unit."""
    ok = bool(abs(measured - expected) <= within)
    return Check(name, measured, expected, f"within {_number(within)} of", None, unit, source, ok)


def at_least(name: str, measured: float, bound: float, unit: str, source: str) -> Check:
    """Something that must be visibly there: the damage of a wrong variant, say."""
    return Check(name, measured, bound, ">=", bound, unit, source, bool(measured >= bound))


def by_clock(check: Check) -> Check:
    """The check, marked as one of time."""
    return replace(check, clock=True)


@dataclass
class Result:
    """A lab's checks, and its largest run. `stored` marks one that was not measured here."""

    topic: str
    params: dict[str, object]
    checks: list[Check] = field(default_factory=list)
    run: Run | None = None
    seconds: float = 0.0
    values: dict[str, object] = field(default_factory=dict)  # what figures draw from
    computed: list[Computed] = field(default_factory=list)  # what ranks computed when
    notes: list[str] = field(default_factory=list)
    stored: bool = False

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def ledger(self) -> Ledger:
        return self.run.ledger if self.run else Ledger()

    @property
    def timeline(self) -> list[dict]:
        return self.run.timeline if self.run else []

    @property
    def memory(self) -> list[dict]:
        return self.run.memory if self.run else []

    def __repr__(self) -> str:
        held = sum(check.ok for check in self.checks)
        lines = [f"{self.topic}: {held} of {len(self.checks)} checks ok"]
        if self.stored:
            lines.append("not measured here: the committed reference result")
        return "\n".join([*lines, *self.notes, *map(str, self.checks)])

    def _repr_html_(self) -> str:
        held = sum(check.ok for check in self.checks)
        rows = "".join(
            f"<tr><td>{'✓' if c.ok else '✗ fails'}</td><td style='text-align:left'>"
            f"{escape(c.name)}</td><td>{escape(c.shown[0])}</td><td>{escape(c.relation)}</td>"
            f"<td>{escape(c.shown[1])}</td>"
            f"<td style='text-align:left'>{escape(c.unit)}</td>"
            f"<td style='text-align:left'>{escape(c.source)}</td></tr>"
            for c in self.checks
        )
        notes = "".join(f"<div>{escape(note)}</div>" for note in self.notes)
        if self.stored:
            notes = "<div><b>Not measured here: the committed reference result.</b></div>" + notes
        return (
            f"<div><b>{escape(self.topic)}: {held} of {len(self.checks)} checks ok</b></div>{notes}"
            f"<details{'' if self.ok and len(self.checks) > 24 else ' open'}>"
            "<summary>each check: measured beside its formula</summary>"
            "<table><thead><tr><th></th><th>check</th><th>measured</th><th></th>"
            f"<th>formula or bound</th><th>unit</th><th>source</th></tr></thead>"
            f"<tbody>{rows}</tbody></table></details>"
        )

    def plot(self) -> object:
        """The lab's main figure, drawn from what was measured."""
        return importlib.import_module(f"labs.{self.topic}.figures").plot(self)

    def to_dict(self) -> dict[str, object]:
        """As plain data; see `SCHEMA`. Seconds, bytes; timeline in seconds since the launch."""
        run = self.run
        return dict(
            schema=SCHEMA,
            topic=self.topic,
            params=self.params,
            mode=run.mode if run else None,
            world_size=run.world_size if run else None,
            backend=run.backend if run else None,
            device=run.device if run else None,
            versions=versions(),
            seconds=self.seconds,
            checks=[asdict(check) for check in self.checks],
            ledger=self.ledger.to_list(),
            timeline=self.timeline,
            memory=self.memory,
        )

    def to_json(self, path: str | Path | None = None) -> str:
        """The run as JSON text; with `path`, also written there."""
        told = _plain(self.to_dict())
        text = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_trace(self, path: str | Path) -> None:
        """Write computations and messages as a Perfetto trace; see labs/schedules/trace.py."""
        told = trace(self.computed, self.timeline)
        Path(path).write_text(json.dumps(told), encoding="utf-8")


def from_dict(told: dict) -> Result:
    """A stored result, marked as such. It has checks and parameters, no run."""
    if told.get("schema") != SCHEMA:
        raise ValueError(f"this is {told.get('schema')!r}, not a run of schema {SCHEMA!r}")
    checks = [Check(**check) for check in told["checks"]]
    return Result(told["topic"], told["params"], checks, seconds=told["seconds"], stored=True)


def _plain(value: object) -> object:
    """JSON has no word for what is not a number, or too large: it is written as text, "nan"."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def versions() -> dict[str, str]:
    """Versions that a measurement depends on."""
    import torch

    return {"python": platform.python_version(), "torch": str(torch.__version__)}


def _number(value: object) -> str:
    """Counts and bytes in full, differences in powers of ten."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    return f"{value:.1e}" if abs(value) < 1e-2 else f"{value:,.3g}"
