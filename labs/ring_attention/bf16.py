"""How far a bf16 ring may be from fp64, from what it rounds: the bound is derived, not tuned.

Scores, shares and all sums are in fp32 or better; inputs are what they are, for both. So bf16
rounds twice: each result as it is returned (u = 2^-8 of itself), and `out` as it is saved, which
the backward pass reads for D_i = sum_e dO_ie·O_ie. To first order

    |error of D_i|  <= u·sum_e |dO_ie·O_ie|                               =: u·A_i
    |error of dq_i| <= u·|dq_i| + u·d_h^-1/2·A_i·sum_j p_ij·|k_j|
    |error of dk_j| <= u·|dk_j| + u·d_h^-1/2·sum_i p_ij·A_i·|q_i|      (i: all that use the head)
    |error of dv_j| <= u·|dv_j|

and fp32's own 1e-5 of the largest number comes on top.
"""

from __future__ import annotations

import torch

from labs.context_parallel.jobs import Job, inputs
from labs.equality import BF16_UNIT, EPS


def bf16_bounds(job: Job, whole: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The bound at each place of "out", "q", "k", "v". whole: the same on one device, in fp64."""
    given = inputs(job)
    q, k, d_out = (x.double() for x in (given.q, given.k, given.d_out))
    groups = job.heads // job.kv_heads
    k_of_head = k.repeat_interleave(groups, dim=1)
    scale = job.head_dim**-0.5
    scores = q @ k_of_head.mT * scale
    if job.causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    share = scores.softmax(dim=-1)
    mean = (d_out * whole["out"]).abs().sum(-1, keepdim=True)  # A_i
    of_q = scale * mean * (share @ k_of_head.abs())
    of_k = scale * (share.mT @ (mean * q.abs())).unflatten(1, (job.kv_heads, groups)).sum(2)
    more = {"out": 0.0, "q": of_q, "k": of_k, "v": 0.0}
    largest = max(x.abs().max().item() for x in whole.values())
    rest = EPS[torch.float32] * largest
    return {name: BF16_UNIT * (x.abs() + more[name]) + rest for name, x in whole.items()}
