"""Faults that can be told by their size: everything off by exactly the ranks of one axis."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from labs.mesh.layout import Layout

_CLOSE = 1e-6
_SUM = "a sum where the mean over that axis was meant"
_MEAN = "a mean taken again: the loss is divided by the tokens of the whole batch already"


def told(layout: Layout, gradients: float | None, loss: float) -> tuple[str, ...]:
    """Sentences on all gradients, or the loss, being off by exactly the size of an axis.

    gradients: the factor between all of them and one device's, None where there is no single one;
    loss: the same of the loss.
    """
    found = []
    for size in sorted({size for size in layout.sizes.values() if size > 1}):
        axes = [axis for axis, of in layout.sizes.items() if of == size]
        for factor, name, why in (
            (size, " = ".join([*axes, f"{size}"]), _SUM),
            (1 / size, " = ".join([*(f"1/{axis}" for axis in axes), f"1/{size}"]), _MEAN),
        ):
            if gradients is not None and abs(gradients / factor - 1) < _CLOSE:
                found.append(f"every gradient is off by exactly {name}: {why}")
            if abs(loss / factor - 1) < _CLOSE:
                found.append(f"the loss is off by exactly {name}")
    return tuple(found)


def factor(got: Mapping[str, torch.Tensor], one: Mapping[str, torch.Tensor]) -> float | None:
    """k where got = k·one for all parameters; None where there is none."""
    if set(got) != set(one):
        return None
    mine = torch.cat([got[name].flatten().double() for name in one])
    right = torch.cat([tensor.flatten().double() for tensor in one.values()])
    k = (mine @ right / (right @ right)).item()
    same = (mine - k * right).abs().max() <= _CLOSE * right.abs().max()
    return k if bool(same) else None
