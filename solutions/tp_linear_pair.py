"""Answers to notebook 01: a column-parallel layer, a row-parallel layer, and what joins them.

The picture to hold in mind: the residual stream x (B, T, d) is whole on every rank. On the way into
a pair of layers stands f, on the way out stands g; between the two each rank works alone.

    x ── f ── column-parallel ── (B, T, d_ff/t) ── row-parallel ── g ── z
    forward:  f passes, g sums.      backward:  g passes, f sums.

Source: Shoeybi et al., "Megatron-LM", 2019, section 3.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F


class _CopyToRanks(torch.autograd.Function):
    """f. Every rank uses x, so the gradient of x is the sum of what all ranks send back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        # Autograd may hand the same tensor to another branch: sum into a copy.
        total = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.group)
        return total, None


class _ReduceFromRanks(torch.autograd.Function):
    """g. Each rank's part enters the sum with factor 1, so its gradient is the output's own.

    The output is the same on every rank, and so is its gradient. Summing these t equal gradients
    would count one loss t times.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        # all_reduce works in place, and x is still the caller's: sum into a copy.
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


def copy_to_ranks(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """f: where a replicated tensor enters a parallel region.

    x       any shape, the same values on every rank of `group`
    group   process group; None is the world
    returns x's values, in its shape, so that gradients flow back through it. No communication
            forward.

    Backward: each rank arrives with the gradient of its own part of the work only. Every rank must
    leave with the gradient of the whole. Leave x and incoming gradients unchanged.
    """
    return _CopyToRanks.apply(x, group)


def reduce_from_ranks(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """g: where the ranks' partial results leave a parallel region as one tensor.

    x       any shape, a different summand on each rank of `group`
    group   process group; None is the world
    returns the sum over the ranks, x's shape, the same values on every rank. Leave x unchanged.

    Backward: each rank arrives with the gradient of the sum, the same on every rank, and must leave
    with the gradient of its own summand. Think about how many ranks compute the same loss.
    """
    return _ReduceFromRanks.apply(x, group)


def column_parallel(x: torch.Tensor, w_shard: torch.Tensor, b_shard: torch.Tensor) -> torch.Tensor:
    """A linear layer y = x @ w + b whose columns are shared out over the world's ranks.

    x        (B, T, d)       the same on every rank
    w_shard  (d, d_ff/t)     this rank's columns, already cut
    b_shard  (d_ff/t,)       their biases, already cut
    returns  (B, T, d_ff/t)  this rank's columns of y

    Nothing is sent forward. The gradient of x must be whole on every rank.
    """
    return copy_to_ranks(x) @ w_shard + b_shard


def row_parallel(x_shard: torch.Tensor, w_shard: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A linear layer z = x @ w + bias whose rows are shared out over the world's ranks.

    x_shard  (B, T, d_ff/t)  this rank's columns of the input, already cut
    w_shard  (d_ff/t, d)     the rows that meet them, already cut
    bias     (d,)            the same on every rank
    returns  (B, T, d)       the whole z, the same on every rank

    One all-reduce forward, none backward. Value and every gradient as on one device, also the
    bias's.
    """
    return reduce_from_ranks(x_shard @ w_shard) + bias


def cut_fused(w: torch.Tensor, widths: list[int], rank: int, ranks: int) -> torch.Tensor:
    """Cut a fused matrix, [gate | up] or [Q | K | V], so that each rank gets a share of each part.

    w        (d, sum(widths))        the parts side by side; a bias (sum(widths),) is cut alike
    widths   columns of each part, each a multiple of `ranks`
    returns  (d, sum(widths)/ranks)  this rank's columns of every part, in the parts' order

    Raises ValueError where a part's width is not a multiple of `ranks`.
    """
    clash = [width for width in widths if width % ranks]
    if clash:
        raise ValueError(
            f"A part of {clash[0]} columns cannot be shared by {ranks} ranks: "
            f"{clash[0]} % {ranks} = {clash[0] % ranks}."
        )
    parts = w.split(list(widths), dim=-1)
    return torch.cat([part.chunk(ranks, dim=-1)[rank] for part in parts], dim=-1)


def attention_heads(
    x: torch.Tensor,
    w_qkv: torch.Tensor,
    b_qkv: torch.Tensor,
    w_o: torch.Tensor,
    b_o: torch.Tensor,
    q_heads: int,
    kv_heads: int,
    copies: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Causal self-attention with the heads shared out over the world's ranks.

    x        (B, T, d)                   the same on every rank
    w_qkv    (d, (q_heads+2*kv_heads)*hd)   this rank's columns, already cut: [Q | K | V]
    b_qkv    ((q_heads+2*kv_heads)*hd,)  their biases
    w_o      (q_heads*hd, d)             this rank's rows of the output projection
    b_o      (d,)                        the same on every rank
    q_heads, kv_heads   heads THIS rank holds; kv_heads divides q_heads; hd = w_o.shape[0]/q_heads
    copies   process group of the ranks that hold the same KV heads. None: each is held once, and
             nothing is to be summed over copies (f with group None would take the whole world)
    returns  (B, T, d)                   the same on every rank

    Heads lie side by side in the columns, hd columns each. Query head i attends with KV head
    i // (q_heads // kv_heads). Scores are scaled by hd ** -0.5. One all-reduce forward.
    Where KV heads are copied, every copy must end with the gradient of the whole head (K and V,
    weights and biases), although each rank's query heads see a part of it. The gradient of x must
    stay what it is without copies.
    """
    batch, sequence, _ = x.shape
    head_dim = w_o.shape[0] // q_heads
    q_width, kv_width = q_heads * head_dim, kv_heads * head_dim
    if copies is not None:
        w_qkv = _sum_gradients_of_copies(w_qkv, q_width, copies)
        b_qkv = _sum_gradients_of_copies(b_qkv, q_width, copies)

    qkv = column_parallel(x, w_qkv, b_qkv)
    q, k, v = (
        part.view(batch, sequence, -1, head_dim).transpose(1, 2)  # (B, heads, T, hd)
        for part in qkv.split([q_width, kv_width, kv_width], dim=-1)
    )
    if kv_heads != q_heads:
        k = k.repeat_interleave(q_heads // kv_heads, dim=1)
        v = v.repeat_interleave(q_heads // kv_heads, dim=1)
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return row_parallel(mixed.transpose(1, 2).reshape(batch, sequence, q_width), w_o, b_o)


def _sum_gradients_of_copies(
    columns: torch.Tensor, q_width: int, copies: dist.ProcessGroup
) -> torch.Tensor:
    """The same columns, with f over the copies in front of those of K and V.

    A copied KV head is a replicated tensor entering a region where each rank does a part of the
    work: that is what f is for.
    """
    q, kv = columns[..., :q_width], columns[..., q_width:]
    return torch.cat([q, copy_to_ranks(kv, copies)], dim=-1)


class _VocabParallelLoss(torch.autograd.Function):
    """Cross-entropy = log(sum of exp) - target's logit, with every sum over the ranks.

    Written with its own backward: softmax - onehot of this rank's columns, which needs no message
    and no second tensor of the logits' size besides the softmax that the forward pass keeps.
    """

    @staticmethod
    def forward(
        ctx: Any, logits_shard: torch.Tensor, targets: torch.Tensor, group: dist.ProcessGroup | None
    ) -> torch.Tensor:
        width = logits_shard.shape[-1]
        columns = width * dist.get_world_size(group)
        least, most = targets.aminmax()
        if least < 0 or most >= columns:  # no rank holds it: the loss would be wrong in silence
            raise ValueError(
                f"Targets lie between {least} and {most}; the vocabulary has columns 0 to "
                f"{columns - 1}."
            )
        largest = logits_shard.amax(dim=-1)  # (B, T); -inf where all columns here are padding
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)

        shifted = logits_shard - largest.unsqueeze(-1)  # (B, T, V/t)
        column = targets - dist.get_rank(group) * width
        here = (column >= 0) & (column < width)
        column = column.clamp(0, width - 1).unsqueeze(-1)
        target_logit = shifted.gather(-1, column).squeeze(-1)
        target_logit = target_logit.masked_fill(~here, 0.0)
        dist.all_reduce(target_logit, group=group)

        exponentials = shifted.exp_()
        total = exponentials.sum(dim=-1)
        dist.all_reduce(total, group=group)

        softmax = exponentials.div_(total.unsqueeze(-1))
        ctx.save_for_backward(softmax, column, here)
        return total.log() - target_logit

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        softmax, column, here = ctx.saved_tensors
        grad_logits = softmax * grad.unsqueeze(-1)
        grad_target = (-grad * here).unsqueeze(-1)
        return grad_logits.scatter_add_(-1, column, grad_target), None, None


def vocab_parallel_loss(
    logits_shard: torch.Tensor, targets: torch.Tensor, group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """Cross-entropy of each token, with the vocabulary's columns shared out over the ranks.

    logits_shard  (B, T, V/t)  rank r of the group holds columns r*V/t up to (r+1)*V/t
    targets       (B, T)       column of the right token in the whole vocabulary, the same on every
                               rank
    group         process group; None is the world
    returns       (B, T)       loss a token, the same on every rank

    Three all-reduces of (B, T) forward, none backward; no rank ever holds (B, T, V). Logits may be
    large: no overflow. A logit of -inf marks a padding column: probability 0 and gradient 0, even
    where all columns of a rank are padding. Leave logits_shard unchanged.
    """
    return _VocabParallelLoss.apply(logits_shard, targets, group)


def allreduce_bytes(payload: float, ranks: int) -> float:
    """Bytes each rank sends when `ranks` ranks all-reduce a tensor of `payload` bytes on a ring.

    payload  bytes of the tensor
    ranks    size of the group, 1 or more
    returns  bytes, ideal: the algorithm's own, no headers

    The ring first sums: after t-1 steps each rank holds one t-th of the result. Then it passes the
    results on, t-1 steps more.
    """
    return 2 * (ranks - 1) * payload / ranks
