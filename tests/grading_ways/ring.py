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

FORWARD = {
    "a generator of blocks, in inference mode": """
import torch
import torch.distributed as dist
import functools
from dataclasses import dataclass


@dataclass
class Block:
    k: torch.Tensor
    v: torch.Tensor

    def parts(self):
        return [self.k, self.v]


def hops(block, rank, n, group):
    right, left = (rank + 1) % n, (rank - 1) % n
    op = functools.partial(dist.P2POp, group=group)
    for step in range(n):
        if step + 1 == n:
            yield (rank - step) % n, block
            return
        coming = Block(*map(torch.empty_like, block.parts()))
        works = dist.batch_isend_irecv(
            [op(dist.irecv, x, group_peer=left) for x in coming.parts()]
            + [op(dist.isend, x, group_peer=right) for x in block.parts()])
        yield (rank - step) % n, block
        for work in reversed(works):
            work.wait()
        block = coming

@torch.inference_mode()
def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    exact = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros_like(q, dtype=exact)
    lse = torch.full(q.shape[:-1], -torch.inf, dtype=exact)
    for source, block in hops(Block(k.contiguous(), v.contiguous()), rank, n, group):
        if (k_places[source] <= q_places.max()).any():
            o, own = attend(q, block.k, block.v, q_places, k_places[source])
            new = torch.logaddexp(lse, own)
            a = torch.where(lse == -torch.inf, 0.0, torch.exp(lse - new))[..., None]
            b = torch.where(own == -torch.inf, 0.0, torch.exp(own - new))[..., None]
            out, lse = out * a + o * b, new
    return out.to(q.dtype), lse
""",
    "two partial results stacked": """
import torch
import torch.distributed as dist

def merge(a, b):
    outs, lses = torch.stack([a[0], b[0]]), torch.stack([a[1], b[1]])
    lse = torch.logsumexp(lses, 0)
    weights = torch.exp(lses - lse).nan_to_num(0.0)
    return (outs * weights.unsqueeze(-1)).sum(0), lse


def ring_forward(q, k, v, q_places, k_places, attend, group=None):
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    to = (rank + 1) % n if group is None else dist.get_global_rank(group, (rank + 1) % n)
    frm = (rank - 1) % n if group is None else dist.get_global_rank(group, (rank - 1) % n)
    exact = torch.promote_types(q.dtype, torch.float32)
    state = torch.zeros(q.shape, dtype=exact), torch.full(q.shape[:-1], float("-inf"), dtype=exact)
    block = torch.cat([k, v], -1)
    d = k.shape[-1]
    for step in range(n):
        if step < n - 1:
            coming = torch.empty_like(block)
            works = [dist.isend(block, to, group=group), dist.irecv(coming, frm, group=group)]
        src = (rank - step) % n
        if k_places[src].min() <= q_places.max():
            kk, vv = block[..., :d].contiguous(), block[..., d:].contiguous()
            out, lse = attend(q, kk, vv, q_places, k_places[src])
            state = merge(state, (out.to(exact), lse.to(exact)))
        if step < n - 1:
            for w in works:
                w.wait()
            block = coming
    return state[0].to(q.dtype), state[1]
""",
}
WAYS = {
    "ring_forward": FORWARD,
    "sequence_scatter_gather": SEQUENCE,
    "merge_partials": MERGE,
    "causal_block_mask": MASK,
    "zigzag_positions": ZIGZAG,
}
