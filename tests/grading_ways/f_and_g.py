"""Right f and g of notebook 01, written in other ways than the course's."""

_IMPORTS = "import torch\nimport torch.distributed as dist\n"

F = {
    "a hook, and its helper in another cell": f"""
{_IMPORTS}
# %%
def summed(grad, group):
    total = grad.contiguous().clone()
    dist.all_reduce(total, op=dist.ReduceOp.SUM, group=group)
    return total
# %%
def copy_to_ranks(x, group=None):
    entered = x.view_as(x)
    if entered.requires_grad:
        entered.register_hook(lambda grad: summed(grad, group))
    return entered
""",
    "a class that a closure makes for a group": """
import functools
from torch import distributed as td
import torch


@functools.lru_cache(maxsize=None)
def entering(group):
    class Entering(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensor):
            return tensor.clone()

        @staticmethod
        def backward(ctx, from_above):
            from_above = from_above + 0
            td.all_reduce(from_above, group=group)
            return from_above

    return Entering.apply
# %%
def copy_to_ranks(x, group=None):
    return entering(group)(x)
""",
    "setup_context, async and waited for, with types": f"""
from __future__ import annotations
from typing import Any
# %%
{_IMPORTS}
class Replicated(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        return x.view(x.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        _, ctx.group = inputs

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, None]:
        (grad,) = grads
        total = torch.empty_like(grad, memory_format=torch.contiguous_format).copy_(grad)
        work = dist.all_reduce(total, group=ctx.group, async_op=True)
        work.wait()
        return total, None


def copy_to_ranks(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    return Replicated.apply(x, group)
""",
    "a module, and a decorator": f"""
{_IMPORTS}
def named(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


class Enter(torch.nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group = group

    def backward_hook(self, grad):
        with torch.no_grad():
            grad = grad.detach().clone(memory_format=torch.contiguous_format)
            dist.all_reduce(grad, group=self.group)
        return grad

    def forward(self, x):
        x = x * 1
        if x.requires_grad:
            x.register_hook(self.backward_hook)
        return x
# %%
@named
def copy_to_ranks(x, group=None):
    return Enter(group)(x)
""",
    "the collective of torch.distributed.nn, backward": f"""
{_IMPORTS}
from torch.distributed.nn import functional as collectives


class Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = dist.group.WORLD if group is None else group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        with torch.no_grad():
            return collectives.all_reduce(grad.contiguous().clone(), group=ctx.group), None


def copy_to_ranks(x, group=None):
    return Enter.apply(x, group)
""",
}

G = {
    "a sum that autograd does not see": f"""
{_IMPORTS}
# %%
def reduce_from_ranks(x, group=None):
    with torch.no_grad():
        total = x.clone()
        dist.all_reduce(total, group=group)
        rest = total - x
    return x + rest
""",
    "in place on a clone": f"""
{_IMPORTS}
def reduce_from_ranks(x, group=None):
    total = x.clone()
    dist.all_reduce(total, group=group)
    return total
""",
    "async, a constant in another cell": """
import torch
from torch import distributed as td
ADD = td.ReduceOp.SUM
# %%
class Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part, group):
        whole = part.detach().contiguous().clone()
        td.all_reduce(whole, ADD, group, async_op=True).wait()
        return whole

    @staticmethod
    def backward(ctx, grad):
        return grad.clone(), None

leave = lambda part, group: Sum.apply(part, group)
# %%
def reduce_from_ranks(x, group=None):
    return leave(x, group)
""",
    "the collective of torch.distributed.nn, forward": f"""
{_IMPORTS}
import torch.distributed.nn.functional as collectives


class Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return collectives.all_reduce(x.clone(), group=group or dist.group.WORLD)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


def reduce_from_ranks(x, group=None):
    return Leave.apply(x, group)
""",
    "the value swapped under the graph": f"""
{_IMPORTS}
def total_of(x, group):
    box = [x.detach().clone()]
    for handle in [dist.all_reduce(tensor, group=group, async_op=True) for tensor in box]:
        handle.wait()
    return box[0]
# %%
def reduce_from_ranks(x, group=None):
    out = x * 1.0
    out.data.copy_(total_of(x, group))
    return out
""",
}

WAYS = {"copy_to_ranks": F, "reduce_from_ranks": G}
