"""The check of ring_forward and ring_backward: values, blocks, bytes, overlap, buffers, memory.

One launch of four ranks holds all jobs: rings of 1 to 4 ranks, some of them groups of this world.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from labs import ranks
from labs.equality import BF16_UNIT, EPS
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import broke, not_reached
from labs.ranks.ship import Source
from labs.ring_attention.judging import calls as judge_calls
from labs.ring_attention.judging import hints_broken, hints_values, trial
from labs.ring_attention.judging.messages import in_flight, memory, overlap, traffic
from labs.ring_attention.judging.trial import BACKWARD, FORWARD, Seen
from labs.ring_attention.judging.trial_jobs import ring_jobs
from labs.ring_attention.judging.trial_reference import Reference

BLOCKS, TRAFFIC, OVERLAP, FLIGHT, MEMORY = (
    "blocks attended to", "traffic", "overlap", "messages on their way", "largest tensor",
)  # fmt: skip
_REST = (BLOCKS, TRAFFIC, OVERLAP, FLIGHT, MEMORY)
PROPERTIES = {"ring_forward": (*FORWARD, *_REST), "ring_backward": (*BACKWARD, *_REST)}


def judge_ring(name: str) -> Callable[[Callable | Source, int], list[Verdict]]:
    """The judge of ring_forward or of ring_backward."""
    backward = name == "ring_backward"
    return lambda function, seed: judge_on_jobs(name, function, ring_jobs(seed, backward))


def judge_on_jobs(name: str, function: Callable | Source, jobs: list[trial.Job]) -> list[Verdict]:
    """The verdicts on an answer to `name` in these jobs."""
    return seen_on_jobs(name, function, jobs)[0]


def seen_on_jobs(
    name: str, function: Callable | Source, jobs: list[trial.Job]
) -> tuple[list[Verdict], list[Seen]]:
    """The same, and what came back of each job; nothing where the answer broke."""
    properties, backward = PROPERTIES[name], name == "ring_backward"
    references, given = referred(jobs, backward)
    try:
        all_seen = trial.run(function, jobs, given)
    except ranks.RunFailed as failed:
        return _broke(properties, failed, jobs), []
    except ValueError as refused:  # it cannot be sent to a rank
        return not_reached(properties, Verdict(properties[0], FAILED, str(refused))), []
    return judged(name, all_seen, references), all_seen


def judged(name: str, all_seen: list[Seen], references: list[list[Reference]]) -> list[Verdict]:
    """The verdicts on what came back; of each property the first failure."""
    backward = name == "ring_backward"
    told: dict[str, Verdict] = {}
    for seen, rings in zip(all_seen, references, strict=True):
        for verdict in _verdicts(seen, rings, backward):
            held = told.get(verdict.name)
            fails_first = held and held.state == PASSED and verdict.state != PASSED
            if held is None or fails_first or not held.detail:
                told[verdict.name] = verdict
    values = BACKWARD if backward else FORWARD
    return _joined([told[property_] for property_ in PROPERTIES[name]], values)


def referred(
    jobs: list[trial.Job], backward: bool
) -> tuple[list[list[Reference]], list[list[list[dict]]] | None]:
    """By job and ring: what must come back; and what a backward pass starts from, out and lse."""
    references = [[Reference(job, ring) for ring in range(len(job.rings))] for job in jobs]
    given = [[one.results for one in rings] for rings in references] if backward else None
    return references, given


def _broke(
    properties: tuple[str, ...], failed: ranks.RunFailed, jobs: list[trial.Job]
) -> list[Verdict]:
    """A run without an end: the job at which the ranks stood, the doctor's words, a hint."""
    at = {rank: kept[trial.JOB] for rank, kept in enumerate(failed.run.kept) if trial.JOB in kept}
    job = jobs[hints_broken.culprit(failed, at)] if at else None
    hint = hints_broken.of_failure(failed, job)
    return broke(properties, failed, hint, str(job or ""))


def _verdicts(seen: Seen, rings: list[Reference], backward: bool) -> list[Verdict]:
    """All properties in one job."""
    wrong = judge_calls.first_fault(rings, seen.told)
    judged = [
        *(_value(name, seen, rings, wrong) for name in (BACKWARD if backward else FORWARD)),
        _blocks(seen, wrong),
        traffic(TRAFFIC, seen, backward),
        overlap(OVERLAP, seen, rings, backward),
        in_flight(FLIGHT, seen),
        memory(MEMORY, seen, backward),
    ]
    judged = [_unchanged(judged[0], seen), *judged[1:]]
    return [replace(verdict, output=seen.output) for verdict in judged]


def _value(
    name: str, seen: Seen, rings: list[Reference], wrong: judge_calls.Fault | None
) -> Verdict:
    """One of the returned tensors on every rank, place by place."""
    size = _size(name, rings)
    for ring, reference in enumerate(rings):
        for member, told in enumerate(seen.told[ring]):
            got, want = told[name], reference.expected(member, name)
            where = f"{seen.job}\n{name} on rank {member} of the ring"
            if odd := _odd(name, got, want, seen.job):
                return Verdict(name, FAILED, f"{where}: {odd}", hints_values.of_kind(name, odd))
            bounds = _bounds(name, seen.job, want, size)
            apart, at = distance(got, want, bounds)
            bound = bounds.flatten()[at].item()
            if not apart <= bound:
                told_ = (
                    f"{where}: got {got.flatten()[at]:.6g}, expected {want.flatten()[at]:.6g}; "
                    f"difference {apart:.1e}, bound {bound:.1e}"
                )
                hint = hints_values.of_value(name, reference, member, told, wrong)
                return Verdict(name, FAILED, told_, hint)
    return Verdict(name, PASSED, f"{seen.job}: on every rank that of the whole sequence")


def _size(name: str, rings: list[Reference]) -> float:
    """What a difference is measured by: the largest gradient, or the largest value, of all ranks.

    One key alone has a share of 1, whatever its score: its dq is 0, and what is computed is
    rounding. An lse may be 0 too, as a sum of scores that are not.
    """
    alike = BACKWARD if name in BACKWARD else (name,)
    tensors = [one[n] for reference in rings for one in reference.by_rank for n in alike]
    return max(1.0, *(x.masked_fill(x.isinf(), 0.0).abs().max().item() for x in tensors))


def _odd(name: str, got: torch.Tensor, want: torch.Tensor, job: trial.Job) -> str:
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if name != "lse" and got.dtype != job.dtype:
        return f"type {got.dtype}, the inputs are {job.dtype}"
    if name == "lse" and not (got.is_floating_point() and got.dtype.itemsize >= 4):
        return f"type {got.dtype}, expected float32 or better"
    return ""


def distance(got: torch.Tensor, want: torch.Tensor, bounds: torch.Tensor) -> tuple[float, int]:
    """The difference that is farthest beyond its bound, and its place.

    Equal infinities are equal, not a number is far away.
    """
    apart = (got.double() - want).abs().masked_fill(got == want, 0.0).flatten()
    apart = apart.nan_to_num(torch.inf, torch.inf)
    at = int((apart / bounds.flatten()).argmax())
    return apart[at].item(), at


def _bounds(name: str, job: trial.Job, want: torch.Tensor, size: float) -> torch.Tensor:
    """How far each place may be off. size: the largest value.

    Scores of 1e4 have lost four digits before exp sees them. In bf16 there is one rounding, at the
    end: at most 2^-8 of the number itself, not of the largest one.
    """
    if job.dtype != torch.bfloat16:
        eps = EPS[job.dtype] * (1 if job.size == 1 else 1e3)
        return torch.full(want.shape, eps * size, dtype=torch.float64)
    fp32 = torch.full(want.shape, EPS[torch.float32] * size, dtype=torch.float64)
    return fp32 if name == "lse" else fp32 + BF16_UNIT * want.abs()


def _blocks(seen: Seen, wrong: judge_calls.Fault | None) -> Verdict:
    if wrong:
        return Verdict(BLOCKS, FAILED, f"{seen.job}\n{wrong.told}", wrong.hint)
    counts = ", ".join(str(len(told["calls"])) for told in seen.told[0])
    return Verdict(BLOCKS, PASSED, f"{seen.job}: {counts} calls by rank, each on what is seen")


def _unchanged(first: Verdict, seen: Seen) -> Verdict:
    changed = sorted({name for ring in seen.told for told in ring for name in told["changed"]})
    if not changed or first.state == FAILED:
        return first
    return Verdict(
        first.name, FAILED, f"{seen.job}\nright, but {' and '.join(changed)} was changed in place",
        "work on tensors of your own: the caller still needs what it handed in",
    )  # fmt: skip


def _joined(verdicts: list[Verdict], values: tuple[str, ...]) -> list[Verdict]:
    """One hint for all that it explains: "dk and dv are off: …"."""
    found, told = [], set()
    for verdict in verdicts:
        alike = [v.name for v in verdicts if v.hint == verdict.hint and v.name in values]
        hint = "" if verdict.hint in told else verdict.hint
        told.add(verdict.hint)
        if hint and alike and verdict.state == FAILED:
            last = f" and {alike[-1]}" if len(alike) > 1 else ""
            names = ", ".join(alike[:-1] or alike) + last
            hint = f"{names} {'are' if last else 'is'} off: {hint}"
        found.append(replace(verdict, hint=hint))
    return found
