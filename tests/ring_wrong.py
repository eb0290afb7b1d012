"""Rings that are wrong in one way, for the tests of the lab's checks; and one that is not."""

from __future__ import annotations

import torch
import torch.distributed as dist

from labs.context_parallel.blocks import attend as of_block
from solutions.ring_attention import _pass_on, merge_partials, ring_backward, ring_forward


def local_mask(q, k, v, q_places, k_places, attend, group=None):
    """Every block gets the places of a block of its own."""
    here = torch.arange(len(q_places))
    return ring_forward(q, k, v, here, here.expand(len(k_places), -1), attend, group)


def own_lse(d_out, q, k, v, out, lse, q_places, k_places, attend_backward, group=None):
    """Each block's own lse in the place of the final one."""

    def of_this_block(d_out, q, k, v, out, lse, q_places, k_places):
        lse = of_block(q, k, v, q_places, k_places)[1]
        return attend_backward(d_out, q, k, v, out, lse, q_places, k_places)

    return ring_backward(d_out, q, k, v, out, lse, q_places, k_places, of_this_block, group)


def dk_stays(d_out, q, k, v, out, lse, q_places, k_places, attend_backward, group=None):
    """What other ranks add to dK and dV does not come home."""
    rank, own = dist.get_rank(group), []

    def of_this_block(*given):
        part = attend_backward(*given)
        if torch.equal(given[-1], k_places[rank]):
            own.append(part)
        return part

    dq, _, _ = ring_backward(d_out, q, k, v, out, lse, q_places, k_places, of_this_block, group)
    return dq, own[0][1].to(k.dtype), own[0][2].to(v.dtype)


def rounded(q, k, v, q_places, k_places, attend, group=None):
    """Partial results are rounded to bf16 before they are merged."""

    def coarse(*given):
        out, lse = attend(*given)
        return out.bfloat16().to(out.dtype), lse

    return ring_forward(q, k, v, q_places, k_places, coarse, group)


def q_heads_travel(q, k, v, q_places, k_places, attend, group=None):
    """Keys and values are repeated for each query head before they travel."""
    groups = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    return ring_forward(q, k, v, q_places, k_places, attend, group)


def whole_keys(q, k, v, q_places, k_places, attend, group=None):
    """All keys on every rank, and all scores of its queries at once."""
    c = len(k_places)
    whole = []
    for x in (k, v):
        parts = [torch.empty_like(x) for _ in range(c)]
        dist.all_gather(parts, x.contiguous(), group=group)
        whole.append(torch.cat(parts, dim=2))
    out, lse = of_block(q, *whole, q_places, k_places.flatten())
    return out.to(q.dtype), lse


def as_they_came(q, k, v, q_places, k_places, attend, group=None):
    """Right: K and V are sent as they were handed in, as two messages."""
    rank, c = dist.get_rank(group), dist.get_world_size(group)
    block, done = (k, v), None
    for step in range(c):
        source = (rank - step) % c
        sent = [_pass_on(x, group) for x in block] if step + 1 < c else []
        if k_places[source].min() <= q_places.max():
            part = attend(q, *block, q_places, k_places[source])
            done = part if done is None else merge_partials(*done, *part)
        for work in [work for _, works in sent for work in works]:
            work.wait()
        block = [arrived for arrived, _ in sent]
    return done[0].to(q.dtype), done[1]
