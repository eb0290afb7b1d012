"""Attention by all-to-all (DeepSpeed-Ulysses): for a while a rank holds some heads of all tokens.

Between the ranks the tokens are dealt out: (B, h, T/c, d_h), all heads. Attention does not mix
heads. So one all-to-all turns that into (B, h/c, T, d_h), attention runs as on one device, a second
all-to-all turns the result back. The scores of a rank are as many as in a ring, its messages other
ones: see formulas.ulysses_bytes. There can be no more ranks than KV heads.

Source: Jacobs et al., "DeepSpeed Ulysses: System optimizations for enabling training of extreme
long sequence transformer models", 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from labs.context_parallel.attention import BLOCKS
from labs.context_parallel.places import NEVER


def check_heads(heads: int, kv_heads: int, ranks: int) -> None:
    """Raises ValueError, with the numbers, unless the heads can be dealt out to the ranks."""
    if heads % ranks == 0 and kv_heads % ranks == 0:
        return
    works = [c for c in range(1, kv_heads + 1) if heads % c == 0 and kv_heads % c == 0]
    clash = " and ".join(
        f"{count} % {ranks} = {count % ranks}" for count in (heads, kv_heads) if count % ranks
    )
    raise ValueError(
        f"An all-to-all over {ranks} ranks deals out {heads} query heads and {kv_heads} KV heads, "
        f"and each rank needs equally many: {clash}. With these heads "
        f"{' or '.join(map(str, works))} {'rank works' if works == [1] else 'ranks work'}; a ring "
        f"takes any number of ranks."
    )


def _deal_heads(parts: Sequence[torch.Tensor], group: dist.ProcessGroup | None) -> torch.Tensor:
    """All heads of this rank's tokens -> this rank's heads of all tokens, in one all-to-all.

    parts: (B, h, n, d_h) each, h its own. Returns (B, heads, c·n, d_h), the parts' heads one behind
    the other, the tokens by the rank they came from.
    """
    ranks = dist.get_world_size(group)
    # Destination first, then (n, B, heads, d_h): what arrives is then in order of tokens.
    for_rank = [x.unflatten(1, (ranks, -1)).permute(1, 3, 0, 2, 4) for x in parts]
    sent = torch.cat(for_rank, dim=3).contiguous()
    arrived = torch.empty_like(sent)
    dist.all_to_all_single(arrived, sent, group=group)
    return arrived.flatten(0, 1).permute(1, 2, 0, 3)


def _deal_tokens(
    whole: torch.Tensor, heads: Sequence[int], group: dist.ProcessGroup | None
) -> list[torch.Tensor]:
    """The way back: this rank's heads of all tokens -> (B, h, n, d_h) for each h of `heads`."""
    ranks = dist.get_world_size(group)
    sent = whole.unflatten(2, (ranks, -1)).permute(2, 0, 1, 3, 4).contiguous()
    arrived = torch.empty_like(sent)
    dist.all_to_all_single(arrived, sent, group=group)
    parts = arrived.split([count // ranks for count in heads], dim=2)
    return [part.transpose(0, 1).flatten(1, 2) for part in parts]


def _all_query_places(q_places: torch.Tensor, k_places: torch.Tensor, rank: int) -> torch.Tensor:
    """Places of the queries of all ranks, (c, n), told from this rank's own.

    Nothing is sent for it, so only two cases can be told: queries that stand where the keys do, and
    queries behind all keys.
    """
    if q_places.shape == k_places.shape:
        return q_places
    if torch.equal(q_places, k_places[rank]):
        return k_places
    if not (k_places[k_places != NEVER] > q_places.min()).any():
        return q_places.min().expand_as(k_places)
    raise ValueError(
        f"Rank {rank} works on queries of all {len(k_places)} ranks, and cannot tell from its own "
        f"where theirs stand: its queries stand neither where its keys do nor behind all keys. "
        f"Give the places of the queries of all ranks, {tuple(k_places.shape)}."
    )


class _Ulysses(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_places: torch.Tensor,
        k_places: torch.Tensor, block: tuple[Callable, Callable], group: dist.ProcessGroup | None,
    ) -> torch.Tensor:  # fmt: skip
        heads, kv_heads, ranks = q.shape[1], k.shape[1], dist.get_world_size(group)
        places = _all_query_places(q_places, k_places, dist.get_rank(group))
        q_places, q_order = places.flatten().sort(stable=True)
        k_places, k_order = k_places.flatten().sort(stable=True)
        mine = [count // ranks for count in (heads, kv_heads, kv_heads)]
        q, k, v = _deal_heads((q, k, v), group).split(mine, dim=1)
        q, k, v = q[:, :, q_order], k[:, :, k_order], v[:, :, k_order]
        out, lse = block[0](q, k, v, q_places, k_places)
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse, q_places, k_places, q_order, k_order)
        ctx.block, ctx.group, ctx.heads = block[1], group, (heads, kv_heads, kv_heads)
        return _deal_tokens(out[:, :, q_order.argsort()], [heads], group)[0]

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor) -> tuple:
        q, k, v, out, lse, q_places, k_places, q_order, k_order = ctx.saved_tensors
        d_out = _deal_heads([d_out], ctx.group)[:, :, q_order]
        grads = ctx.block(d_out, q, k, v, out, lse, q_places, k_places)
        held = (q_order.argsort(), k_order.argsort(), k_order.argsort())
        whole = [g[:, :, order].to(q.dtype) for g, order in zip(grads, held, strict=True)]
        grads = _deal_tokens(torch.cat(whole, dim=1), ctx.heads, ctx.group)
        return *grads, None, None, None, None


def ulysses_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_places: torch.Tensor,
    k_places: torch.Tensor,
    block: str | tuple[Callable, Callable] = "tiled",
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Attention over the sequence that the ranks of `group` hold together: (B, h, n, d_h).

    q         (B, h, n, d_h)     this rank's queries, n = T/c of them on each of c ranks
    k, v      (B, h_kv, n, d_h)  its keys and values
    q_places  (n,)               places of its queries; (c, n): of the queries of all ranks
    k_places  (c, n)             row r: places of the keys that rank r of the group holds
    block     a name of BLOCKS, or a pair of functions of the same form

    The tokens may be held in any order: they are put in the order of their places before attention
    and back behind it. Raises ValueError where the heads cannot be dealt out (check_heads), and
    where (n,) places are neither those of the keys nor behind all keys.
    """
    check_heads(q.shape[1], k.shape[1], dist.get_world_size(group))
    pair = BLOCKS[block] if isinstance(block, str) else block
    return _Ulysses.apply(q, k, v, q_places, k_places, pair, group)
