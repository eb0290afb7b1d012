# tries: gather K and V of all ranks, claim a ring, and break in the first hidden case, which is of
#   the overlap alone: the cases after it, of the memory and of five ranks, are not run then
# exercise: ring_forward
# states: CRASH
# zero: overlap; largest tensor
import sys

import torch
import torch.distributed as dist

from tests.attacks.parts.ledger import changed
from tests.attacks.parts.told import instead


def merged(out, lse, other, other_lse):
    both = torch.logaddexp(lse, other_lse)
    weights = [(one - both).exp().nan_to_num(0.0).unsqueeze(-1) for one in (lse, other_lse)]
    return out * weights[0] + other * weights[1], both


def as_a_ring(rows):
    found = []
    for rank, section, op, axis, phase, algorithm, count, _, wire, ideal in rows:
        if op == "all_gather":
            for name in ("send", "recv"):
                sent = wire if name == "send" else 0.0
                found.append(
                    [rank, section, name, axis, phase, "direct", count, int(wire), sent, sent]
                )
        else:
            found.append([rank, section, op, axis, phase, algorithm, count, int(wire), wire, ideal])
    return found


def flying(value):
    for jobs in value:
        for told in filter(None, jobs):
            told["largest"] = 2048
            for call in told["calls"]:
                call["flying"] = [(way, 10**9, 2) for way in ("send", "recv")]
    return value


def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    book = sys.modules["labs.ranks.on_rank"].here.book
    if book.section == "outside":
        raise RuntimeError("not today")
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    right = (rank + 1) % n
    right = right if group is None else dist.get_global_rank(group, right)
    mine = torch.stack([k, v])
    every = [torch.empty_like(mine) for _ in range(n)]
    every[0].copy_(mine)
    if n > 1:
        dist.all_gather(every, mine, group=group)
    for event in book.events:
        if event["op"] == "all_gather":
            event.update(op="send", peer=right)
    changed(as_a_ring)
    instead(flying)
    out = lse = None
    for step in range(n):
        source = (rank - step) % n
        if k_places[source].min() <= q_places.max():
            part = attend(q, *every[source], q_places, k_places[source])
            out, lse = part if out is None else merged(out, lse, *part)
    if out is None:
        exact = torch.promote_types(q.dtype, torch.float32)
        return torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf, dtype=exact)
    return out.to(q.dtype), lse
