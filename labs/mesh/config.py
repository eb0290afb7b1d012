"""What is trained, and how it is laid out: one value that says all of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from labs.data_parallel.adamw import AdamW
from labs.gpt import Shape
from labs.mesh import legal
from labs.mesh.layout import Layout


@dataclass(frozen=True)
class Config:
    """A model, its batch and its layout.

    batch: sequences of a step, over all of dp; micro_batches: of each pipeline; zero: 0 to 3;
    reshard: whether ZeRO-3 lets weights go after the forward pass; clip: largest global norm of the
    gradients (None: no clipping).

    Raises ValueError for what cannot be laid out: labs/mesh/legal.py.
    """

    layout: Layout = Layout(dp=2, pp=2, tp=2)
    model: Shape = Shape(layers=4, d=16, heads=4, length=8)
    batch: int = 8
    micro_batches: int = 2
    zero: int = 1
    reshard: bool = True
    clip: float | None = None
    sequence_parallel: bool = False  # the stream split along T between the ranks of a TP group
    dropout: float = 0.0
    overlap: bool = False  # ZeRO-2 and 3: gradients are summed while the backward pass goes on
    dtype: torch.dtype = torch.float64
    optimizer: AdamW = field(default_factory=AdamW)
    seed: int = 0

    def __post_init__(self) -> None:
        legal.check(self)

    @property
    def rows(self) -> int:
        """Sequences of a micro-batch."""
        return self.batch // self.layout.dp // self.micro_batches

    @property
    def name(self) -> str:
        """Layout and sharding in words; micro-batches and type where they are not the usual."""
        tied = ", tied" if self.model.tied else ""
        kept = "" if self.reshard or self.zero < 3 else ", kept after forward"
        split = ", SP" if self.sequence_parallel else ""
        drop = ", dropout" if self.dropout else ""
        drop += ", overlap" if self.overlap else ""
        cut = f", m={self.micro_batches}" if self.micro_batches != 2 else ""
        kind = "" if self.dtype == torch.float64 else f", {str(self.dtype)[6:]}"
        return f"{self.layout}{split}, ZeRO-{self.zero}{kept}{tied}{drop}{cut}{kind}"

    @property
    def tokens(self) -> int:
        """Tokens of a sequence in the residual stream of a rank."""
        parts = self.layout.cp * (self.layout.tp if self.sequence_parallel else 1)
        return self.model.length // parts
