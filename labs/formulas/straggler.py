"""One rank that computes slower than the others: what a step takes, who waits, and on which axis.

A mesh dp x pp x tp with 1F1B over m >= p micro-batches; `forward` and `backward` are a stage's
times for a micro-batch, `slow` says how many times as long the slow rank takes. Messages take no
time. In its tensor-parallel group everyone waits for it at each all-reduce, so its whole stage is
slow. Unit: any, one throughout. Derived here; labs/mesh/programs.py simulates the same without it.
"""

from __future__ import annotations

from collections.abc import Mapping


def straggler_step(
    p: int, m: int, stage: int, forward: float, backward: float, slow: float
) -> float:
    """Time of a step in which one stage takes `slow` times as long, until the last rank ends.

    s·(f+b) + m·slow·(f+b) + (p-1-s)·(max(0, f+b - slow·f) + max(0, f+b - slow·b)): the stages
    before it fill and drain, it works through m micro-batches, and at both ends it waits for those
    behind it as far as it is not busy meanwhile. Raises ValueError for m < p: it does not hold.
    """
    if m < p:
        raise ValueError(f"this holds for m >= p micro-batches; got m={m} with p={p} stages")
    both = forward + backward
    idle = max(0.0, both - slow * forward) + max(0.0, both - slow * backward)
    return stage * both + m * slow * both + (p - 1 - stage) * idle


def straggler_delay(
    p: int, m: int, stage: int, forward: float, backward: float, slow: float
) -> float:
    """By how much the straggler lengthens the step; on the last stage it is m·(slow-1)·(f+b)."""
    took = straggler_step(p, m, stage, forward, backward, slow)
    return took - straggler_step(p, m, stage, forward, backward, 1)


def straggler_pays(at: Mapping[str, int], slow_at: Mapping[str, int]) -> str:
    """The axis along which a rank waits for the straggler: the innermost that it has to cross.

    at, slow_at: places on "dp", "pp" and "tp". Another replica waits at the sum of gradients (dp),
    another stage for its messages (pp), the same tensor-parallel group at each all-reduce (tp); the
    straggler itself waits for nobody ("").
    """
    return next((axis for axis in ("dp", "pp", "tp") if at[axis] != slow_at[axis]), "")


def straggler_waiting(
    at: Mapping[str, int], slow_at: Mapping[str, int] | None, p: int, m: int, forward: float,
    backward: float, slow: float,
) -> dict[str, float]:  # fmt: skip
    """Time that a rank waits in a step, by axis, where the straggler is on the last stage.

    slow_at: None where nobody is slow. Along pp each rank waits for the bubble besides, up to its
    last backward pass: (p-1)·(f+b) - stage·b. After the sum of gradients nobody waits. Raises
    ValueError for a straggler on another stage, whose neighbours' waits this does not describe.
    """
    found = dict(tp=0.0, pp=(p - 1) * (forward + backward) - at["pp"] * backward, dp=0.0)
    if slow_at is None:
        return found
    if slow_at["pp"] != p - 1:
        raise ValueError(f"the straggler is on stage {slow_at['pp']}, not on the last of {p}")
    axis = straggler_pays(at, slow_at)
    if axis:
        found[axis] += straggler_delay(p, m, p - 1, forward, backward, slow)
    return found
