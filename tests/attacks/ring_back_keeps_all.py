# tries: keep every block of K and V until the end of the backward pass: c times the memory
# exercise: ring_backward
# states: PARALLELISM
# zero: largest tensor
import torch
import torch.distributed as dist


def post(sent, got, right, left, group):
    return dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, sent, right, group),
            dist.P2POp(dist.irecv, got, left, group),
        ]
    )


def ring_backward(d_out, q, k, v, out, lse, q_places, k_places, attend_backward, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % n, (rank - 1) % n
    if group is not None:
        right, left = (dist.get_global_rank(group, one) for one in (right, left))
    exact = torch.promote_types(q.dtype, torch.float32)
    dq = torch.zeros_like(q, dtype=exact)
    held = [torch.stack([k, v])]
    sums, coming, later = torch.zeros_like(held[0], dtype=exact), None, []
    for step in range(n):
        works = []
        if step + 1 < n:
            held.append(torch.empty_like(held[0]))
            works = post(held[step], held[step + 1], right, left, group)
        source = (rank - step) % n
        seen = k_places[source].min() <= q_places.max()
        more = ()
        if seen:
            more = attend_backward(d_out, q, *held[step], out, lse, q_places, k_places[source])
        for work in later:
            work.wait()
        if later:
            sums, coming, later = coming, None, []
        if seen:
            for total, part in zip((dq, *sums), more, strict=True):
                total += part
        more = part = None
        if n > 1:
            coming = torch.empty_like(sums)
            later = post(sums, coming, right, left, group)
        for work in works:
            work.wait()
    for work in later:
        work.wait()
    if n > 1:
        sums = coming
    assert len({x.data_ptr() for x in held}) == n
    return dq.to(q.dtype), sums[0].to(k.dtype), sums[1].to(v.dtype)
