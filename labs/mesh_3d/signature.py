"""Faults that can be told by their size: everything off by exactly the ranks of one axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from labs.mesh.layout import Layout
from labs.mesh.one_device import Reference


def signature(
    layout: Layout, got: Mapping[str, torch.Tensor], one: Reference, told: Sequence[dict]
) -> tuple[str, ...]:
    """Sentences on all gradients, or the loss, being off by exactly the size of an axis."""
    found = []
    factors = {}
    for axis, size in layout.sizes.items():
        if size > 1:
            factors |= {f"{axis} = {size}": float(size), f"1/{axis} = 1/{size}": 1 / size}
    off = _factor(got, one.gradients)
    for name, factor in factors.items():
        if off is not None and abs(off / factor - 1) < 1e-6:
            found.append(f"every gradient is off by exactly {name}: {_WHY[name[:2] == '1/']}")
    loss = [each["losses"][0] for each in told]
    ratio = loss[0] / one.losses[0]
    for name, factor in factors.items():
        if abs(ratio / factor - 1) < 1e-6:
            found.append(f"the loss is off by exactly {name}")
    return tuple(found)


_WHY = {
    False: "a sum where the mean over that axis was meant",
    True: "a mean taken twice: the loss is divided by the whole batch's tokens already",
}


def _factor(got: Mapping[str, torch.Tensor], one: Mapping[str, torch.Tensor]) -> float | None:
    """k where got = k·one for all parameters; None where there is none, or it is 1."""
    if set(got) != set(one):
        return None
    mine = torch.cat([got[name].flatten().double() for name in one])
    right = torch.cat([tensor.flatten().double() for tensor in one.values()])
    k = (mine @ right / (right @ right)).item()
    same = (mine - k * right).abs().max() <= 1e-6 * right.abs().max()
    return k if bool(same) and abs(k - 1) > 1e-6 else None
