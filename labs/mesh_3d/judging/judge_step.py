"""The check of zero1_step: what each rank updated, the weights after it, what it sent and held."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from labs import ranks
from labs.equality import EPS
from labs.exercise import FAILED, PASSED, Verdict
from labs.formulas import ring_all_gather_bytes, ring_reduce_scatter_bytes
from labs.judging import broke, not_reached
from labs.mesh_3d.judging import hints_broken, hints_step, rounds, step
from labs.mesh_3d.judging.rounds import Seen
from labs.mesh_3d.judging.step import Reference, Step
from labs.ranks.ship import Source

SHARE, VALUES, TRAFFIC, MEMORY = (
    "what update is given", "new weights", "traffic", "held at a time",
)  # fmt: skip
PROPERTIES = (SHARE, VALUES, TRAFFIC, MEMORY)


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """zero1_step."""
    return judge_on_steps(function, step.steps(seed))[0]


def judge_on_steps(
    function: Callable | Source, asked: Sequence[Step]
) -> tuple[list[Verdict], list[Seen]]:
    """The verdicts on these steps, and what came back of each; nothing where the answer broke."""
    try:
        (seen,) = rounds.run_all([function], asked, step.one)
    except ranks.RunFailed as failed:
        at = rounds.broken_at(failed, asked)
        return broke(PROPERTIES, failed, hints_broken.of_step(failed, at), str(at or "")), []
    except ValueError as refused:  # it cannot be sent to a rank
        return not_reached(PROPERTIES, Verdict(SHARE, FAILED, str(refused))), []
    return judged(seen), seen


def judged(all_seen: Sequence[Seen]) -> list[Verdict]:
    """The verdicts on what came back; of each property the first failure."""
    told: dict[str, Verdict] = {}
    for seen in all_seen:
        references = [Reference(seen.round, group) for group in range(len(seen.round.groups))]
        for verdict in _verdicts(seen, references):
            held = told.get(verdict.name)
            if held is None or held.state == PASSED and verdict.state == FAILED or not held.detail:
                told[verdict.name] = replace(verdict, output=seen.output)
    return [told[name] for name in PROPERTIES]


def _verdicts(seen: Seen, references: list[Reference]) -> list[Verdict]:
    given = _given(seen, references)
    return [given, _weights(seen, references, given), _traffic(seen), _memory(seen)]


def _where(seen: Seen, group: int, member: int) -> str:
    return f"{seen.round}\nrank {seen.round.groups[group][member]}"


def _given(seen: Seen, references: list[Reference]) -> Verdict:
    """update was called once on each rank, with its share of the weights and of the sum."""
    for group, reference in enumerate(references):
        for member, told in enumerate(seen.told[group]):
            where, calls = _where(seen, group, member), told["calls"]
            if len(calls) != 1:
                hint = hints_step.of_calls(reference, calls)
                return Verdict(SHARE, FAILED, f"{where} calls update {len(calls)} times", hint)
            wanted = reference.weights, reference.total
            for name, got, whole in zip(("share", "grad"), calls[0], wanted, strict=True):
                wrong = _odd(got, seen.round) or _apart(got, reference.share(whole, member), seen)
                if wrong:
                    hint = hints_step.of_given(name, got, references, group, member, calls[0])
                    return Verdict(SHARE, FAILED, f"{where}: {name} {wrong}", hint)
    return Verdict(SHARE, PASSED, f"{seen.round}: its share of the weights and of the sum")


def _odd(got: object, asked: Step) -> str:
    """What is wrong with the kind of a tensor."""
    if not isinstance(got, torch.Tensor):
        return f"is a {got}, not a tensor"
    if got.shape != (asked.share,):
        return f"has shape {tuple(got.shape)}, expected ({asked.share},)"
    if not got.is_floating_point() or got.dtype.itemsize < asked.dtype.itemsize:
        return f"has type {got.dtype}, weights and gradients are {asked.dtype}"
    return ""


def _other_shape(got: object, want: torch.Tensor) -> str:
    if isinstance(got, torch.Tensor) and got.shape == want.shape:
        return ""
    return f" came back as {tuple(got.shape) if isinstance(got, torch.Tensor) else type(got)}"


def _apart(got: torch.Tensor, want: torch.Tensor, seen: Seen) -> str:
    """Where two tensors differ by more than the order of a sum."""
    apart = (got.double() - want).abs().nan_to_num(torch.inf)
    at = int(apart.argmax())
    bound = EPS[seen.round.dtype] * max(1.0, want.abs().max().item())
    if apart[at] <= bound:
        return ""
    return f"[{at}] is {got[at]:.6g}, expected {want[at]:.6g}"


def _weights(seen: Seen, references: list[Reference], given: Verdict) -> Verdict:
    """All weights on every rank. Where update was given something else they must be wrong."""
    for group, reference in enumerate(references):
        for member, told in enumerate(seen.told[group]):
            shape = _other_shape(told["weights"], reference.after)
            wrong = shape or _apart(told["weights"], reference.after, seen)
            if not wrong:
                continue
            hint = ""
            if given.state == PASSED and not shape:
                hint = hints_step.of_weights(told["weights"], references, group, member)
            return Verdict(VALUES, FAILED, f"{_where(seen, group, member)}: weights{wrong}", hint)
    return Verdict(VALUES, PASSED, f"{seen.round}: all shares new, the same on every rank")


def _traffic(seen: Seen) -> Verdict:
    """No more bytes than a reduce-scatter and an all-gather, whatever they are made of."""
    asked, n = seen.round, seen.round.ranks
    allowed = ring_reduce_scatter_bytes(asked.bytes, n) + ring_all_gather_bytes(asked.bytes, n)
    for group, members in enumerate(asked.groups):
        for member in range(len(members)):
            sent, calls = seen.sent(group, member), seen.calls(group, member)
            if sent <= allowed + 0.5:
                continue
            made = "; ".join(f"{count} × {op}, {size:,} bytes" for op, count, size in calls)
            words = f"{_where(seen, group, member)}: {made}; in rings {sent:,.0f} bytes sent, "
            words += f"expected {allowed:,.0f}"
            return Verdict(TRAFFIC, FAILED, words, hints_step.of_traffic(asked, calls))
    told = f"{seen.round}: {allowed:,.0f} bytes a rank, reduce-scatter and all-gather"
    return Verdict(TRAFFIC, PASSED, told if n > 1 else "")


def _memory(seen: Seen) -> Verdict:
    asked = seen.round
    if not asked.traced:
        return Verdict(MEMORY, PASSED)
    every = [told for group in seen.told for told in group]
    most, largest = (max(told[name] for told in every) for name in ("peak", "largest"))
    words = f"{most:,} bytes besides weights and gradients, which have {asked.bytes:,} each"
    # A ring by hand holds four shares at a time: all of them here, in parts.
    if most > asked.bytes or largest >= asked.bytes:
        return Verdict(MEMORY, FAILED, f"{asked}\n{words}", hints_step.MEMORY)
    return Verdict(MEMORY, PASSED, words)
