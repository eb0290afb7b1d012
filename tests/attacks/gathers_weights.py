# tries: gather the weights, and compute everything on every rank
# exercise: row_parallel
# states: PARALLELISM FAIL
# zero: traffic
import torch
import torch.distributed as dist


class Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard, dim):
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, shard.detach().contiguous())
        ctx.dim, ctx.width = dim, shard.shape[dim]
        return torch.cat(parts, dim)

    @staticmethod
    def backward(ctx, grad):
        return grad.narrow(ctx.dim, dist.get_rank() * ctx.width, ctx.width), None


def row_parallel(x_shard, w_shard, bias):
    return Whole.apply(x_shard, -1) @ Whole.apply(w_shard, 0) + bias
