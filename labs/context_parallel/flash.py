"""Attention to one block by torch's own fused CPU kernel, which holds no scores.

It knows two masks, none and the lower triangle. Under the one rule of places that is enough for
consecutive blocks and for zigzag: a block is invisible, or visible in a corner and whole there, or
the rank's own, whose keys stand where its queries stand. Anything else goes to the tiled pair.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from labs.context_parallel.blocks import tiled, tiled_backward
from labs.context_parallel.places import seen

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
    """As labs.context_parallel.blocks.attend; on another device than the CPU it is `tiled`."""
    corner = _corner(q_places, k_places) if q.device.type == "cpu" else None
    if corner is None:
        return tiled(q, k, v, q_places, k_places)
    first, last, triangle = corner
    exact = torch.promote_types(q.dtype, torch.float32)
    if first == len(q_places):
        return torch.zeros_like(q, dtype=exact), torch.full(q.shape[:-1], -torch.inf, dtype=exact)
    out, lse = _FORWARD(q[:, :, first:], k[:, :, :last], v[:, :, :last], 0.0, triangle)
    if first == 0:
        return out.to(exact), lse
    return F.pad(out.to(exact), (0, 0, first, 0)), F.pad(lse, (first, 0), value=-torch.inf)


def flash_backward(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor,
    lse: torch.Tensor, q_places: torch.Tensor, k_places: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """As labs.context_parallel.blocks.attend_backward."""
    corner = _corner(q_places, k_places) if q.device.type == "cpu" else None
    if corner is None:
        return tiled_backward(d_out, q, k, v, out, lse, q_places, k_places)
    first, last, triangle = corner
    exact = torch.promote_types(q.dtype, torch.float32)
    if first == len(q_places):
        return tuple(torch.zeros_like(x, dtype=exact) for x in (q, k, v))
    dq, dk, dv = _BACKWARD(
        d_out[:, :, first:], q[:, :, first:], k[:, :, :last], v[:, :, :last],
        out[:, :, first:], lse[:, :, first:].contiguous(), 0.0, triangle,
    )  # fmt: skip
    rest = len(k_places) - last
    return _room(dq.to(exact), first, 0), _room(dk.to(exact), 0, rest), _room(dv.to(exact), 0, rest)


def _room(part: torch.Tensor, before: int, behind: int) -> torch.Tensor:
    """A part's gradients (B, h, n, d_h) with zeros for the tokens before and behind it."""
    return F.pad(part, (0, 0, before, behind)) if before or behind else part
