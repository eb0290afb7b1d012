"""What grading writes down: one record for each exercise of each student, one for each submission.

A record is plain data. `results.jsonl` has a line a grade, in the order in which they were made;
`gradebook.json` is made from them (labs/grading/gradebook.py) and is the same bytes however often
a run was broken off and taken up again: nothing in it depends on the machine's speed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

PASS, FAIL, PARALLELISM = "PASS", "FAIL", "PARALLELISM"
TIMEOUT, CRASH, LIMIT = "TIMEOUT", "CRASH", "LIMIT"
NOT_ATTEMPTED, GRADER_ERROR = "NOT_ATTEMPTED", "GRADER_ERROR"

STATES: dict[str, str] = {
    PASS: "every property holds, in the public cases and in the hidden ones",
    FAIL: "a value, a gradient, an order or a refusal is wrong",
    PARALLELISM: "right values, but traffic or memory are not those of the algorithm",
    TIMEOUT: "it did not end within its time: ranks that wait for each other, or a loop",
    CRASH: "it raised an error, or its process ended",
    LIMIT: "it used more memory, processes or output than it may",
    NOT_ATTEMPTED: "the answer is not there, or is the stub still",
    GRADER_ERROR: "the grader failed, not the answer: it is to be graded again and is not 0 points",
}
"""Each state of a grade, in words for a reader."""

LOOK = "what the ranks sent is not what their account says; somebody should look at this"
"""The note of a grade whose ledger and counters contradict each other: it has no points."""


@dataclass(frozen=True)
class PropertyGrade:
    """One property of an answer: forward values, gradients, traffic, ...

    state, detail, hint: of the public cases, as `check` shows them ("passed", "failed", "not
    reached", "not attempted"). hidden_passed of hidden: cases that no student sees. points: all of
    `of`, or 0 where one case, public or hidden, does not hold.
    """

    name: str
    state: str
    points: float
    of: float
    detail: str = ""
    hint: str = ""
    hidden_passed: int = 0
    hidden: int = 0


@dataclass(frozen=True)
class Grade:
    """One exercise of one student. points is None for GRADER_ERROR alone."""

    student: str
    topic: str
    exercise: str
    kind: str  # "graded" or "practice": practice is never for credit, of = 0
    state: str
    points: float | None
    of: float
    isolation: str  # where the student's code ran: labs/grading/isolation.py has the levels
    properties: tuple[PropertyGrade, ...] = ()
    notes: tuple[str, ...] = ()  # which of two definitions counted, a stub it calls, ...
    told: str = ""  # why it crashed, ran out of time or hit a limit, in words for the student
    printed: str = ""  # what the answer printed, capped
    seconds: float = 0.0  # depends on the machine: not in the gradebook
    measured: dict = field(default_factory=dict)  # bytes on the wire, memory: not in the gradebook

    def to_json(self) -> dict:
        """The record as plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict) -> Grade:
        """The record that `to_json` gave. Raises TypeError or KeyError for anything else."""
        properties = tuple(PropertyGrade(**one) for one in told["properties"])
        return cls(**{**told, "properties": properties, "notes": tuple(told["notes"])})


@dataclass(frozen=True)
class Submission:
    """What one student handed in."""

    student: str  # found by the file's or folder's name
    file: str  # its name inside what was collected, for people
    text: bytes  # the notebook's or Python file's content; empty where there is a problem
    suffix: str  # ".ipynb" or ".py"
    submitted: float | None = None  # seconds since 1970, where what was collected tells it
    problems: tuple[str, ...] = ()  # why it cannot be read, in words
    changed: float | None = None  # the file's own time, by which one student's are ordered
