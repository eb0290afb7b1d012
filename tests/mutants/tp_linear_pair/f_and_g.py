"""Wrong f and wrong g: what is summed, when, and into whose tensor."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, adder

MUTANTS: list[Mutant] = []
_mutant = adder(MUTANTS)

_mutant(
    "copy_to_ranks",
    "f_missing",
    "f is left out: the output is right, the gradient of x is one rank's part",
    "backward, all-reduce",
    "gradient traffic",
    """
    def copy_to_ranks(x, group=None):
        return x
    """,
)
_mutant(
    "copy_to_ranks",
    "f_sums_forward",
    "f all-reduces in the forward pass as well: x comes out t times too large",
    "forward",
    "value traffic",
    """
    class SumBothWays(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            x = x.clone()
            dist.all_reduce(x, group=group)
            return x

        @staticmethod
        def backward(ctx, grad):
            grad = grad.clone()
            dist.all_reduce(grad, group=ctx.group)
            return grad, None

    def copy_to_ranks(x, group=None):
        return SumBothWays.apply(x, group)
    """,
)
_mutant(
    "copy_to_ranks",
    "f_averages",
    "f averages the gradient: 1/t of what it should be",
    "factor",
    "gradient",
    """
    class Average(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            grad = grad.clone()
            dist.all_reduce(grad, group=ctx.group)
            return grad / dist.get_world_size(ctx.group), None

    def copy_to_ranks(x, group=None):
        return Average.apply(x, group)
    """,
)
_mutant(
    "copy_to_ranks",
    "f_in_place",
    "f all-reduces in place on the gradient that autograd handed to it",
    "in place",
    "input",
    """
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            dist.all_reduce(grad, group=ctx.group)
            return grad, None

    def copy_to_ranks(x, group=None):
        return InPlace.apply(x, group)
    """,
)
_mutant(
    "reduce_from_ranks",
    "g_sums_backward",
    "g's backward all-reduces too: gradients t times too large",
    "factor, identity",
    "gradient traffic",
    """
    class SumBothWays(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            x = x.clone()
            dist.all_reduce(x, group=group)
            return x

        @staticmethod
        def backward(ctx, grad):
            grad = grad.clone()
            dist.all_reduce(grad, group=ctx.group)
            return grad, None

    def reduce_from_ranks(x, group=None):
        return SumBothWays.apply(x, group)
    """,
)
_mutant(
    "reduce_from_ranks",
    "g_from_torch",
    "torch.distributed.nn's all_reduce, whose backward sums: the other convention, a factor t",
    "factor, identity",
    "gradient traffic",
    """
    import torch.distributed.nn.functional

    def reduce_from_ranks(x, group=None):
        whole = dist.group.WORLD if group is None else group
        return torch.distributed.nn.functional.all_reduce(x.clone(), group=whole)
    """,
)
_mutant(
    "reduce_from_ranks",
    "g_in_place",
    "g all-reduces in place on the caller's tensor",
    "in place",
    "input",
    """
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            dist.all_reduce(x, group=group)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    def reduce_from_ranks(x, group=None):
        return InPlace.apply(x, group)
    """,
)
_mutant(
    "reduce_from_ranks",
    "g_missing",
    "no communication: each rank returns its own part",
    "all-reduce",
    "value traffic",
    """
    def reduce_from_ranks(x, group=None):
        return x.view_as(x)
    """,
)
_mutant(
    "reduce_from_ranks",
    "g_detached",
    "the all-reduce happens outside the graph: nothing flows back",
    "autograd",
    "gradient",
    """
    def reduce_from_ranks(x, group=None):
        total = x.detach().clone()
        dist.all_reduce(total, group=group)
        return total
    """,
)
_mutant(
    "copy_to_ranks",
    "f_ignores_group",
    "the sum goes over the world, whatever the group",
    "group",
    "group",
    """
    class OverWorld(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            grad = grad.clone()
            dist.all_reduce(grad)
            return grad, None

    def copy_to_ranks(x, group=None):
        return OverWorld.apply(x, group)
    """,
)
_mutant(
    "copy_to_ranks",
    "f_loses_the_sum",
    "backward all-reduces a copy and returns the gradient from before",
    "sum is lost",
    "gradient",
    """
    class SumLost(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            dist.all_reduce(grad.clone(), group=ctx.group)
            return grad, None

    def copy_to_ranks(x, group=None):
        return SumLost.apply(x, group)
    """,
)
_mutant(
    "copy_to_ranks",
    "f_as_a_hook",
    "a hook on x itself: it sums the gradient of all that x is used for, not of this layer",
    "hook",
    "branch",
    """
    def copy_to_ranks(x, group=None):
        def total(grad):
            grad = grad.clone()
            dist.all_reduce(grad, group=group)
            return grad

        x.register_hook(total)
        return x
    """,
)
_mutant(
    "copy_to_ranks",
    "f_is_g",
    "f and g are taken for each other",
    "forward, backward",
    "value gradient",
    """
    def copy_to_ranks(x, group=None):
        return reduce_from_ranks(x, group)
    """,
)
_mutant(
    "reduce_from_ranks",
    "g_averages",
    "g divides the sum by the number of ranks",
    "factor",
    "value",
    """
    class Average(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            x = x.clone()
            dist.all_reduce(x, group=group)
            return x / dist.get_world_size(group)

        @staticmethod
        def backward(ctx, grad):
            return grad, None

    def reduce_from_ranks(x, group=None):
        return Average.apply(x, group)
    """,
)
_mutant(
    "reduce_from_ranks",
    "g_divides_gradient",
    "g's backward divides by t, as if the sum were shared out",
    "factor, identity",
    "gradient",
    """
    class Divided(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.ranks = dist.get_world_size(group)
            x = x.clone()
            dist.all_reduce(x, group=group)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad / ctx.ranks, None

    def reduce_from_ranks(x, group=None):
        return Divided.apply(x, group)
    """,
)
_mutant(
    "reduce_from_ranks",
    "g_is_f",
    "f and g are taken for each other",
    "identity, forward",
    "value gradient",
    """
    def reduce_from_ranks(x, group=None):
        return copy_to_ranks(x, group)
    """,
)
