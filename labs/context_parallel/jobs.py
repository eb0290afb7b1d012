"""What the lab runs, as data: one attention, forward and backward, on some of the world's ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from labs.context_parallel import places

CAUSAL, FULL = "causal", "full"
PLAIN, ZIGZAG = "plain", "zigzag"
RING, ULYSSES, TORCH = "ring", "ulysses", "torch"


@dataclass(frozen=True)
class Job:
    """One attention over a sequence that `members` hold together.

    members: ranks of the world; layout: which tokens each of them holds; block: a name of
    labs.context_parallel.attention.BLOCKS; way: "ring", "ulysses" or "torch"; values: report output
    and gradients; memory: trace allocations; timeline: keep each message as an event.
    """

    name: str
    members: tuple[int, ...]
    length: int
    batch: int = 1
    heads: int = 8
    kv_heads: int = 8
    head_dim: int = 8
    dtype: torch.dtype = torch.float64
    mask: str = CAUSAL
    layout: str = PLAIN
    block: str = "tiled"
    way: str = RING
    seed: int = 0
    values: bool = True
    memory: bool = False
    timeline: bool = False

    @property
    def ranks(self) -> int:
        """c, the size of the ring."""
        return len(self.members)

    @property
    def causal(self) -> bool:
        return self.mask == CAUSAL

    @property
    def place(self) -> tuple[int, int, int, int, int, int]:
        """What the byte formulas ask for: B, T, h_kv, d_h, e, c."""
        return (self.batch, self.length, self.kv_heads, self.head_dim, self.dtype.itemsize,
                self.ranks)  # fmt: skip

    def key_places(self, parts: Mapping) -> torch.Tensor:
        """(c, T/c): where the tokens of each member stand. Zigzag is an exercise, in `parts`."""
        if self.layout == PLAIN:
            return places.plain(self.ranks, self.length)
        rows = [parts["zigzag_positions"](r, self.ranks, self.length) for r in range(self.ranks)]
        return torch.stack(rows)

    def query_places(self, mine: torch.Tensor) -> torch.Tensor:
        """Places of queries that stand where the keys `mine` do."""
        return mine if self.causal else places.at_the_end(mine, self.length)


@dataclass(frozen=True)
class Inputs:
    """q (B, h, T, d_h), k, v (B, h_kv, T, d_h), and the gradient of the loss by the output."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    d_out: torch.Tensor

    def at(self, held: torch.Tensor) -> Inputs:
        """The tokens at these places, copies of their own."""
        parts = (x[:, :, held].contiguous() for x in (self.q, self.k, self.v, self.d_out))
        return Inputs(*parts)


def inputs(job: Job) -> Inputs:
    """The same wherever they are made: N(0, 1) from the job's seed, drawn in fp64 and rounded."""
    draw = torch.Generator().manual_seed(job.seed)

    def normal(heads: int) -> torch.Tensor:
        shape = (job.batch, heads, job.length, job.head_dim)
        return torch.randn(shape, generator=draw, dtype=torch.float64).to(job.dtype)

    return Inputs(normal(job.heads), normal(job.kv_heads), normal(job.kv_heads), normal(job.heads))
