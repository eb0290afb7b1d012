"""What is trained, and how it is laid out: one value that says all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from labs.data_parallel.adamw import AdamW
from labs.gpt import Shape
from labs.mesh.layout import Layout

ZERO = (0, 1, 2, 3)


@dataclass(frozen=True)
class Config:
    """A model, its batch and its layout.

    batch: sequences of a step, over all of dp; micro_batches: of each pipeline; zero: 0 to 3;
    reshard: whether ZeRO-3 lets weights go after the forward pass; clip: largest global norm of the
    gradients (None: no clipping)
    """

    layout: Layout = Layout(dp=2, pp=2, tp=2)
    model: Shape = Shape(layers=4, d=16, heads=4, length=8)
    batch: int = 8
    micro_batches: int = 2
    zero: int = 1
    reshard: bool = True
    clip: float | None = None
    dtype: torch.dtype = torch.float64
    optimizer: AdamW = field(default_factory=AdamW)
    seed: int = 0

    @property
    def rows(self) -> int:
        """Sequences of a micro-batch."""
        return self.batch // self.layout.dp // self.micro_batches

    @property
    def name(self) -> str:
        """Layout and sharding in words."""
        tied = ", tied" if self.model.tied else ""
        kept = "" if self.reshard or self.zero < 3 else ", kept after forward"
        return f"{self.layout}, ZeRO-{self.zero}{kept}{tied}"
