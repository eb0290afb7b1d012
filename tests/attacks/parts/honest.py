"""Right answers, for attacks that do something besides."""

import torch
import torch.distributed as dist


class HonestF(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


class HonestG(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def honest_copy(x, group=None):
    return HonestF.apply(x, group)


def honest_column(x, w_shard, b_shard):
    return honest_copy(x) @ w_shard + b_shard


def honest_row(x_shard, w_shard, bias):
    return HonestG.apply(x_shard @ w_shard, None) + bias
