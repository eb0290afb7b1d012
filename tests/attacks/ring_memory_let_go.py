# tries: keep every block of the ring in shared pages that it lets go of: the kernel keeps them, and
#   does not count them as this process's
# exercise: ring_forward
# states: PARALLELISM CRASH
# zero: largest tensor
import mmap

import torch
import torch.distributed as dist


def merged(out, lse, other, other_lse):
    both = torch.logaddexp(lse, other_lse)
    weights = [(one - both).exp().nan_to_num(0.0).unsqueeze(-1) for one in (lse, other_lse)]
    return out * weights[0] + other * weights[1], both


def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % n, (rank - 1) % n
    if group is not None:
        right, left = (dist.get_global_rank(group, one) for one in (right, left))
    each = -(-2 * k.numel() * k.element_size() // mmap.PAGESIZE) * mmap.PAGESIZE
    room = mmap.mmap(-1, n * each)
    kept = [
        torch.frombuffer(room, dtype=k.dtype, count=2 * k.numel(), offset=i * each).view(
            2, *k.shape
        )
        for i in range(n)
    ]
    kept[0][0], kept[0][1] = k, v
    out = lse = None
    for step in range(n):
        works = []
        if step + 1 < n:
            works = dist.batch_isend_irecv([
                dist.P2POp(dist.isend, kept[step], right, group),
                dist.P2POp(dist.irecv, kept[step + 1], left, group),
            ])  # fmt: skip
        source = (rank - step) % n
        if k_places[source].min() <= q_places.max():
            part = attend(q, kept[step][0], kept[step][1], q_places, k_places[source])
            out, lse = part if out is None else merged(out, lse, *part)
        for work in works:
            work.wait()
        room.madvise(mmap.MADV_DONTNEED, step * each, each)
    for one in range(n):  # all of them are still here
        assert kept[one].abs().sum() > 0
        room.madvise(mmap.MADV_DONTNEED, one * each, each)
    if out is None:
        exact = torch.promote_types(q.dtype, torch.float32)
        return torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf, dtype=exact)
    return out.to(q.dtype), lse
