"""Right attention and loss of notebook 01, written in other ways than the course's."""

_HEAD = """
def attention_heads(x, w_qkv, b_qkv, w_o, b_o, q_heads, kv_heads, copies=None):
    B, T, _ = x.shape
    hd = w_o.shape[0] // q_heads
    wide, kv = q_heads * hd, kv_heads * hd
    if copies is not None:
        w_qkv, b_qkv = (torch.cat([t[..., :wide], copy_to_ranks(t[..., wide:], copies)], -1)
                        for t in (w_qkv, b_qkv))
"""
ATTENTION = {
    "softmax and a mask written out": f"""{_HEAD}
    qkv = column_parallel(x, w_qkv, b_qkv)
    q = qkv[..., :wide].reshape(B, T, kv_heads, q_heads // kv_heads, hd)
    k, v = qkv[..., wide:].reshape(B, T, 2, kv_heads, hd).unbind(2)
    scores = torch.einsum("btgrh,bsgh->bgrts", q, k) / hd**0.5
    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(later, float("-inf")).softmax(-1)
    mixed = torch.einsum("bgrts,bsgh->btgrh", weights, v).reshape(B, T, wide)
    return row_parallel(mixed, w_o, b_o)
""",
    "head by head": f"""
def one_head(q, k, v):
    scores = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    scores = scores + torch.full(scores.shape[-2:], -torch.inf, dtype=q.dtype).triu(1)
    return torch.softmax(scores, dim=-1) @ v
# %%
{_HEAD}
    qkv = copy_to_ranks(x) @ w_qkv + b_qkv
    heads = qkv.split(hd, dim=-1)
    out = []
    for i in range(q_heads):
        at = q_heads + i // (q_heads // kv_heads)
        out.append(one_head(heads[i], heads[at], heads[at + kv_heads]))
    return reduce_from_ranks(torch.cat(out, -1) @ w_o) + b_o
""",
    "enable_gqa": f"""{_HEAD}
    qkv = column_parallel(x, w_qkv, b_qkv)
    heads = qkv.unflatten(-1, (q_heads + 2 * kv_heads, hd)).permute(0, 2, 1, 3)
    q, k, v = heads.split([q_heads, kv_heads, kv_heads], dim=1)
    mixed = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=True
    )
    return row_parallel(mixed.transpose(1, 2).flatten(2), w_o, b_o)
""",
    "hooks on the copies, a class for the heads": """
import math
import torch
import torch.distributed as dist
# %%
class Heads:
    def __init__(self, size, q_heads, kv_heads):
        self.size, self.q, self.kv = size, q_heads, kv_heads

    def cut(self, tensor):
        wide = self.q * self.size
        return tensor[..., :wide], tensor[..., wide:]

    def attend(self, q, kv):
        B, T, _ = q.shape
        q = q.view(B, T, self.q, self.size).transpose(1, 2)
        k, v = (t.view(B, T, self.kv, self.size).transpose(1, 2) for t in kv.chunk(2, -1))
        k, v = (t.repeat_interleave(self.q // self.kv, 1) for t in (k, v))
        seen = torch.tril(torch.ones(T, T)).bool()
        scores = torch.where(seen, q @ k.mT / math.sqrt(self.size), -math.inf)
        mixed = (scores - scores.logsumexp(-1, True)).exp() @ v
        return mixed.transpose(1, 2).reshape(B, T, -1)


def sum_backward(tensor, group=None):
    def hook(grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad, group=group)
        return grad

    tensor = tensor.view_as(tensor)
    if tensor.requires_grad:
        tensor.register_hook(hook)
    return tensor
# %%
def attention_heads(x, w_qkv, b_qkv, w_o, b_o, q_heads, kv_heads, copies=None):
    heads = Heads(w_o.shape[0] // q_heads, q_heads, kv_heads)
    (w_q, w_kv), (b_q, b_kv) = heads.cut(w_qkv), heads.cut(b_qkv)
    if copies is not None:
        w_kv, b_kv = sum_backward(w_kv, copies), sum_backward(b_kv, copies)
    x = sum_backward(x)
    z = heads.attend(x @ w_q + b_q, x @ w_kv + b_kv) @ w_o
    dist.all_reduce(z)
    return z + b_o
""",
}

LOSS = {
    "autograd through g": """
def vocab_parallel_loss(logits_shard, targets, group=None):
    width = logits_shard.shape[-1]
    with torch.no_grad():
        top = logits_shard.amax(-1)
        dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
    shifted = logits_shard - top[..., None]
    total = reduce_from_ranks(shifted.exp().sum(-1), group)
    place = targets - dist.get_rank(group) * width
    outside = (place < 0) | (place >= width)
    chosen = shifted.gather(-1, place.masked_fill(outside, 0)[..., None])[..., 0]
    return total.log() - reduce_from_ranks(chosen.masked_fill(outside, 0.0), group)
""",
    "a log-sum-exp of each rank, and then of all": """
import torch
import torch.distributed as dist


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, group):
        mine = torch.logsumexp(logits, -1)
        top = mine.clone()
        dist.all_reduce(top, dist.ReduceOp.MAX, group)
        total = (mine - top).exp()
        dist.all_reduce(total, group=group)
        lse = top + total.log()
        first = dist.get_rank(group) * logits.shape[-1]
        here = (targets >= first) & (targets < first + logits.shape[-1])
        place = torch.where(here, targets - first, 0).unsqueeze(-1)
        wanted = torch.where(here, logits.gather(-1, place).squeeze(-1), 0.0)
        dist.all_reduce(wanted, group=group)
        ctx.save_for_backward(logits, lse, place, here)
        return lse - wanted

    @staticmethod
    def backward(ctx, grad):
        logits, lse, place, here = ctx.saved_tensors
        out = (logits - lse.unsqueeze(-1)).exp_()
        out.scatter_add_(-1, place, -here.unsqueeze(-1).to(out.dtype))
        return out.mul_(grad.unsqueeze(-1)), None, None
# %%
def vocab_parallel_loss(logits_shard, targets, group=None):
    return Loss.apply(logits_shard, targets, group)
""",
    "columns compared with the targets": """
def columns_of(width, group):
    first = width * dist.get_rank(group)
    return torch.arange(first, first + width)
# %%
def vocab_parallel_loss(logits_shard, targets, group=None):
    top = logits_shard.detach().max(dim=-1, keepdim=True).values
    dist.all_reduce(top, op=dist.ReduceOp.MAX, group=group)
    shifted = logits_shard - top
    wanted = targets.unsqueeze(-1) == columns_of(logits_shard.size(-1), group)
    chosen = torch.where(wanted, shifted, torch.zeros((), dtype=shifted.dtype)).sum(-1)
    total = reduce_from_ranks(shifted.exp().sum(-1), group=group)
    chosen = reduce_from_ranks(chosen, group=group)
    return torch.log(total) - chosen
""",
    "indexed rows, sums started together": """
import torch
from torch import distributed as td


def added(*tensors, group):
    works = [td.all_reduce(one, group=group, async_op=True) for one in tensors]
    for work in works:
        work.wait()


class TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, group):
        rows, width = logits.reshape(-1, logits.shape[-1]), logits.shape[-1]
        top = rows.max(-1)[0]
        td.all_reduce(top, op=td.ReduceOp.MAX, group=group)
        soft = (rows - top[:, None]).exp()
        place = targets.reshape(-1) - td.get_rank(group) * width
        row = ((place >= 0) & (place < width)).nonzero().flatten()
        total, wanted = soft.sum(-1), torch.zeros_like(top)
        wanted[row] = rows[row, place[row]] - top[row]
        added(total, wanted, group=group)
        ctx.save_for_backward(soft.div_(total[:, None]), row, place)
        return (total.log() - wanted).view_as(targets)

    @staticmethod
    def backward(ctx, grad):
        soft, row, place = ctx.saved_tensors
        out = soft.clone()
        out[row, place[row]] -= 1
        out *= grad.reshape(-1, 1)
        return out.view(*grad.shape, -1), None, None


def vocab_parallel_loss(logits_shard, targets, group=None):
    return TokenLoss.apply(logits_shard, targets, group)
""",
}

WAYS = {"attention_heads": ATTENTION, "vocab_parallel_loss": LOSS}
