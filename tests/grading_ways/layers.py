"""Right layers of notebook 01, written in other ways than the course's."""

_F_AND_G = """
import torch
import torch.distributed as dist


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, entering):
        ctx.entering = entering
        return x.view_as(x) if entering else total(x)

    @staticmethod
    def backward(ctx, grad):
        return total(grad) if ctx.entering else grad, None


def total(x):
    x = x.contiguous().clone()
    dist.all_reduce(x)
    return x
# %%
"""

COLUMN = {
    "einsum": """
def column_parallel(x, w_shard, b_shard):
    return torch.einsum("btd,df->btf", copy_to_ranks(x), w_shard) + b_shard
""",
    "F.linear, with f of its own": f"""
{_F_AND_G}
def column_parallel(x, w_shard, b_shard):
    return torch.nn.functional.linear(Pair.apply(x, True), w_shard.T, b_shard)
""",
    "addmm of flat tokens": """
def column_parallel(x, w_shard, b_shard):
    flat = copy_to_ranks(x).reshape(-1, x.shape[-1])
    y = torch.addmm(b_shard, flat, w_shard)
    return y.unflatten(0, x.shape[:-1])
""",
    "a layer with its own backward, whose sum is on its way meanwhile": """
import torch
import torch.distributed as dist


class Column(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return torch.matmul(x, w).add_(b)

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        grad_x = grad @ w.t()
        summing = dist.all_reduce(grad_x, async_op=True)
        grad_w = x.flatten(0, 1).t() @ grad.flatten(0, 1)
        grad_b = grad.sum((0, 1))
        summing.wait()
        return grad_x, grad_w, grad_b
# %%
def column_parallel(x, w_shard, b_shard):
    return Column.apply(x, w_shard, b_shard)
""",
    "columns one by one": """
def column_parallel(x, w_shard, b_shard):
    x = copy_to_ranks(x)
    columns = [x @ w_shard[:, i] + b_shard[i] for i in range(w_shard.shape[1])]
    return torch.stack(columns, dim=-1)
""",
}

ROW = {
    "a sum into an intermediate result": """
def row_parallel(x_shard, w_shard, bias):
    part = x_shard @ w_shard
    dist.all_reduce(part)
    return part + bias
""",
    "einsum, and g of its own": f"""
{_F_AND_G}
def row_parallel(x_shard, w_shard, bias):
    return bias + Pair.apply(torch.einsum("btf,fd->btd", [x_shard, w_shard]), False)
""",
    "F.linear, its bias afterwards": """
def row_parallel(x_shard, w_shard, bias):
    from torch.nn import functional
    z = reduce_from_ranks(functional.linear(x_shard, w_shard.transpose(0, 1)))
    z = z + bias.expand_as(z)
    return z
""",
    "a layer with its own backward": """
import torch
import torch.distributed as dist


class Row(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        z = x @ w
        dist.all_reduce(z)
        return z + b

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return grad @ w.mT, torch.tensordot(x, grad, ([0, 1], [0, 1])), grad.sum(dim=(0, 1))


def row_parallel(x_shard, w_shard, bias):
    return Row.apply(x_shard, w_shard, bias)
""",
    "a batch at a time, one sum": """
def row_parallel(x_shard, w_shard, bias):
    parts = [one.mm(w_shard) for one in x_shard.unbind(0)]
    return torch.add(reduce_from_ranks(torch.stack(parts)), bias)
""",
}

CUT = {
    "columns by their numbers": """
def cut_fused(w, widths, rank, ranks):
    if any(width % ranks != 0 for width in widths):
        raise ValueError(f"{widths} cannot be shared by {ranks}")
    columns, start = [], 0
    for width in widths:
        share = width // ranks
        columns += range(start + rank * share, start + (rank + 1) * share)
        start += width
    return w[..., columns]
""",
    "a mask of columns": """
def cut_fused(w, widths, rank, ranks):
    mine = []
    for width in widths:
        share, rest = divmod(width, ranks)
        if rest:
            raise ValueError(f"{width} % {ranks} is {rest}")
        owner = torch.arange(width) // share if share else torch.zeros(0)
        mine.append(owner == rank)
    return w[..., torch.cat(mine)]
""",
    "narrow, with running starts": """
import itertools

def starts(widths):
    return itertools.accumulate([0, *widths[:-1]])
# %%
def cut_fused(w, widths, rank, ranks):
    for width in widths:
        if width != width // ranks * ranks:
            raise ValueError("a part cannot be shared out")
    pieces = [
        w.narrow(-1, start + rank * (width // ranks), width // ranks)
        for start, width in zip(starts(widths), widths)
    ]
    return torch.concat(pieces, -1)
""",
    "index_select of a table": """
def cut_fused(w, widths, rank, ranks):
    table = torch.arange(w.size(-1)).split(list(widths))
    try:
        mine = [part.view(ranks, -1)[rank] for part in table]
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    return w.index_select(w.dim() - 1, torch.cat(mine))
""",
}

WAYS = {"column_parallel": COLUMN, "row_parallel": ROW, "cut_fused": CUT}
