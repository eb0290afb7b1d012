"""ZeRO 0 and 1: every rank keeps all gradients, and all of the optimizer state or its share of it.

    ZeRO-0   all-reduce the gradients; every rank updates all weights
    ZeRO-1   reduce-scatter them; each rank updates its share; all-gather the weights

Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
2020, sections 5.1 and 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import nn

from labs.data_parallel.adamw import AdamW, Updated
from labs.data_parallel.clipping import Clip
from labs.data_parallel.flat import Flat, Piece, all_reduce_together


class WholeGradients:
    """One stage under ZeRO-0 or ZeRO-1. Gradients gather up over a step's micro-batches.

    zero1: the exercise zero1_step; None: ZeRO-0.
    """

    def __init__(
        self, units: Sequence[Sequence[nn.Parameter]], group: dist.ProcessGroup,
        settings: AdamW, clip: Clip, zero1: Callable | None,
    ) -> None:  # fmt: skip
        self.group, self.clip, self.zero1 = group, clip, zero1
        self.n, self.rank = dist.get_world_size(group), dist.get_rank(group)
        self.flat = Flat([p for unit in units for p in unit], self.n)
        self.weights = self.flat.gathered()
        self.flat.place(self.weights)
        self.grads = self.flat.empty()
        for view, parameter in zip(self.flat.views(self.grads), self.flat.parameters, strict=True):
            parameter.grad = view  # autograd adds to it in place
        mine = self.weights if zero1 is None else self.weights.chunk(self.n)[self.rank]
        self.optimizer: Updated = settings.on(mine)

    def begin(self) -> None:
        """Before a step: no gradients yet."""
        self.grads.zero_()

    def sum_over(self, parameters: Sequence[nn.Parameter], group: dist.ProcessGroup) -> None:
        """Add up the gradients of parameters that several ranks hold and know a summand of each."""
        all_reduce_together([p.grad for p in parameters], group)

    def update(self) -> None:
        """After the backward passes: sum the gradients over the group, clip, update."""
        if self.zero1 is not None:
            self.zero1(self.weights, self.grads, self._update, self.group)
            return
        dist.all_reduce(self.grads, group=self.group)
        self._update(self.weights, self.grads)

    def _update(self, share: torch.Tensor, grad: torch.Tensor) -> None:
        holders = self.n if self.zero1 is None else 1
        self.clip([grad], [self.pieces()], holders)
        self.optimizer.step(share, grad)
        # Kept where the rank's own gradients were: a share besides them would be more memory.
        room = self.grads if self.zero1 is None else self.grads.chunk(self.n)[self.rank]
        self.last = room.copy_(grad) if grad.shape == room.shape else grad

    def pieces(self) -> list[Piece]:
        """What the share consists of whose gradient and state this rank holds after an update."""
        return self.flat.pieces(None if self.zero1 is None else self.rank)

    def held(self) -> list[tuple[list[Piece], torch.Tensor, Updated]]:
        """(pieces, summed and clipped gradient, optimizer) of each share after an update."""
        return [(self.pieces(), self.last, self.optimizer)]

    def kept_weights(self) -> list[torch.Tensor]:
        """What this rank keeps of the weights between steps: all of them."""
        return [self.weights]

    def whole_weights(self) -> None:
        """Make the parameters whole, to be read: they are."""
