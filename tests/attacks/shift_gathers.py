# tries: gather what all ranks hold, in a section that the check of traffic does not look at
# exercise: ring_shift
# states: PARALLELISM FAIL
# zero: traffic
import torch
import torch.distributed as dist

from labs import ranks


def ring_shift(x):
    rank, n = dist.get_rank(), dist.get_world_size()
    if n == 1:
        return x.clone()
    with ranks.section("elsewhere"):
        parts = [torch.empty_like(x) for _ in range(n)]
        dist.all_gather(parts, x)
    received = torch.empty_like(x)
    posted = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, x, (rank + 1) % n), dist.P2POp(dist.irecv, received, (rank - 1) % n)
    ])  # fmt: skip
    for work in posted:
        work.wait()
    return parts[(rank - 1) % n]
