"""Attention to one block by torch's own fused CPU kernel, which holds no scores.

It knows two masks, none and the lower triangle. Under the one rule of places that is enough for
consecutive blocks and for zigzag: a block is invisible, or visible in a corner and whole there, or
the rank's own, whose keys stand where its queries stand. Anything else goes to the tiled pair.
"""

from __future__ import annotations

import torch

from labs.ring_attention.blocks import tiled, tiled_backward
from labs.ring_attention.places import seen

_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def _corner(q_places: torch.Tensor, k_places: torch.Tensor) -> tuple[int, int, bool] | None:
    """First query, end of the keys, and whether the triangle lies on it; None: not of this kind."""
    part = seen(q_places, k_places)
    if part.empty:
        return len(q_places), 0, False
    if part.whole:
        return part.first, part.last, False
    rows, columns = q_places[part.first :], k_places[: part.last]
    own = rows.shape == columns.shape and torch.equal(rows, columns)
    return (part.first, part.last, True) if own and bool((rows.diff() > 0).all()) else None


def flash(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_places: torch.Tensor,
    k_places: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """As labs.ring_attention.blocks.attend; on another device than the CPU it is `tiled`."""
    corner = _corner(q_places, k_places) if q.device.type == "cpu" else None
    if corner is None:
        return tiled(q, k, v, q_places, k_places)
    first, last, triangle = corner
    exact = torch.promote_types(q.dtype, torch.float32)
    if first < len(q_places):
        part = _FORWARD(q[:, :, first:], k[:, :, :last], v[:, :, :last], 0.0, triangle)
        if first == 0:
            return part[0].to(exact), part[1]
    out = torch.zeros_like(q, dtype=exact)
    lse = torch.full(q.shape[:-1], -torch.inf, dtype=exact)
    if first < len(q_places):
        out[:, :, first:], lse[:, :, first:] = part
    return out, lse


def flash_backward(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, q_places: torch.Tensor, k_places: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """As labs.ring_attention.blocks.attend_backward."""
    corner = _corner(q_places, k_places) if q.device.type == "cpu" else None
    if corner is None:
        return tiled_backward(d_out, q, k, v, out, lse, q_places, k_places)
    first, last, triangle = corner
    exact = torch.promote_types(q.dtype, torch.float32)
    whole = (0, len(k_places))
    if first < len(q_places):
        parts = _BACKWARD(
            d_out[:, :, first:], q[:, :, first:], k[:, :, :last], v[:, :, :last],
            out[:, :, first:], lse[:, :, first:].contiguous(), 0.0, triangle,
        )  # fmt: skip
        if (first, last) == whole:
            return tuple(part.to(exact) for part in parts)
    dq, dk, dv = (torch.zeros_like(x, dtype=exact) for x in (q, k, v))
    if first < len(q_places):
        dq[:, :, first:], dk[:, :, :last], dv[:, :, :last] = parts
    return dq, dk, dv
