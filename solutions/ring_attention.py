"""Answers to notebook 04: attention over a sequence that no rank holds whole.

Softmax over all keys can be put together from softmaxes over blocks of keys, in any order. So the
blocks may come one at a time, each from a neighbour, while the last one is still being worked on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def _gather_tokens(x_shard: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
    """All-gather along T: (B, T/t, d) -> (B, T, d).

    Collectives lay the ranks' pieces one behind the other, so T has to stand first.
    """
    piece = x_shard.transpose(0, 1).contiguous()  # (T/t, B, d)
    whole = piece.new_empty(piece.shape[0] * dist.get_world_size(group), *piece.shape[1:])
    dist.all_gather_single(whole, piece, group=group)
    return whole.transpose(0, 1).contiguous()


def _scatter_sum(y: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
    """Reduce-scatter along T: (B, T, d), a summand a rank -> (B, T/t, d) of the sum."""
    ranks, length = dist.get_world_size(group), y.shape[1]
    if length % ranks:
        below = length - length % ranks
        near = f"{below} or {below + ranks}" if below else f"{ranks}"
        raise ValueError(
            f"A sequence of {length} tokens cannot be shared by {ranks} ranks: {length} % {ranks} "
            f"= {length % ranks}; {near} would do."
        )
    whole = y.transpose(0, 1).contiguous()  # (T, B, d)
    piece = whole.new_empty(length // ranks, *whole.shape[1:])
    dist.reduce_scatter_single(piece, whole, group=group)
    return piece.transpose(0, 1).contiguous()


class _Gather(torch.autograd.Function):
    """f with sequence parallelism. Each rank's gradient of all tokens is a summand: the mirror
    image sums them and leaves each rank its own tokens."""

    @staticmethod
    def forward(ctx: Any, x_shard: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        ctx.group = group
        return _gather_tokens(x_shard, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _scatter_sum(grad, ctx.group), None


class _Scatter(torch.autograd.Function):
    """g with sequence parallelism. A rank's summand went into every rank's tokens, so it needs the
    gradients of all tokens."""

    @staticmethod
    def forward(ctx: Any, y: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        ctx.group = group
        return _scatter_sum(y, group)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _gather_tokens(grad, ctx.group), None


def sequence_scatter_gather(
    x_shard: torch.Tensor,
    region: Callable[[torch.Tensor], torch.Tensor],
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """A tensor-parallel region between two sequence-parallel ones: Megatron's f and g with SP.

    x_shard  (B, T/t, d)  this rank's tokens; rank r of the group holds tokens r*T/t to (r+1)*T/t-1
    region   (B, T, d) -> (B, T, d): from all tokens to this rank's SUMMAND of the result for all
             tokens. Call it once
    group    process group; None is the world
    returns  (B, T/t, d)  the sum over the ranks, for this rank's tokens

    Forward: one all-gather before the region, one reduce-scatter after it, both along T. Backward:
    the same two, mirrored. Gradients flow to x_shard and to the weights that the region uses.
    Leave x_shard and incoming gradients unchanged. Raises ValueError, with the numbers, where the
    region returns tokens that the ranks cannot share equally.
    """
    return _Scatter.apply(region(_Gather.apply(x_shard, group)), group)


def merge_partials(
    out_a: torch.Tensor, lse_a: torch.Tensor, out_b: torch.Tensor, lse_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over two sets of keys, from attention over each of them.

    out_a, out_b  (..., n, d_h)  softmax-weighted values over set a, over set b
    lse_a, lse_b  (..., n)       log of the sum of exp(score) over that set; -inf: the query saw no
                                 key of it, and its out is 0
    returns       out, lse       over both sets, same shapes

    Scores may be near 1e4 or -1e4: no overflow. Where neither set had a key: out 0, lse -inf, and
    gradients that are finite. Leave the inputs unchanged.
    """
    largest = torch.maximum(lse_a, lse_b)
    largest = largest.masked_fill(largest == -torch.inf, 0.0)  # -inf - -inf is not a number
    weight_a, weight_b = (lse_a - largest).exp(), (lse_b - largest).exp()
    total = weight_a + weight_b
    nothing = total == 0
    total = total.masked_fill(nothing, 1.0)
    out = out_a * (weight_a / total).unsqueeze(-1) + out_b * (weight_b / total).unsqueeze(-1)
    return out, (largest + total.log()).masked_fill(nothing, -torch.inf)


def causal_block_mask(q_places: torch.Tensor, k_places: torch.Tensor) -> torch.Tensor:
    """Which keys of a block each query may see: those placed at or before it.

    q_places  (n_q,)      place of each query in the whole sequence, whole numbers
    k_places  (n_k,)      place of each key in the whole sequence
    returns   (n_q, n_k)  bool, True where the query sees the key
    """
    return k_places <= q_places.unsqueeze(-1)


def zigzag_positions(rank: int, ranks: int, length: int) -> torch.Tensor:
    """Places of the tokens that a rank holds when causal work is to be equal on all ranks.

    The sequence is cut into 2*ranks chunks of equal size. Rank r holds chunk r and, as far from the
    end as that one is from the beginning, its mirror image.

    rank     0 to ranks-1
    length   tokens of the whole sequence, a multiple of 2*ranks
    returns  (length/ranks,)  int64, ascending

    Raises ValueError, with the numbers, where the length is not a multiple of 2*ranks.
    """
    if length % (2 * ranks):
        raise ValueError(
            f"{length} tokens cannot be cut into 2*{ranks} equal chunks: "
            f"{length} % {2 * ranks} = {length % (2 * ranks)}."
        )
    size = length // (2 * ranks)
    chunk = torch.arange(size)
    return torch.cat([chunk + rank * size, chunk + (2 * ranks - 1 - rank) * size])


def _pass_on(
    mine: torch.Tensor, group: dist.ProcessGroup | None
) -> tuple[torch.Tensor, list[dist.Work]]:
    """Start to send a block to the right and to receive one from the left: what arrives, handles.

    Neighbours in a group have other numbers in the world, and it is those that a send wants.
    """
    group = group or dist.group.WORLD
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    right = dist.get_global_rank(group, (rank + 1) % ranks)
    left = dist.get_global_rank(group, (rank - 1) % ranks)
    arriving = torch.empty_like(mine)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, mine, right, group), dist.P2POp(dist.irecv, arriving, left, group)]
    )
    return arriving, works


def ring_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_places: torch.Tensor,
    k_places: torch.Tensor,
    attend: Callable[..., tuple[torch.Tensor, torch.Tensor]],
    group: dist.ProcessGroup | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of this rank's queries to the keys of all ranks; blocks of K, V go round a ring.

    q         (B, h, n, d_h)     this rank's queries, n = T/c of them on each of c ranks
    k, v      (B, h_kv, n, d_h)  its keys and values, as few heads as the model has of them
    q_places  (n,)               places of the queries, ascending; a query sees the keys placed at
                                 or before it
    k_places  (c, n)             row r: places of the keys that rank r of the group holds
    attend    attend(q, k, v, q_places, k_places) -> (out, lse): attention to one block of keys;
              out (B, h, n, d_h), lse (B, h, n), in fp32 or better
    group     the ranks of the ring; None is the world
    returns   out (B, h, n, d_h) of q's type, lse (B, h, n)

    Each rank passes c-1 blocks to the right, the next one on its way while this one is worked on.
    A block whose keys all come later than the queries is passed on, not worked on.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    block = torch.stack([k, v])  # one message
    out, lse = None, None
    for step in range(ranks):
        source = (rank - step) % ranks
        if step + 1 < ranks:
            arriving, works = _pass_on(block, group)
        if k_places[source].min() <= q_places.max():
            part = attend(q, block[0], block[1], q_places, k_places[source])
            out, lse = part if out is None else merge_partials(out, lse, *part)
        if step + 1 < ranks:
            for work in works:
                work.wait()
            block = arriving
    if out is None:  # no query sees any key
        exact = torch.promote_types(q.dtype, torch.float32)
        return torch.zeros_like(q), q.new_full(q.shape[:-1], -torch.inf, dtype=exact)
    return out.to(q.dtype), lse


def ring_backward(
    d_out: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    q_places: torch.Tensor,
    k_places: torch.Tensor,
    attend_backward: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    group: dist.ProcessGroup | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of this rank's q, k, v. K, V go round once more, their gradients one step behind.

    d_out     (B, h, n, d_h)   gradient of the loss by this rank's out
    out, lse  what ring_forward returned
    attend_backward  attend_backward(d_out, q, k, v, out, lse, q_places, k_places) -> (dq, dk, dv):
              what one block of keys adds, in fp32 or better. `out` and `lse` are over all keys
    returns   dq, dk, dv in the shapes and types of q, k, v

    The others as in ring_forward. Sums of gradients are in fp32 or better until the end. Each rank
    passes on c-1 blocks of K, V and c blocks of dK, dV; c-1 when its own share stays at home.
    """
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    exact = torch.promote_types(q.dtype, torch.float32)
    dq = torch.zeros_like(q, dtype=exact)
    block = torch.stack([k, v])
    sums, on_the_way = torch.zeros_like(block, dtype=exact), []  # dK, dV of the block at hand
    for step in range(ranks):
        source = (rank - step) % ranks
        if step + 1 < ranks:
            arriving, works = _pass_on(block, group)
        visible = k_places[source].min() <= q_places.max()
        if visible:
            more = attend_backward(
                d_out, q, block[0], block[1], out, lse, q_places, k_places[source]
            )
        for work in on_the_way:  # what the ranks before this one have added up
            work.wait()
        if visible:
            for total, part in zip((dq, *sums), more, strict=True):
                total += part
            del more, part  # the next block needs the room
        if ranks > 1:
            sums, on_the_way = _pass_on(sums, group)  # after the last step they are at home
        if step + 1 < ranks:
            for work in works:
                work.wait()
            block, works = arriving, []
    for work in on_the_way:
        work.wait()
    return dq.to(q.dtype), sums[0].to(k.dtype), sums[1].to(v.dtype)


def ring_bytes(
    batch: int, length: int, kv_heads: int, head_dim: int, element_bytes: int, ranks: int
) -> float:
    """Bytes each rank sends in the forward pass of ring attention over `ranks` ranks.

    batch, length, kv_heads, head_dim   of the whole sequence: B, T, h_kv, d_h
    element_bytes                       bytes of a number
    returns                             bytes, payload

    A block is the keys and the values of one rank. Nobody needs its own.
    """
    block = 2 * batch * (length / ranks) * kv_heads * head_dim * element_bytes
    return (ranks - 1) * block
