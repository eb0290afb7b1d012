"""Clipping by the global norm, where every rank holds a part of the gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from labs.data_parallel.flat import Piece

_EPS = 1e-6  # as torch.nn.utils.clip_grad_norm_


class Clip:
    """Scales gradients so that their norm over the whole model is at most `largest`.

    norm: (grads, holders, group) -> the global norm, the exercise global_grad_norm
    group: all ranks that hold gradients; largest: None leaves gradients as they are
    """

    def __init__(
        self, norm: Callable, group: dist.ProcessGroup | None, largest: float | None
    ) -> None:
        self._norm, self.group, self.largest = norm, group, largest
        self.norm = float("nan")  # of the last step

    def __call__(
        self, shares: Sequence[torch.Tensor], pieces: Sequence[Sequence[Piece]], holders: int = 1
    ) -> None:
        """Scale `shares` in place. pieces: of each share; holders: ranks along dp with the same."""
        grads = [p.of(s) for s, those in zip(shares, pieces, strict=True) for p in those]
        held = [p.parameter.held.copies * holders for those in pieces for p in those]
        self.norm = float(self._norm(grads, held, self.group))
        if self.largest is not None:
            scale = self.largest / (self.norm + _EPS)
            if not scale >= 1.0:  # NaN scales too: all gradients become NaN, as torch has it
                for share in shares:
                    share.mul_(scale)
