"""Right parts of notebook 04, written in other ways than the course's."""

SEQUENCE = {
    "nested classes, and collectives that are waited for": """
import torch
import torch.distributed as dist


def gathered(x, group):
    n = dist.get_world_size(group)
    pieces = x.new_empty(n * x.shape[0], *x.shape[1:])
    dist.all_gather_into_tensor(pieces, x.contiguous(), group=group, async_op=True).wait()
    return torch.cat(pieces.chunk(n), dim=1)


def scattered(y, group):
    n = dist.get_world_size(group)
    if y.shape[1] % n:
        raise ValueError(f"{y.shape[1]} tokens, {n} ranks")
    pieces = torch.cat(y.chunk(n, dim=1))
    mine = pieces.new_empty(len(y), y.shape[1] // n, *y.shape[2:])
    dist.reduce_scatter_tensor(mine, pieces, group=group, async_op=True).wait()
    return mine
# %%
def mirrored(there, back):
    class Mirrored(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            return there(x, group)

        @staticmethod
        def backward(ctx, grad):
            return back(grad, ctx.group), None

    return Mirrored.apply
# %%
def sequence_scatter_gather(x_shard, region, group=None):
    inside = mirrored(gathered, scattered)(x_shard, group)
    return mirrored(scattered, gathered)(region(inside), group)
""",
    "setup_context, tokens moved to the front": """
import torch
from torch import distributed as td


class Tokens(torch.autograd.Function):
    @staticmethod
    def forward(x, group):
        first = x.movedim(1, 0).contiguous()
        out = first.new_empty(td.get_world_size(group) * len(first), *first.shape[1:])
        td.all_gather_into_tensor(out, first, group=group)
        return out.movedim(0, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.group = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return Shares.apply(grad, ctx.group), None


class Shares(torch.autograd.Function):
    @staticmethod
    def forward(y, group):
        n, first = td.get_world_size(group), y.movedim(1, 0).contiguous()
        each, rest = divmod(len(first), n)
        if rest:
            raise ValueError(f"{len(first)} tokens over {n} ranks leave {rest}")
        out = first.new_empty(each, *first.shape[1:])
        td.reduce_scatter_tensor(out, first, op=td.ReduceOp.SUM, group=group)
        return out.movedim(0, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.group = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return Tokens.apply(grad, ctx.group), None


def sequence_scatter_gather(x_shard, region, group=None):
    return Shares.apply(region(Tokens.apply(x_shard, group)), group)
""",
}

MERGE = {
    "a softmax over the two": """
import torch

def merge_partials(out_a, lse_a, out_b, lse_b):
    both = torch.stack([lse_a, lse_b])
    nothing = (both == float("-inf")).all(0)
    safe = both.masked_fill(nothing, 0.0)
    share = torch.softmax(safe, dim=0).masked_fill(nothing, 0.0)
    out = torch.einsum("s...,s...d->...d", share, torch.stack([out_a, out_b]))
    return out, torch.logsumexp(safe, 0).masked_fill(nothing, float("-inf"))
""",
    "torch's logaddexp": """
import torch
NEVER = -torch.inf
# %%
def weigh(out, lse, total):
    return out * torch.exp(lse - total)[..., None]
# %%
def merge_partials(out_a, lse_a, out_b, lse_b):
    unseen = torch.logical_and(lse_a == NEVER, lse_b == NEVER)
    a = torch.where(unseen, torch.zeros_like(lse_a), lse_a)
    b = torch.where(unseen, torch.zeros_like(lse_b), lse_b)
    total = torch.logaddexp(a, b)
    out = weigh(out_a, a, total) + weigh(out_b, b, total)
    return out, torch.where(unseen, torch.full_like(total, NEVER), total)
""",
}

MASK = {
    "a difference": """
def causal_block_mask(q_places, k_places):
    return q_places[:, None] - k_places[None, :] >= 0
""",
    "not later": """
import torch

def causal_block_mask(q_places: torch.Tensor, k_places: torch.Tensor) -> torch.Tensor:
    later = torch.gt(*torch.broadcast_tensors(k_places.view(1, -1), q_places.view(-1, 1)))
    return torch.logical_not(later)
""",
    "row by row": """
import torch
sees = lambda place, keys: keys.le(place)
# %%
def causal_block_mask(q_places, k_places):
    mask = torch.zeros(len(q_places), len(k_places), dtype=torch.bool)
    for row, place in zip(mask, q_places):
        row[:] = sees(place, k_places)
    return mask
""",
}

ZIGZAG = {
    "rows of a table": """
import torch

def zigzag_positions(rank, ranks, length):
    if length % ranks or length // ranks % 2:
        raise ValueError(f"{length} tokens, {ranks} ranks")
    table = torch.arange(length).reshape(2 * ranks, -1)
    return table[[rank, -1 - rank]].flatten()
""",
    "whole numbers of Python": """
import torch

def chunk(number, size):
    return list(range(number * size, (number + 1) * size))
# %%
def zigzag_positions(rank, ranks, length):
    size, rest = divmod(length, 2 * ranks)
    if rest != 0:
        raise ValueError(f"{length} is not a multiple of {2 * ranks}: {rest} are left over")
    places = chunk(rank, size) + chunk(2 * ranks - rank - 1, size)
    return torch.tensor(places, dtype=torch.int64)
""",
    "a mask over all places": """
import torch

def zigzag_positions(rank: int, ranks: int, length: int) -> torch.Tensor:
    every = torch.arange(length)
    if length != length // (2 * ranks) * 2 * ranks:
        raise ValueError(f"{length} and {ranks}")
    number = every // (length // (2 * ranks))
    mine = (number == rank) | (number == 2 * ranks - 1 - rank)
    return every[mine]
""",
}

WAYS = {
    "sequence_scatter_gather": SEQUENCE,
    "merge_partials": MERGE,
    "causal_block_mask": MASK,
    "zigzag_positions": ZIGZAG,
}
