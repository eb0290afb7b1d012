# tries: report weights of a shape that makes gigabytes of a comparison, until the judge is ended
# exercise: zero1_step
# states: CRASH FAIL LIMIT
# zero: new weights
import torch
import torch.distributed as dist

from tests.attacks.parts.told import instead


def more(value):
    for rounds in value if isinstance(value, list) else ():  # another launch returns a tensor
        for told in rounds:
            if told and told["weights"].numel() == 2048:
                told["weights"] = torch.zeros(150_000, 1, dtype=torch.uint8)  # 2.5 GB
    return value


def zero1_step(weights, grads, update, group=None):
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    share = weights.chunk(n)[rank].clone()
    grad = torch.empty_like(share)
    dist.reduce_scatter_single(grad, grads, group=group)
    update(share, grad)
    dist.all_gather_single(weights, share, group=group)
    instead(more)
