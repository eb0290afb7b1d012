"""The exercise sequence_scatter_gather: what is asked, how it is checked, the hint ladder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

import torch

from labs import ranks
from labs.exercise import FAILED, NOT_REACHED, PASSED, Exercise, Verdict
from labs.judging import broke, not_reached
from labs.ranks.ship import Source
from labs.sequence_parallel import faults
from labs.sequence_parallel.exercise_case import REGIONS, WORLDS, SeenAround, make, members, run
from labs.tp_linear_pair import properties
from labs.tp_linear_pair.faults.failures import explain
from labs.tp_linear_pair.trial import SECTION, Case

NAME, TOPIC = "sequence_scatter_gather", "ring_attention"


def _traffic(seen: SeenAround) -> Verdict:
    """The four calls, and one call of the region."""
    verdict = properties.traffic(seen)
    often = [len(called) for called in seen.regions]
    if verdict.state == PASSED and set(often) != {1}:
        told = f"{seen.case.label}\nthe region was called {max(often)} times, expected 1"
        return Verdict(properties.TRAFFIC, FAILED, told)
    return verdict


def _refusal(seen: SeenAround) -> Verdict:
    """A region that returns one token less: a ValueError with both numbers."""
    (given,), (made,) = seen.case.refused, seen.refusals
    n = seen.case.ranks  # these calls go over the world
    length = n * given["x_shard"].shape[1] - given["shorter"]
    asked = f"the region returned {length} tokens, for {n} ranks"
    if not made.startswith("ValueError"):
        told, hint = f"{asked}: expected ValueError, got: {made}", _REFUSE
    elif str(length) not in made or str(n) not in made:
        told, hint = f"{asked}: the message names not both numbers: {made}", _REFUSE
    else:
        return Verdict(properties.REFUSAL, PASSED, asked)
    return Verdict(properties.REFUSAL, FAILED, told, hint)


_REFUSE = (
    "before the reduce-scatter, look at the shape that the region returned: where its T is no "
    "multiple of the group's size, raise ValueError and say both numbers"
)
_JUDGED: dict[str, Callable[[SeenAround], Verdict]] = {
    properties.VALUES: properties.values,
    properties.GRADIENTS: properties.gradients,
    properties.TRAFFIC: _traffic,
    properties.REFUSAL: _refusal,
}


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """Run the answer on three ranks and on two groups of four; of each the first failure."""
    draw = torch.Generator().manual_seed(seed)
    return judge_on_cases(function, (make(n, draw) for n in WORLDS))


def judge_on_cases(function: Callable | Source, cases: Iterable[Case]) -> list[Verdict]:
    """The same for these cases."""
    told: dict[str, Verdict] = {}
    for case in cases:
        try:
            seen = run(function, case)
        except ranks.RunFailed as failed:
            return broke(tuple(_JUDGED), failed, _why(failed, function, case), case.label)
        except ValueError as refused:  # it cannot be sent to a rank
            first = Verdict(properties.VALUES, FAILED, str(refused))
            return not_reached(tuple(_JUDGED), first)
        for verdict in verdicts(seen):
            if verdict.name not in told or told[verdict.name].state == PASSED:
                told[verdict.name] = verdict
    return list(told.values())


def verdicts(seen: SeenAround) -> list[Verdict]:
    """Of one case: each property, the first that failed with the hints for what came back."""
    now = [replace(look(seen), output=seen.output) for look in _JUDGED.values()]
    bad = [v for v in now if v.state == FAILED and v.name != properties.REFUSAL]
    if not bad:
        return now
    # what follows from wrong values is no second fault
    text = "; also: ".join(faults.diagnose(seen))
    hinted = [replace(v, hint=text) if v is bad[0] else v for v in now]
    first = bad[0].name == properties.VALUES
    return [replace(v, state=NOT_REACHED, detail="", hint="")
            if first and v.name == properties.REFUSAL and v.state == FAILED else v
            for v in hinted]  # fmt: skip


def _why(failed: ranks.RunFailed, function: Callable | Source, case: Case) -> str:
    """A hint for an answer that did not run to its end."""
    # a rank that was ended because another had failed may not have come so far
    called = [told for kept in failed.run.kept or [] for told in (kept or {}).get(REGIONS, [])]
    batch, tokens, d = case.out[0].shape
    want = (batch, tokens * len(members(case)[0]), d)
    told = f"{failed}\n{failed.run.output}"  # the backend's own check ends the process, and prints
    # its own refusal may name the world's size where a group was handed in
    refused = re.match(rf"rank \d+: ValueError: .*\b{case.ranks} ranks\b", str(failed))
    stray = refused or failed.run.ledger.count(section=SECTION, axis="world")
    right = all(tuple(shape) == want for shape in called)
    hint = faults.WORLD if stray and right and case.groups else faults.failed(told, called, want)
    return hint or explain(str(failed), NAME, function)


EXERCISE = Exercise(
    NAME, TOPIC, "graded",
    "Write f and g for shared tokens: all-gather in, reduce-scatter out, mirrored backward.", 3, 25,
    (
        "Two functions whose backward differs from their forward, as f and g in notebook 01: two "
        "torch.autograd.Function classes, with the region between them.",
        "dist.all_gather_single(whole, piece, group=group) lays pieces one behind the other along "
        "the first dimension: move T there, and back afterwards. The same for "
        "dist.reduce_scatter_single(piece, whole, group=group).",
        "Every rank's region used these tokens: what is the gradient of a tensor that was copied? "
        "Every rank's summand went into those tokens: what is the gradient of a sum?",
        "The backward pass of the gather is the scatter's forward, and the other way round.",
    ),
    tuple(_JUDGED), judge,
)  # fmt: skip
