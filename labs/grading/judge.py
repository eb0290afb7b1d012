"""One exercise of one student, judged: the notebooks' own judge, hidden cases, and the counters.

The judge is this process. It draws inputs from a secret, another for each student, exercise and
phase; a rank gets its share alone; what comes back is compared here with what one device gives.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from labs import cells, ranks
from labs.exercise import FAILED, NOT_ATTEMPTED, NOT_REACHED, PASSED, Exercise, Verdict
from labs.grading import records
from labs.grading.accounts import TOGETHER, contradiction
from labs.grading.hidden import Hidden, hidden_of
from labs.grading.records import Grade, PropertyGrade
from labs.grading.sandbox.launcher import Launched, Sandbox, SandboxError
from labs.grading.sandbox.places import COURSE
from labs.ranks.ship import Source

PARALLEL = frozenset(
    ("traffic", "messages", "messages on their way", "overlap", "largest tensor", "held at a time",
     "stored")
)  # fmt: skip
"""Properties that are of the parallelism, not of the values: traffic, memory, what is in flight."""
_TRAFFIC = ("traffic", "messages on their way", "messages")
_MEMORY = ("largest tensor", "held at a time", "stored")
_MOST_PRINTED = 2000
_MOST_TOLD = 4000  # characters of a detail: some of it is what ranks reported


def seed(secret: bytes, *phase: object) -> int:
    """A number that nobody can know who does not have the secret: another for each phase."""
    told = "\0".join(map(str, phase)).encode()
    return int.from_bytes(hmac.new(secret, told, hashlib.sha256).digest()[:8], "big") >> 2


@dataclass
class _Judged:
    """Verdicts of the public cases and of the hidden ones, with what the sandbox saw."""

    public: list[Verdict]
    hidden: dict[str, list[bool]] = field(default_factory=dict)
    failed: list[Launched] = field(default_factory=list)  # launches that did not come to their end
    of_hidden: bool = False  # whether the first of those was a hidden case
    contradictions: list[str] = field(default_factory=list)
    measured: list[dict] = field(default_factory=list)
    odd: str = ""  # why what its ranks reported could not be judged


@dataclass(frozen=True)
class Asked:
    """What is to be graded, and what an answer that is not there is told."""

    student: str
    exercise: Exercise
    source: Source | None  # None: not there, or the stub still
    notes: tuple[str, ...] = ()
    round: int = 0  # how often it was graded before: each time with other inputs


def grade(
    asked: Asked, sandbox: Sandbox, secret: bytes, shares: Callable[[str, Sequence[str]], dict]
) -> Grade:
    """Grade one exercise. shares(name, properties): the points of each property.

    Raises labs.grading.sandbox.launcher.SandboxError where the sandbox fails, and whatever a judge
    raises: both are the grader's errors.
    """
    exercise, began = asked.exercise, len(sandbox.launched)
    points = shares(exercise.name, exercise.properties)
    if asked.source is None:
        public = [Verdict(name, NOT_ATTEMPTED) for name in exercise.properties]
        return _grade(asked, sandbox, points, _Judged(public), records.NOT_ATTEMPTED)
    try:
        judged = _judge(asked, sandbox, secret)
    except SandboxError:
        raise
    except Exception as error:
        judged = _odd(asked, sandbox, secret, error)
    finally:
        launched = sandbox.launched[began:]
        del sandbox.launched[began:]
    judged.failed = [one for one in launched if one.state]
    # Of a launch that broke off not all ranks have told what they sent: that is no contradiction.
    ended = [one for one in launched if not one.state]
    judged.contradictions = list(filter(None, map(contradiction, ended)))
    judged.measured = [_measured(one) for one in launched]
    return _grade(asked, sandbox, points, judged, _state(exercise, judged))


def _judge(asked: Asked, sandbox: Sandbox, secret: bytes) -> _Judged:
    """The public cases; then the hidden ones, unless the answer did not run to its end."""
    name, student = asked.exercise.name, asked.student
    with ranks.launched_by(sandbox.launch):
        number = seed(secret, student, name, asked.round, "public")
        judged = _Judged(asked.exercise.judge(asked.source, number))
        if any(one.state for one in sandbox.launched):
            return judged
        for case in hidden_of(asked.exercise):
            if case.after and not _held(judged.public, case.after):
                continue
            number = seed(secret, student, name, asked.round, case.label)
            before = len(sandbox.launched)
            _add(judged, case.judge(asked.source, number))
            _add(judged, _memory(asked.exercise, case, sandbox.launched[before:]))
            judged.of_hidden |= any(one.state for one in sandbox.launched[before:])
    return judged


def _odd(asked: Asked, sandbox: Sandbox, secret: bytes, error: Exception) -> _Judged:
    """A judge has raised: whose fault is it? Ranks may report what no honest one does.

    The course's own answer is judged on the same inputs. Where that goes through, it was what the
    student's ranks reported; else, or where there is no answer to try it with, `error` is raised.
    """
    exercise = asked.exercise
    file = COURSE / "solutions" / f"{exercise.topic}.py"
    own = cells.read(file).source(exercise.name) if file.exists() else None
    if own is None:
        raise error
    try:
        _judge(replace(asked, source=own), sandbox, secret)
    except SandboxError:
        raise
    except Exception:
        raise error from None
    why = f"what its ranks reported cannot be judged: it has another form ({type(error).__name__})"
    public = [Verdict(name, NOT_REACHED) for name in exercise.properties]
    return _Judged(public, odd=why)


def _held(verdicts: Sequence[Verdict], name: str) -> bool:
    return any(verdict.name == name and verdict.state == PASSED for verdict in verdicts)


def _memory(exercise: Exercise, case: Hidden, launched: Sequence[Launched]) -> list[Verdict]:
    """Whether ranks' memory, as the kernel saw it grow, stayed within the case's bound.

    What had grown before the inputs were there, but for those, may be room for others' blocks.
    """
    if not case.most_grown:
        return []
    name = next(name for name in exercise.properties if name in _MEMORY)
    grown = [
        grown + max(0, early - case.early)
        for one in launched
        for grown, early in zip(one.outside.grown, one.outside.early, strict=True)
    ]
    most = max(grown, default=0)  # nothing was started where the answer cannot be sent
    return [Verdict(name, PASSED if most <= case.most_grown else FAILED)]


def _add(judged: _Judged, verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        if verdict.state in (PASSED, FAILED, NOT_REACHED):
            judged.hidden.setdefault(verdict.name, []).append(verdict.state == PASSED)


def _measured(launched: Launched) -> dict:
    """What was counted, for the instructor."""
    return dict(
        ranks=launched.run.world_size, seconds=round(launched.run.seconds, 3),
        counted={phase.name: phase.payload for phase in launched.outside.phases},
        told={
            phase.name: sum(
                row.wire_bytes for row in launched.run.ledger.rows
                if phase.name in (row.phase, row.section, TOGETHER)
            )
            for phase in launched.outside.phases
        },
        grown=launched.outside.grown, early=launched.outside.early,
    )  # fmt: skip


def _holds(judged: _Judged, verdict: Verdict) -> bool:
    counted = not judged.contradictions or verdict.name not in _TRAFFIC
    return verdict.state == PASSED and counted and all(judged.hidden.get(verdict.name, ()))


def _state(exercise: Exercise, judged: _Judged) -> str:
    if judged.odd:
        return records.CRASH
    if judged.failed:
        return judged.failed[0].state
    wrong = {verdict.name for verdict in judged.public if not _holds(judged, verdict)}
    wrong |= set(exercise.properties) - {verdict.name for verdict in judged.public}
    wrong |= {name for name, held in judged.hidden.items() if not all(held)}
    if judged.contradictions and not wrong:
        return records.PARALLELISM
    reached = {verdict.name for verdict in judged.public if verdict.state == NOT_REACHED}
    if not wrong:
        return records.PASS
    return records.PARALLELISM if wrong <= PARALLEL and not reached else records.FAIL


def _grade(
    asked: Asked, sandbox: Sandbox, points: dict[str, float], judged: _Judged, state: str
) -> Grade:
    exercise = asked.exercise
    properties = tuple(
        PropertyGrade(
            verdict.name, _shown(judged, verdict),
            points.get(verdict.name, 0.0) if _gets_points(judged, verdict) else 0.0,
            points.get(verdict.name, 0.0), verdict.detail[:_MOST_TOLD],
            verdict.hint[:_MOST_TOLD],
            sum(judged.hidden.get(verdict.name, ())), len(judged.hidden.get(verdict.name, ())),
        )
        for verdict in judged.public
    )  # fmt: skip
    failed = judged.failed[0] if judged.failed else None
    told = judged.odd
    if failed and not told:
        where = "in a hidden case: " if judged.of_hidden else ""
        told = f"{where}{failed.run.failure}"
    printed = next((v.output for v in judged.public if v.output), "")[:_MOST_PRINTED]
    return Grade(
        student=asked.student, topic=exercise.topic, exercise=exercise.name, kind=exercise.kind,
        state=state, points=round(sum(one.points for one in properties), 2),
        of=round(sum(points.values()), 2), isolation=sandbox.isolation, properties=properties,
        notes=(*asked.notes, *_told(judged)), told=told[:_MOST_TOLD], printed=printed,
        seconds=round(sum(one["seconds"] for one in judged.measured), 3),
        measured=dict(launches=judged.measured),
    )  # fmt: skip


def _gets_points(judged: _Judged, verdict: Verdict) -> bool:
    """A contradiction between the ledger and the counters costs all: it is no slip."""
    held = _holds(judged, verdict) and not judged.contradictions
    return held and not _broke_in_public(judged)


def _broke_in_public(judged: _Judged) -> bool:
    """Whether a public case did not run to its end: what came before it is not all that is due."""
    return bool(judged.failed) and not judged.of_hidden


def _shown(judged: _Judged, verdict: Verdict) -> str:
    reached = verdict.state != PASSED or not _broke_in_public(judged)
    return verdict.state if reached else NOT_REACHED


def _told(judged: _Judged) -> tuple[str, ...]:
    if not judged.contradictions:
        return ()
    return (records.LOOK,)
