"""ZeRO-3, also known as fully sharded: a unit's weights are whole only while they are used.

    forward    gather ─ compute ─ let go
    backward   gather ─ compute ─ reduce-scatter ─ let go

Without resharding they are let go after the step only: one gather a step, and all weights held.
With it, a pipeline gathers twice a micro-batch.

Source: Rajbhandari et al., 2020, section 5.3; Zhao et al., "PyTorch FSDP", 2023, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from labs.data_parallel.adamw import AdamW, Updated
from labs.data_parallel.clipping import Clip
from labs.data_parallel.zero2 import ShardedGradients, Unit


class ShardedUnit(Unit):
    """A unit whose weights come and go. The parameters stay views of one storage, now and then
    without memory: what autograd saved is filled again before it is read."""

    def __init__(self, parameters: Sequence[nn.Parameter], group: dist.ProcessGroup) -> None:
        super().__init__(parameters, group)
        self.weights = self.flat.gathered()
        self.mine = self.weights.chunk(self.flat.ranks)[self.rank].clone()
        self.flat.place(self.weights)
        self._bytes = self.weights.untyped_storage().nbytes()
        self.there, self.reshard = True, True
        self.let_go()

    def gather(self) -> None:
        """Make the weights whole, if they are not."""
        if self.there:
            return
        self.weights.untyped_storage().resize_(self._bytes)
        dist.all_gather_single(self.weights, self.mine, group=self.group)
        self.there = True

    def let_go(self) -> None:
        """Keep this rank's share alone."""
        self.weights.untyped_storage().resize_(0)
        self.there = False

    def computed(self, output: torch.Tensor) -> None:
        """After a forward pass that gave `output`; its backward pass needs the weights again."""
        if output.requires_grad:
            output.register_hook(lambda _: self.gather())
        if self.reshard:
            self.let_go()

    def reduce(self) -> None:
        if self.reshard:  # first: what is sent takes as much memory as the weights
            self.let_go()
        super().reduce()


class ShardedWeights(ShardedGradients):
    """One stage under ZeRO-3. modules: of each unit, those whose passes need its weights."""

    unit = ShardedUnit

    def __init__(
        self, units: Sequence[Sequence[nn.Parameter]], group: dist.ProcessGroup, settings: AdamW,
        clip: Clip, modules: Sequence[Sequence[nn.Module]], reshard: bool = True,
        overlap: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(units, group, settings, clip, overlap)
        self.reshard = reshard
        for unit, those in zip(self.units, modules, strict=True):
            unit.reshard = reshard
            for module in those:
                module.register_forward_pre_hook(lambda *_, u=unit: u.gather())
                module.register_forward_hook(lambda *given, u=unit: u.computed(given[-1]))

    def _optimizers(self, settings: AdamW) -> list[Updated]:
        return [settings.on(unit.mine) for unit in self.units]

    def share(self, unit: ShardedUnit) -> torch.Tensor:
        return unit.mine

    def _spread(self) -> None:
        """Nobody needs the others' shares before the next forward pass."""
        for unit in self.units:
            unit.let_go()

    def whole_weights(self) -> None:
        """Make the parameters whole, to be read. The next step lets go of them again."""
        for unit in self.units:
            unit.gather()
