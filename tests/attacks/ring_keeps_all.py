# tries: keep every block of K and V until the end: a ring's messages, c times its memory
# exercise: ring_forward
# states: PARALLELISM
# zero: largest tensor
import torch
import torch.distributed as dist


def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    right, left = (rank + 1) % n, (rank - 1) % n
    if group is not None:
        right, left = (dist.get_global_rank(group, one) for one in (right, left))
    held = [(k.contiguous(), v.contiguous())]
    out = lse = None
    exact = torch.promote_types(q.dtype, torch.float32)
    for step in range(n):
        works = []
        if step + 1 < n:
            held.append((torch.empty_like(k), torch.empty_like(v)))
            for sent, got in zip(held[step], held[step + 1], strict=True):
                works += dist.batch_isend_irecv(
                    [
                        dist.P2POp(dist.isend, sent, right, group),
                        dist.P2POp(dist.irecv, got, left, group),
                    ]
                )
        source = (rank - step) % n
        if k_places[source].min() <= q_places.max():
            o, own = attend(q, *held[step], q_places, k_places[source])
            o = o.to(exact)
            if out is None:
                out, lse = o, own
            else:
                both = torch.logaddexp(lse, own)
                out.mul_((lse - both).exp().nan_to_num(0.0).unsqueeze(-1))
                out.add_(o.mul_((own - both).exp().nan_to_num(0.0).unsqueeze(-1)))
                lse = both
            del o, own
        for work in works:
            work.wait()
    assert len({x[0].data_ptr() for x in held}) == n  # all blocks are here, at the same time
    if out is None:
        return torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf, dtype=exact)
    return out.to(q.dtype), lse
