# tries: send a quarter of the weights twice more, past the account, and claim 60 calls of no
#   byte at all: for each call some bytes used to be allowed
# exercise: zero1_step
# states: PARALLELISM
# zero: traffic
import torch
import torch.distributed as dist

from tests.attacks.parts.ledger import changed, silent


def empty_calls(rows):
    sections = sorted({(row[0], row[1]) for row in rows if "round" in row[1]})
    return rows + [
        [r, s, "all_reduce", "empty", "forward", "ring", 58, 0, 0.0, 0.0] for r, s in sections
    ]


def zero1_step(weights, grads, update, group=None):
    changed(empty_calls)
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    share = weights.view(n, -1)[rank]
    grad = torch.empty_like(share)
    dist.reduce_scatter_tensor(grad, grads, group=group)
    update(share, grad)
    dist.all_gather_into_tensor(weights, share, group=group)
    if n > 2 and weights.numel() < 2**20:
        quarter = weights[: len(weights) // 4].clone()
        silent(dist.all_reduce, quarter, group=group)
