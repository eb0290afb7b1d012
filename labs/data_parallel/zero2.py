"""ZeRO-2: a rank keeps its share of the gradients alone.

Each unit (a block, the embedding, the head) reduce-scatters its gradients as soon as its backward
pass has them, once a micro-batch: they cannot wait for the last one without being held whole.

With overlap the sum is under way while the backward pass goes on with the next unit. It is waited
for when the same unit's next one is ready, or when all gradients are needed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from labs.data_parallel.adamw import AdamW, Updated
from labs.data_parallel.clipping import Clip
from labs.data_parallel.flat import Flat, Piece, all_reduce_together


class Unit:
    """Parameters that are reduced, and under ZeRO-3 gathered, together."""

    def __init__(self, parameters: Sequence[nn.Parameter], group: dist.ProcessGroup) -> None:
        self.group, self.rank = group, dist.get_rank(group)
        self.flat = Flat(parameters, dist.get_world_size(group))
        self.grad = self.flat.empty_share()
        self.overlap = False
        self.coming: tuple[dist.Work | None, torch.Tensor, torch.Tensor] | None = None
        self._missing = len(self.flat.parameters)
        for parameter in self.flat.parameters:
            parameter.register_post_accumulate_grad_hook(self._arrived)

    def _arrived(self, _: nn.Parameter) -> None:
        self._missing -= 1
        if not self._missing:
            self._missing = len(self.flat.parameters)
            self.reduce()

    def reduce(self) -> None:
        """Sum a micro-batch's gradients over the group, and keep this rank's share.

        With overlap it only begins here; `finish` adds what it gives.
        """
        self.finish()  # of the micro-batch before: one at a time is held whole
        whole = self.flat.empty()
        for view, parameter in zip(self.flat.views(whole), self.flat.parameters, strict=True):
            view.copy_(parameter.grad)
            parameter.grad = None
        share = torch.empty_like(self.grad)
        work = dist.reduce_scatter_single(share, whole, group=self.group, async_op=self.overlap)
        self.coming = (work, share, whole)  # what is sent must stay until it has been
        if not self.overlap:
            self.finish()

    def finish(self) -> None:
        """Add the sum that is under way to this rank's share, if there is one; waits for it."""
        if self.coming is None:
            return
        work, share, _ = self.coming
        if work is not None:
            work.wait()
        self.grad += share
        self.coming = None

    def pieces(self) -> list[Piece]:
        """What this rank's share consists of."""
        return self.flat.pieces(self.rank)


class ShardedGradients:
    """One stage under ZeRO-2; `unit` is what its parameters are grouped in."""

    unit = Unit

    def __init__(
        self, units: Sequence[Sequence[nn.Parameter]], group: dist.ProcessGroup,
        settings: AdamW, clip: Clip, overlap: bool = False,
    ) -> None:  # fmt: skip
        self.clip, self.units = clip, [self.unit(parameters, group) for parameters in units]
        for unit in self.units:
            unit.overlap = overlap
        self.optimizers = self._optimizers(settings)

    def _optimizers(self, settings: AdamW) -> list[Updated]:
        found = []
        for unit in self.units:
            unit.weights = unit.flat.gathered()
            unit.flat.place(unit.weights)
            found.append(settings.on(self.share(unit)))
        return found

    def share(self, unit: Unit) -> torch.Tensor:
        """This rank's share of a unit's weights."""
        return unit.weights.chunk(unit.flat.ranks)[unit.rank]

    def begin(self) -> None:
        """Before a step: no gradients yet."""
        for unit in self.units:
            unit.grad.zero_()

    def sum_over(self, parameters: Sequence[nn.Parameter], group: dist.ProcessGroup) -> None:
        """Add up the gradients of parameters that several ranks hold and know a summand of each.

        What is summed is this rank's share of them, which is the same run of the same parameters on
        each rank of the group.
        """
        self.finish()
        wanted = set(map(id, parameters))
        shares = [
            piece.of(unit.grad)
            for unit in self.units for piece in unit.pieces() if id(piece.parameter) in wanted
        ]  # fmt: skip
        if shares:
            all_reduce_together(shares, group)

    def finish(self) -> None:
        """Wait for what is still under way: from here on the gradients are whole."""
        for unit in self.units:
            unit.finish()

    def update(self) -> None:
        """After the backward passes: clip, and update this rank's shares."""
        self.finish()
        self.clip([unit.grad for unit in self.units], [unit.pieces() for unit in self.units])
        for unit, optimizer in zip(self.units, self.optimizers, strict=True):
            optimizer.step(self.share(unit), unit.grad)
        self._spread()

    def _spread(self) -> None:
        """Give every rank the other ranks' shares of the new weights."""
        for unit in self.units:
            dist.all_gather_single(unit.weights, self.share(unit).clone(), group=unit.group)

    def held(self) -> list[tuple[list[Piece], torch.Tensor, Updated]]:
        """(pieces, summed and clipped gradient, optimizer) of each share after an update."""
        return [
            (unit.pieces(), unit.grad, optimizer)
            for unit, optimizer in zip(self.units, self.optimizers, strict=True)
        ]

    def kept_weights(self) -> list[torch.Tensor]:
        """What this rank keeps of the weights between steps; under ZeRO-2 views of all of them."""
        return [self.share(unit) for unit in self.units]

    def whole_weights(self) -> None:
        """Make the parameters whole, to be read: they are."""
