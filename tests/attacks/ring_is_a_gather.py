# tries: no ring: each rank sends its block to all others and holds all of theirs, and writes
#   down that its messages went to its right
# exercise: ring_forward
# states: PARALLELISM FAIL
# zero: largest tensor
import sys

import torch
import torch.distributed as dist


def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    book = sys.modules["labs.ranks.on_rank"].here.book
    rank, n = dist.get_rank(group), dist.get_world_size(group)

    def at(r):
        return r % n if group is None else dist.get_global_rank(group, r % n)

    mine = torch.stack([k, v])
    every = [mine] + [torch.empty_like(mine) for _ in range(n - 1)]
    works = [[]] + [
        [
            dist.isend(mine, at(rank + hop), group=group),
            dist.irecv(every[hop], at(rank - hop), group=group),
        ]
        for hop in range(1, n)
    ]
    for event in book.events:
        if event["op"] == "send" and event["section"] == book.section:
            event["peer"] = at(rank + 1)
    out = lse = None
    exact = torch.promote_types(q.dtype, torch.float32)
    for hop, block in enumerate(every):
        for work in works[hop]:
            work.wait()
        source = (rank - hop) % n
        if k_places[source].min() <= q_places.max():
            o, own = attend(q, *block, q_places, k_places[source])
            if out is None:
                out, lse = o.to(exact), own
            else:
                both = torch.logaddexp(lse, own)
                out.mul_((lse - both).exp().nan_to_num(0.0).unsqueeze(-1))
                out.add_(o.mul_((own - both).exp().nan_to_num(0.0).unsqueeze(-1)))
                lse = both
            del o, own
    if out is None:
        return torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf, dtype=exact)
    return out.to(q.dtype), lse
