"""Pipeline parallelism: bubble, time of a step, what is stored, what is sent.

p ranks, m micro-batches, v chunks of the model a rank (1: not interleaved), f and b the time of a
forward and a backward pass of one micro-batch through a rank's whole part. All ranks are alike and
messages free: where that does not hold the simulator does (labs/schedules/simulate.py).
Sources: Huang et al., "GPipe", 2019; Narayanan et al., "Efficient large-scale language model
training on GPU clusters using Megatron-LM", 2021, section 2.2; Qi et al., "Zero bubble pipeline
parallelism", 2023, table 2.
"""

from __future__ import annotations

import math
from numbers import Real


def _need(p: int, m: int = 1, v: int = 1) -> None:
    """Raises ValueError for less than one of each. Between whole numbers a formula holds too."""
    if type(p) is type(m) is type(v) is int and min(p, m, v) >= 1:
        return  # nothing more to ask: a search comes here often
    for what, count in (("ranks", p), ("micro-batches", m), ("chunks", v)):
        if isinstance(count, bool) or not isinstance(count, Real) or not count < math.inf:
            raise ValueError(f"The {what} of a pipeline are a number from 1 on; got {count!r}.")
        if count < 1:
            raise ValueError(f"A pipeline of {count} {what} was asked for; the least is 1.")


def _need_rank(p: int, rank: int) -> None:
    if type(rank) is int and 0 <= rank < p:
        return
    if isinstance(rank, bool) or not isinstance(rank, Real) or not 0 <= rank < p:
        raise ValueError(f"A pipeline of {p} ranks has ranks 0 to {p - 1}; got {rank!r}.")


def _need_times(**times: float) -> None:
    for what, time in times.items():
        if type(time) is float and 0 <= time < math.inf:
            continue
        if not isinstance(time, Real) or not 0 <= time < math.inf:
            raise ValueError(f"The time of a pass is 0 or more; got {what} = {time!r}.")


def bubble_share(p: int, m: int, v: int = 1) -> float:
    """Idle part of the **total** time: (p-1)/(v·m + p-1). GPipe, 1F1B, and interleaved with v."""
    _need(p, m, v)
    return (p - 1) / (v * m + p - 1)


def bubble_over_ideal(p: int, m: int, v: int = 1) -> float:
    """Idle time ÷ the time without idling, (p-1)/(v·m): the other definition. It can exceed 1."""
    _need(p, m, v)
    return (p - 1) / (v * m)


def micro_batches_for(share: float, p: int, v: int = 1) -> int:
    """The fewest micro-batches with a bubble of at most `share` of the total time.

    From (p-1)/(v·m + p-1) ≤ s follows m ≥ (p-1)(1/s - 1)/v.
    """
    _need(p, 1, v)
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share <= 1:
        raise ValueError(f"A share of the total time is above 0 and at most 1; got {share!r}.")
    least = (p - 1) * (1 / share - 1) / v
    return max(1, math.ceil(least - 1e-9))


def step_time(p: int, m: int, f: float, b: float, v: int = 1) -> float:
    """Time of a step, (m + (p-1)/v)(f + b), in the unit of f and b."""
    _need(p, m, v)
    _need_times(f=f, b=b)
    return (m + (p - 1) / v) * (f + b)


def uneven_step_time(slowest: float, together: float, m: int, v: int = 1) -> float:
    """Time of a step whose stages differ: m·slowest + (together - slowest)/v.

    slowest, together: the longest of the stages' times for forward and backward of a micro-batch,
    and their sum. The slowest works without a break, the others fill and drain it once. The same as
    step_time where all are alike; elsewhere exact for forward and backward in one proportion and m
    large against p.
    """
    _need(1, m, v)
    _need_times(slowest=slowest, together=together)
    return m * slowest + (together - slowest) / v


def stored_gpipe(m: int) -> int:
    """Forward passes stored at the peak by GPipe, on every rank: m."""
    _need(1, m)
    return m


def stored_1f1b(p: int, rank: int, m: int) -> int:
    """Forward passes stored at the peak by 1F1B on `rank`: min(m, p - rank)."""
    _need(p, m)
    _need_rank(p, rank)
    return min(m, p - rank)


def stored_interleaved(p: int, rank: int, m: int, v: int) -> int:
    """Forward passes of **one chunk** stored at the peak by interleaved 1F1B on `rank`.

    min(m·v, 2(p - rank - 1) + (v - 1)p + 1); m must be a multiple of p.
    """
    _need(p, m, v)
    _need_rank(p, rank)
    return min(m * v, 2 * (p - rank - 1) + (v - 1) * p + 1)


def stored_zero_bubble(p: int, m: int) -> int:
    """Forward passes stored at the peak by ZB-H1, on every rank: min(m, p)."""
    _need(p, m)
    return min(m, p)


def zero_bubble_idle(p: int, f: float, b_input: float, b_weight: float) -> float:
    """Idle time of a rank under ZB-H1: (p-1)(f + b_input - b_weight).

    For m ≥ p, and a b_weight no longer than f and than b_input: what fills the gaps must fit.
    """
    _need(p)
    _need_times(f=f, b_input=b_input, b_weight=b_weight)
    return (p - 1) * (f + b_input - b_weight)


def pipeline_sends(p: int, m: int, v: int = 1) -> int:
    """Messages of a step, all ranks, both directions: 2·m·(p·v - 1).

    Where p = 1 nothing travels, however many chunks.
    """
    _need(p, m, v)
    return 0 if p == 1 else 2 * m * (p * v - 1)


def pipeline_send_bytes(batch: int, m: int, length: int, d: int, element_bytes: int) -> int:
    """Bytes of one message: an activation (B/m, T, d), or its gradient.

    Raises ValueError where m does not divide the batch.
    """
    _need(1, m)
    if batch % m:
        raise ValueError(f"A batch of {batch} cannot be cut into {m} equal micro-batches.")
    return batch // m * length * d * element_bytes
