# tries: gather all gradients, unseen by the account, where one number each is enough
# exercise: global_grad_norm
# states: PARALLELISM
# zero: traffic
import torch
import torch.distributed as dist

from tests.attacks.parts.ledger import silent


def global_grad_norm(grads, holders, group=None):
    total = torch.zeros((), dtype=torch.float64)
    for grad, times in zip(grads, holders, strict=True):
        total = total + grad.double().square().sum() / times
    spent = torch.ones(40_000, dtype=torch.float64)
    silent(dist.all_reduce, spent, group=group)
    dist.all_reduce(total, group=group)
    return total.sqrt()
