"""From a wrong merge of two partial results to what probably lies behind it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import torch

from labs import ranks

Pair = tuple[torch.Tensor, torch.Tensor]
KIND = "keep shape and type: out as out_a, lse as lse_a; the weights need unsqueeze(-1) beside out"
IN_PLACE = "make new tensors: what was handed in still belongs to somebody else (no *=, no add_)"
GRAPH = "return what your operations made, no .detach() and no .item()"
NOT_FINITE = (
    "a query that saw no key gets gradients that are not finite: -inf - -inf is not a number, and "
    "where() or nan_to_num afterwards hides it forward only. Take it out before: masked_fill the "
    "largest lse, and the sum that is divided by"
)
CUT = "values are right and gradients are not: a part of the formula has left the graph"
_OVERFLOW = (
    "large scores overflow: exp(1e4) is inf and exp(-1e4) is 0. Subtract the larger of lse_a and "
    "lse_b before exp, that of each query for itself, and add it again after the log"
)
_ROUNDED = (
    "nearly right: something is rounded on the way, or a small number is added. Stay in the type "
    "that came in, and take the zero out of the sum by masked_fill"
)
_NAN = (
    "-inf - -inf is not a number, nor is 0/0: where neither block had a key, put 0 in the place of "
    "the largest lse and 1 in that of the sum, and say at the end that lse is -inf"
)


def of_failure(failed: ranks.RunFailed) -> str:
    """A hint for a merge that raised; empty where none is known."""
    text = str(failed)
    if re.search(r"must match the size of tensor|broadcast", text):
        return "lse has one dimension less than out: lse.unsqueeze(-1) weighs the rows of out"
    if re.search(r"returned (NoneType|Tensor)", text):
        return "return both, as in `return out, lse`"
    return ""


def of_value(large: bool, pairs: list[Pair], got: dict, name: str, want: torch.Tensor) -> str:
    """What `name` is instead of `want`, and why."""
    mine = got[name]
    if mine.isnan().any() or (name == "out" and mine.isinf().any()) or (mine == torch.inf).any():
        return _OVERFLOW if large else _NAN
    if not large and _close(mine, want):
        return f"{name}: {_ROUNDED}"
    if len(pairs) == 2:
        for slip, why in _slips(name, *pairs[0], *pairs[1]):
            if slip.shape == mine.shape and _close(mine, slip):
                return f"{name}: {why}"
    if large:
        return _OVERFLOW
    nothing = torch.stack([lse == -torch.inf for _, lse in pairs]).any(0)
    if nothing.any() and _close(mine[~nothing], want[~nothing]):
        return f"{name}: a block of which a query saw nothing has lse -inf and weight exp(-inf) = 0"
    return ""


def _close(mine: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(mine.double(), other.double(), rtol=1e-4, atol=1e-5)


def _slips(
    name: str, out_a: torch.Tensor, lse_a: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor
) -> Iterator[tuple[torch.Tensor, str]]:
    top, total = torch.maximum(lse_a, lse_b), torch.logaddexp(lse_a, lse_b)
    if name == "lse":
        yield lse_b, "that of the second block alone: log(exp(lse_a) + exp(lse_b)) is over both"
        yield lse_a, "that of the first block alone: log(exp(lse_a) + exp(lse_b)) is over both"
        yield lse_a + lse_b, "the two are added: add the exponentials, then take the log"
        yield top, "the larger of both: add the log of the summed weights"
        yield (lse_a + lse_b) / 2, "the mean of both: add the exponentials, then take the log"
        yield top + (total - top) / math.log(2), "a logarithm to base 2: exp goes with torch.log"
        yield total - top, "the largest is to be added again after the log"
        yield total.exp(), "this is the sum of the exponentials: take its log"
        yield (total - top).exp(), "this is the sum of the weights: take its log, add the largest"
        return
    a, b = ((lse - total).exp().unsqueeze(-1) for lse in (lse_a, lse_b))
    yield (out_a + out_b) / 2, "a plain average: each block counts by its exp(lse)"
    yield out_a + out_b, "the two are added: weigh each by exp(lse - largest) and divide by the sum"
    yield b * out_a + a * out_b, "the weights are swapped: out_a is weighted by exp(lse_a)"
    yield out_b, "that of the second block alone"
    yield out_a, "that of the first block alone"
    rise_a, rise_b = ((lse - top).exp().unsqueeze(-1) for lse in (lse_a, lse_b))
    yield rise_a * out_a + rise_b * out_b, "weighted, but not divided by the sum of the weights"
    yield (
        out_a * rise_a + out_b,
        "the second block is not rescaled to the larger lse: its weight is "
        "exp(lse_b - largest), over the sum of the weights",
    )
    yield (
        (out_a * rise_a + out_b) / (rise_a + 1),
        "the second block is not rescaled to the larger lse: its weight is exp(lse_b - largest)",
    )
    yield (
        (out_a + out_b * rise_b) / (1 + rise_b),
        "the first block is not rescaled to the larger lse: its weight is exp(lse_a - largest)",
    )
    tilt = lse_a / (lse_a + lse_b)
    yield (
        tilt.unsqueeze(-1) * out_a + (1 - tilt).unsqueeze(-1) * out_b,
        "weighted by lse itself: the weight is exp(lse)",
    )
