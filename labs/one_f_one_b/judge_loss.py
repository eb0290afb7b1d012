"""The check of `micro_batch_loss`: the parts, and their sum against the mean over all tokens.

Then in a pipeline of two ranks, each of which is handed its own stage and its part of the batch:
the gradients that must come back follow from nothing that one rank has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import torch

from labs import ranks
from labs.answers import Missing, reference
from labs.exercise import FAILED, NOT_REACHED, PASSED, Verdict
from labs.judging import as_asked, broke, not_reached
from labs.pipeline.jobs import Job
from labs.pipeline.on_rank import on_rank
from labs.pipeline.parity import held
from labs.pipeline.shares import shares, without_seed
from labs.ranks.ship import Source
from labs.schedules.known import KNOWN
from labs.staying import must_return

VALUES, GRADIENTS = "values", "gradients"
PROPERTIES = (VALUES, GRADIENTS)
_LIMIT = 20.0
_EPS = 1e-6  # of the mean
_LITTLE = 1e-3  # apart, of the largest: fp32 leaves 1e-8, fp16 1e-4
_ROUNDED = (
    "the values are rounded on the way: compute in the type that `losses` has, with no .float() "
    "and no .half()"
)
_SHARE = (
    "the sum is right and a part is not: each micro-batch gives the sum over its own tokens that "
    "count, divided by those of the whole batch"
)
_CUT_OFF = (
    "the value is right, but it has lost its graph: return the tensor as your operations made it, "
    "no .item() and no .detach()"
)
Batch = tuple[torch.Tensor, torch.Tensor]  # losses and which of them count, (m, B, T) each


def batches(seed: int) -> list[Batch]:
    """Micro-batches alike; of unequal token counts; with one that has no valid token.

    None is as large as another, nor are there as many of them.
    """
    draw = torch.Generator().manual_seed(seed)
    found = []
    for m, rows, length in ((4, 2, 6), (5, 3, 11), (3, 4, 9)):
        losses = 1 + 4 * torch.rand(m, rows, length, generator=draw, dtype=torch.float64)
        ends = torch.arange(m * rows) * 5 % length + 1  # of each row's valid tokens
        ends = ends.where(torch.tensor(bool(found)), length).view(m, rows, 1)
        found.append((losses, (torch.arange(length) < ends).double()))
    found[1][1][0] = 1  # no padding in the first, and much in the others
    found[2][1][1] = 0
    return found


def parts(function: Callable, given: list[Batch]) -> list[list[float]]:
    """On a rank: each micro-batch's loss."""
    found = []
    for losses, valid in given:
        count = int(valid.sum())
        with must_return():
            told = [function(one, ok, count) for one, ok in zip(losses, valid, strict=True)]
        odd = next((x for x in told if not isinstance(x, torch.Tensor) or x.numel() != 1), None)
        if odd is not None:
            raise TypeError(f"the function returned {odd!r}, not a tensor of one number")
        found.append([x.item() for x in told])
    return found


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """The learner's function on a rank, then in a real pipeline of two."""
    told = ("equal micro-batches", "unequal token counts", "one without a valid token")
    return judge_on_batches(function, dict(zip(told, batches(seed), strict=True)), 2, 4, seed)


def judge_on_batches(
    function: Callable | Source, batches_: dict[str, Batch], p: int, m: int, seed: int
) -> list[Verdict]:
    """The same on these batches, by their labels, and in a pipeline of p ranks."""
    given = list(batches_.values())
    try:
        run = ranks.launch(parts, 1, args=(function, given), limit=_LIMIT, status=False)
    except ranks.RunFailed as failed:
        return broke(PROPERTIES, failed)
    except ValueError as refused:
        return not_reached(PROPERTIES, Verdict(VALUES, FAILED, str(refused)))
    for (label, batch), got in zip(batches_.items(), as_asked(run.values[0], given), strict=True):
        text, advice = _wrong(batch, got)
        if text:
            first = Verdict(VALUES, FAILED, f"{label}: {text}", advice, run.output)
            return not_reached(PROPERTIES, first)
    return [
        Verdict(VALUES, PASSED, "the parts add up to the mean over all tokens"),
        _run(function, p, m, seed),
    ]


def _wrong(batch: Batch, got: object) -> tuple[str, str]:
    """What is wrong with the parts, and a hint: with their sum, then with each of them."""
    wanted = _parts(*batch)
    told = as_asked(got, wanted)
    if not all(type(part) in (int, float) for part in told):
        return "each part must be a real number", ""
    mean = sum(wanted)
    if not abs(sum(told) - mean) <= _EPS * abs(mean):
        return f"the parts add up to {sum(told):.6g}, the mean is {mean:.6g}", hint(batch, told)
    for number, (mine, want) in enumerate(zip(told, wanted, strict=True)):
        if not abs(mine - want) <= _EPS * abs(mean):
            return f"micro-batch {number} gives {mine:.6g}, expected {want:.6g}", _SHARE
    return "", ""


def _parts(losses: torch.Tensor, valid: torch.Tensor) -> list[float]:
    return [((one * ok).sum() / valid.sum()).item() for one, ok in zip(losses, valid, strict=True)]


def hint(batch: Batch, got: list[float]) -> str:
    """What a wrong sum probably forgets."""
    losses, valid = batch
    m, total = len(losses), sum(got)
    if total != total:
        return "0 tokens of 0 is not a number: divide by a number that is never 0"
    own = [
        ((x * ok).sum() / ok.sum().clamp(min=1)).item() for x, ok in zip(losses, valid, strict=True)
    ]
    mean = sum(_parts(losses, valid))
    slips = [
        ((losses * valid).sum().item(), "that is the sum: divide by the number of valid tokens of "
         "the whole batch"),
        (sum(own), "each micro-batch gives its own mean, and m of them are m times too much"),
        (total if _alike(valid, got, own) else math.nan, "a mean of means gives every token of a "
         "short micro-batch more weight: divide by the tokens of the whole batch"),
        (mean / m, "divided by m once too often: the tokens of the batch are all that counts"),
        (mean * m, "m times too much"),
        (losses.sum().item() / valid.sum().item(), "tokens that do not count are in the sum"),
        (losses.mean().item(), "tokens that do not count are in the mean"),
    ]  # fmt: skip
    return next((text for slip, text in slips if abs(total - slip) <= 1e-9 * abs(slip)), "")


def _alike(valid: torch.Tensor, got: list[float], own: list[float]) -> bool:
    """Whether each part is one and the same share of its own mean, though token counts differ."""
    ratios = [part / mean for part, mean in zip(got, own, strict=True) if mean]
    counts = {int(ok.sum()) for ok in valid}
    return len(counts) > 1 and max(ratios) - min(ratios) <= 1e-9


def _run(function: Callable | Source, p: int, m: int, seed: int) -> Verdict:
    try:
        order = reference("one_f_one_b.one_f_one_b_order")
    except Missing as missing:
        return Verdict(GRADIENTS, NOT_REACHED, str(missing))
    schedule = KNOWN["one_f_one_b"].make(order, p, m)
    job = Job("your loss", schedule, rows=3, seed=seed, uneven=True, gradients=True)
    try:
        own = ranks.Later([[share] for share in shares(job)], "run")
        told_job = without_seed(job)
        run = ranks.launch(
            on_rank, p, args=([told_job], function, own), limit=_LIMIT, status=False
        )  # fmt: skip
    except ranks.RunFailed as failed:
        cut = re.search("does not require grad|no gradient reached", str(failed))
        return broke((GRADIENTS,), failed, _CUT_OFF if cut else "")[0]
    told = [value[0] for value in run.values]
    checks = held("1F1B", job, [t["gradients"] for t in told], told[-1]["steps"][0]["loss"])
    wrong = [check for check in checks if not check.ok]
    if wrong:
        rounded = all(check.measured < _LITTLE for check in wrong if check.relation == "<=")
        return Verdict(GRADIENTS, FAILED, str(wrong[0]), _ROUNDED if rounded else _CUT_OFF)
    return Verdict(GRADIENTS, PASSED, f"on {p} ranks those of one device")
