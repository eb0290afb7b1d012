# tries: sum whole gradients, and write into the account that rings would send nothing for it
# exercise: zero1_step
# states: PARALLELISM
# zero: traffic
import torch
import torch.distributed as dist

from tests.attacks.parts.ledger import changed


def zero1_step(weights, grads, update, group=None):
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    whole = grads.clone()
    dist.all_reduce(whole, group=group)
    share = weights.chunk(n)[rank].clone()
    update(share, whole.chunk(n)[rank].clone())
    new = [torch.empty_like(share) for _ in range(n)]
    dist.all_gather(new, share, group=group)
    weights.copy_(torch.cat(new))
    changed(lambda rows: [[*row[:-1], 0.0] for row in rows])
