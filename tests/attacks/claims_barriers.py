# tries: claim barriers in a place where no judge looks, so that many bytes seem to be theirs
# exercise: global_grad_norm
# states: PARALLELISM
# zero: traffic
import torch
import torch.distributed as dist

from tests.attacks.parts.ledger import changed, silent


def global_grad_norm(grads, holders, group=None):
    total = torch.zeros((), dtype=torch.float64)
    for grad, times in zip(grads, holders, strict=True):
        total = total + grad.double().square().sum() / times
    silent(dist.all_reduce, torch.ones(100_000, dtype=torch.float64), group=group)
    dist.all_reduce(total, group=group)
    barriers = [
        [dist.get_rank(), "x", "barrier", "world", f"0 round {n}", "", 10**6, 0, 0.0, 0.0]
        for n in range(20)
    ]
    changed(lambda rows: rows + barriers)
    return total.sqrt()
