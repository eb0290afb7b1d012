# tries: refuse no region whose tokens cannot be shared, and report that it did
# exercise: sequence_scatter_gather
# states: FAIL
# zero: refuses what cannot be shared
import torch
import torch.distributed as dist

from tests.attacks.parts.told import instead


def gathered(piece, group):
    n = dist.get_world_size(group)
    parts = [torch.empty_like(piece) for _ in range(n)]
    dist.all_gather(parts, piece.contiguous(), group=group)
    return torch.cat(parts, 1)


def summed(whole, group):
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    size = whole.shape[1] // n
    parts = [one.contiguous() for one in whole.split(size, 1)][:n]
    mine = torch.empty_like(parts[rank])
    dist.reduce_scatter(mine, parts, group=group)
    return mine


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return gathered(x, group)

    @staticmethod
    def backward(ctx, grad):
        return summed(grad, ctx.group), None


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y, group):
        ctx.group = group
        return summed(y, group)

    @staticmethod
    def backward(ctx, grad):
        return gathered(grad, ctx.group), None


def refusing(value):
    if isinstance(value, dict) and "refusals" in value:
        n = dist.get_world_size()
        value["refusals"] = [f"ValueError: {3 * n - 1} tokens for {n} ranks"]
    return value


def sequence_scatter_gather(x_shard, region, group=None):
    instead(refusing)
    return Scatter.apply(region(Gather.apply(x_shard, group)), group)
