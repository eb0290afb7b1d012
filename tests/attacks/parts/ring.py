"""A right ring, that hands each block which it is done with to `keep`."""

import torch
import torch.distributed as dist


def merged(out, lse, other, other_lse):
    both = torch.logaddexp(lse, other_lse)
    weights = [(one - both).exp().nan_to_num(0.0).unsqueeze(-1) for one in (lse, other_lse)]
    return out * weights[0] + other * weights[1], both


def ring(q, k, v, q_places, k_places, attend, group, keep):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % n, (rank - 1) % n
    if group is not None:
        right, left = (dist.get_global_rank(group, one) for one in (right, left))
    block, out, lse = torch.stack([k, v]), None, None
    for step in range(n):
        works, arriving = [], None
        if step + 1 < n:
            arriving = torch.empty_like(block)
            works = dist.batch_isend_irecv([
                dist.P2POp(dist.isend, block, right, group),
                dist.P2POp(dist.irecv, arriving, left, group),
            ])  # fmt: skip
        source = (rank - step) % n
        if k_places[source].min() <= q_places.max():
            part = attend(q, block[0], block[1], q_places, k_places[source])
            out, lse = part if out is None else merged(out, lse, *part)
        for work in works:
            work.wait()
        keep(block)
        block = arriving
    if out is None:
        exact = torch.promote_types(q.dtype, torch.float32)
        return torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf, dtype=exact)
    return out.to(q.dtype), lse
