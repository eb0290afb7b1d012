"""ZeRO: bytes of weights, gradients and optimizer state that a rank holds, at rest and at the peak.

P parameters of a rank (its part of the model under tensor and pipeline parallelism), n ranks along
dp that share them. A parameter costs bytes of three kinds:

                     weights  gradients  optimizer           ZeRO-0  ZeRO-1     ZeRO-2     ZeRO-3
    bf16 and fp32       2         2      12 = master, m, v   16P     4P+12P/n   2P+14P/n   16P/n
    fp32 alone          4         4       8 = m, v           16P     8P+8P/n    4P+12P/n   16P/n

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
2020, section 3.1 (2 + 2 + 12 bytes) and section 5 (figure 1, and table 1 for P = 7.5e9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from labs.formulas.collectives import need_ranks

ZERO_STAGES = (0, 1, 2, 3)
"""0: nothing is shared out; 1: optimizer state; 2: gradients too; 3: weights too."""


@dataclass(frozen=True)
class StateBytes:
    """Bytes a parameter costs, or bytes a rank holds, by what they are for."""

    weights: float
    gradients: float
    optimizer: float

    @property
    def total(self) -> float:
        return self.weights + self.gradients + self.optimizer


MIXED = StateBytes(2, 2, 12)
"""Bytes a parameter: bf16 weights and gradients; Adam's m and v and a master copy, all in fp32."""

FP32 = StateBytes(4, 4, 8)
"""Bytes a parameter: everything in fp32; the optimizer's m and v."""


def _need_stage(zero: int) -> None:
    if isinstance(zero, bool) or not isinstance(zero, Integral) or zero not in ZERO_STAGES:
        raise ValueError(f"ZeRO has the stages 0, 1, 2 and 3; got {zero!r}.")


def state_on_rank(parameters: float, n: int, zero: int, each: StateBytes = MIXED) -> StateBytes:
    """Bytes that each of n ranks holds at rest, by what they are for.

    parameters: the rank's own, P; each: bytes a parameter costs. Raises ValueError for a stage that
    is none and for n < 1.
    """
    _need_stage(zero)
    need_ranks(n)
    return StateBytes(
        each.weights * parameters / (n if zero >= 3 else 1),
        each.gradients * parameters / (n if zero >= 2 else 1),
        each.optimizer * parameters / (n if zero >= 1 else 1),
    )


def state_bytes(parameters: float, n: int, zero: int, mixed: bool = True) -> float:
    """Bytes of weights, gradients and optimizer state that each of n ranks holds at rest.

    parameters: the rank's own, P; mixed: bf16 weights and gradients with an fp32 master, else fp32
    alone. ZeRO-0: 16P. ZeRO-1: 4P + 12P/n, or 8P + 8P/n. ZeRO-2: 2P + 14P/n, or 4P + 12P/n.
    ZeRO-3: 16P/n.
    """
    return state_on_rank(parameters, n, zero, MIXED if mixed else FP32).total


def padded_parameters(units: Sequence[int], n: int) -> int:
    """Parameters of some units, each padded to a multiple of n, so that n ranks can share it.

    A unit is what is shared out as one: the whole stage under ZeRO-0 and 1; a block, the embedding,
    the head under ZeRO-2 and 3.
    """
    need_ranks(n)
    return sum(-(-unit // n) * n for unit in units)


def zero3_peak(unit: float, n: int, copied: bool = True) -> float:
    """Bytes that a step takes under ZeRO-3 besides what is at rest: two of the largest unit, and
    1/n of one where the backend reduces a copy of what it is given (gloo does).

    unit: bytes of its weights as the rank holds them whole, so a unit's 1/tp. The moments of the
    peak, one after the other: its weights gathered and its gradients beside them; its gradients,
    and the same end to end, ready to be sent; these, gloo's copy, and the n-th that arrives.
    Activations and the optimizer's own are not counted: the formula is of few tokens and n ≥ 2.
    """
    need_ranks(n)
    return (2 + (1 / n if copied else 0)) * unit
