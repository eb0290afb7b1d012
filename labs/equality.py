"""What "equal to one device" means in this course, and how far two results are apart.

max|difference| <= eps * max(max|reference|, largest gradient of the model), for a mean loss and
inputs N(0, 1). The scale is the model's, not the tensor's own: the gradient of a key bias is zero
in truth (softmax does not feel a constant added to all scores of a query), so what is computed for
it is rounding, and its own size is no measure of anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

EPS = {torch.float64: 1e-12, torch.float32: 1e-5}
"""fp64 tells a fault from rounding; fp32 parts by summation order alone (its unit is 6e-8)."""

BF16_UNIT = 2.0**-8
"""Largest relative rounding of one bf16 operation: 8 bits of significand."""


def bf16_eps(ranks: int, layers: int = 1) -> float:
    """eps for bf16: (2 + t) roundings of 2^-8 for each pair of layers.

    A rank rounds its hidden activations (1) and its partial output (1); adding t partials rounds
    t-1 times, the bias once more. The reference rounds as well, but fewer times. First order, with
    no two errors cancelling: t = 2 gives 1.6e-2, t = 4 gives 2.3e-2 for one pair.
    """
    return layers * (2 + ranks) * BF16_UNIT


@dataclass(frozen=True)
class Gap:
    """How far one tensor is from its reference, and how far it may be."""

    name: str
    difference: float
    bound: float
    place: int = 0  # of the difference, in the flattened tensor

    @property
    def ok(self) -> bool:
        """Within the bound. Not a number is never within."""
        return self.difference <= self.bound

    @property
    def used(self) -> float:
        """The difference as a part of its bound: by it the worst of several is chosen.

        Infinite where the difference is not a number, which no comparison would call the largest.
        """
        if math.isnan(self.difference) or not self.bound:
            return 0.0 if self.difference == 0 else math.inf
        return self.difference / self.bound


def gap(name: str, got: torch.Tensor, reference: torch.Tensor, scale: float, eps: float) -> Gap:
    """Compare one tensor; `scale` is the largest gradient of the model (0: the tensor's own size).

    A wrong shape is infinitely far: values are compared place by place, never broadcast.
    """
    if got.shape != reference.shape:
        return Gap(name, float("inf"), eps * scale)
    if not reference.numel():
        return Gap(name, 0.0, eps * scale)
    size = max(reference.abs().max().item(), scale)
    apart = (got - reference).abs().flatten()
    place = int(apart.nan_to_num(torch.inf, torch.inf).argmax())
    return Gap(name, apart[place].item(), eps * size, place)


def gap_by_place(
    name: str, got: torch.Tensor, reference: torch.Tensor, scale: torch.Tensor, eps: float
) -> Gap:
    """The place that is farthest beyond a bound of its own, eps times `scale` there.

    For results made of numbers whose size differs from place to place: of the loss of one token
    with logits near 1e4 rounding leaves 1e-12, which says nothing about the other tokens.
    """
    if got.shape != reference.shape:
        return Gap(name, float("inf"), eps * scale.max().item())
    apart, scale = (got - reference).abs().flatten(), scale.expand(reference.shape).flatten()
    place = int((apart / scale).nan_to_num(torch.inf, torch.inf).argmax())
    return Gap(name, apart[place].item(), eps * scale[place].item(), place)


def gaps(
    got: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor], eps: float
) -> list[Gap]:
    """Compare the gradients of a model by name, all against the largest gradient among them."""
    scale = max(tensor.abs().max().item() for tensor in reference.values())
    return [gap(name, got[name], reference[name], scale, eps) for name in reference]
