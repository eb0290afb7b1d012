"""Attention to one block of keys, with the log-sum-exp that lets it be merged; and its gradients.

`attend` and `attend_backward` hold the scores of the whole block at once: (B, h, n_q, n_k). The
tiled pair does the same for a run of queries at a time, on the keys that those can see, so that the
largest tensor is one tile's scores. Both work in fp32 or better, whatever the inputs' type.
"""

from __future__ import annotations

import torch

from labs.context_parallel.places import seen

TILE = 256
"""Queries of a tile."""


def _by_kv_head(x: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """(B, h, n, d_h) -> (B, h_kv, h/h_kv, n, d_h): the query heads of a KV head side by side."""
    return x.unflatten(1, (kv_heads, -1))


def _scores(
    q: torch.Tensor, k: torch.Tensor, q_places: torch.Tensor, k_places: torch.Tensor
) -> torch.Tensor:
    """Scaled scores, -inf where the query does not see the key: (B, h_kv, h/h_kv, n_q, n_k)."""
    exact = torch.promote_types(q.dtype, torch.float32)
    grouped = _by_kv_head(q, k.shape[1])
    scores = (grouped.to(exact) @ k.to(exact).unsqueeze(2).mT).mul_(q.shape[-1] ** -0.5)
    if q_places[0] < k_places[-1]:
        scores.masked_fill_(k_places > q_places.unsqueeze(-1), -torch.inf)
    return scores


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_places: torch.Tensor,
    k_places: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Attention of q (B, h, n_q, d_h) to k, v (B, h_kv, n_k, d_h).

    returns out (B, h, n_q, d_h), lse (B, h, n_q), in fp32 or better; 0 and -inf for a query that
    sees no key of this block. Query head i uses KV head i // (h / h_kv).
    """
    scores = _scores(q, k, q_places, k_places)
    lse = scores.logsumexp(dim=-1, keepdim=True)
    shift = lse.masked_fill(lse == -torch.inf, 0.0)  # -inf - -inf is not a number
    share = scores.sub_(shift).exp_()
    out = share @ v.to(lse.dtype).unsqueeze(2)
    return out.flatten(1, 2), lse.squeeze(-1).flatten(1, 2)


def attend_backward(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, q_places: torch.Tensor, k_places: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """What one block of keys adds to the gradients: dq, dk, dv in fp32 or better.

    out, lse: over the keys of all blocks, so that exp(score - lse) is the key's final share; with a
    block's own the gradients would be those of a softmax over that block alone.
    Source: Dao et al., "FlashAttention", 2022, algorithm 4.
    """
    kv_heads = k.shape[1]
    share = _scores(q, k, q_places, k_places)
    exact = share.dtype
    nowhere = (lse == -torch.inf).unsqueeze(-1)
    share.sub_(_by_kv_head(lse.unsqueeze(-1).masked_fill(nowhere, torch.inf), kv_heads)).exp_()
    grad, q, k, v, out = (x.to(exact) for x in (d_out, q, k, v, out))
    mean = _by_kv_head((grad * out).sum(-1, keepdim=True), kv_heads)
    grad = _by_kv_head(grad, kv_heads)
    dv = (share.mT @ grad).sum(2)
    d_scores = (grad @ v.unsqueeze(2).mT).sub_(mean)
    d_scores = d_scores.mul_(share).mul_(q.shape[-1] ** -0.5)
    dq = (d_scores @ k.unsqueeze(2)).flatten(1, 2)
    dk = (d_scores.mT @ _by_kv_head(q, kv_heads)).sum(2)
    return dq, dk, dv


def tiled(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_places: torch.Tensor,
    k_places: torch.Tensor, tile: int = TILE,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """As `attend`, `tile` queries at a time, each tile on the keys that it can see."""
    exact = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros_like(q, dtype=exact)
    lse = torch.full(q.shape[:-1], -torch.inf, dtype=exact, device=q.device)
    for rows, columns in _tiles(q_places, k_places, tile):
        out[:, :, rows], lse[:, :, rows] = attend(
            q[:, :, rows], k[:, :, columns], v[:, :, columns], q_places[rows], k_places[columns]
        )
    return out, lse


def tiled_backward(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, q_places: torch.Tensor, k_places: torch.Tensor, tile: int = TILE,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """As `attend_backward`, `tile` queries at a time, each tile on the keys that it can see."""
    exact = torch.promote_types(q.dtype, torch.float32)
    dq, dk, dv = (torch.zeros_like(x, dtype=exact) for x in (q, k, v))
    for rows, columns in _tiles(q_places, k_places, tile):
        dq[:, :, rows], more_dk, more_dv = attend_backward(
            d_out[:, :, rows], q[:, :, rows], k[:, :, columns], v[:, :, columns],
            out[:, :, rows], lse[:, :, rows], q_places[rows], k_places[columns],
        )  # fmt: skip
        dk[:, :, columns] += more_dk
        dv[:, :, columns] += more_dv
    return dq, dk, dv


def _tiles(q_places: torch.Tensor, k_places: torch.Tensor, tile: int) -> list[tuple[slice, slice]]:
    """Runs of queries with the keys that they see; runs that see none are left out."""
    first = seen(q_places, k_places).first
    found = []
    for start in range(first, len(q_places), tile):
        rows = slice(start, min(start + tile, len(q_places)))
        found.append((rows, slice(0, seen(q_places[rows], k_places).last)))
    return found
