"""A small GPT on one device. It knows nothing of parallelism: others cut it, shard it, time it.

tokens (B, T) ─ embedding + positions ─ L blocks ─ norm ─ head ─ logits (B, T, V)
block:  x + attention(norm(x)),  then  x + mlp(norm(x))
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

import torch
import torch.nn.functional as F
from torch import nn

from labs import text


@dataclass(frozen=True)
class Shape:
    """Sizes of the model. d is a multiple of heads; tied: embedding and head share a weight.

    Raises ValueError for sizes that are none.
    """

    layers: int = 4
    d: int = 64
    heads: int = 4
    length: int = 64  # tokens of a sequence, T
    vocab: int = text.VOCAB
    d_ff: int | None = None  # width inside the MLP; None: 4·d
    tied: bool = False

    def __post_init__(self) -> None:
        for name in ("layers", "d", "heads", "length", "vocab", "d_ff"):
            size = getattr(self, name)
            if name == "d_ff" and size is None:
                continue
            if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
                raise ValueError(f"{name} must be a whole number from 1 on, got {size!r}")
        if not isinstance(self.tied, bool):
            raise ValueError(f"tied must be True or False, got {self.tied!r}")
        if self.d % self.heads:
            below = self.d // self.heads * self.heads
            near = f"{below} or {below + self.heads}" if below else f"{self.heads}"
            raise ValueError(
                f"d = {self.d} cannot be shared by {self.heads} heads: {self.d} % {self.heads} = "
                f"{self.d % self.heads}; d = {near} would do"
            )


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Each token attends to itself and those before it: (B, h, T, d_h) three times -> the same."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Attention(nn.Module):
    """Causal self-attention: (B, T, d) -> (B, T, d)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head_dim = shape.d // shape.heads
        self.qkv = nn.Linear(shape.d, 3 * shape.d)
        self.out = nn.Linear(shape.d, shape.d)
        self.attend = causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.qkv(x).view(batch, length, 3, -1, self.head_dim)
        q, k, v = parts.permute(2, 0, 3, 1, 4)  # (B, h, T, d/h) each
        mixed = self.attend(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    """Two linear layers with GELU between them: (B, T, d) -> (B, T, d)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d_ff = shape.d_ff or 4 * shape.d
        self.up, self.down = nn.Linear(shape.d, d_ff), nn.Linear(d_ff, shape.d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """A transformer block with LayerNorm before each part: (B, T, d) -> (B, T, d)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(shape.d), nn.LayerNorm(shape.d)
        self.attention, self.mlp = Attention(shape), MLP(shape)
        self.drop1, self.drop2 = nn.Identity(), nn.Identity()  # where dropout may stand

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop1(self.attention(self.norm1(x)))
        return x + self.drop2(self.mlp(self.norm2(x)))


class Embedding(nn.Module):
    """Tokens and their positions: (B, T) whole numbers -> (B, T, d)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocab, shape.d)
        self.positions = nn.Embedding(shape.length, shape.d)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        at = torch.arange(tokens.shape[-1], device=tokens.device)
        return self.tokens(tokens) + self.positions(at)


class Head(nn.Module):
    """The last norm and the logits: (B, T, d) -> (B, T, V)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.d)
        self.logits = nn.Linear(shape.d, shape.vocab, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits(self.norm(x))


class GPT(nn.Module):
    """The whole model: tokens (B, T) -> logits (B, T, V)."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = Embedding(shape)
            self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
            self.head = Head(shape)
        if shape.tied:
            self.head.logits.weight = self.embedding.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def token_losses(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each token: (B, T, V), (B, T) -> (B, T)."""
    flat = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return flat.view_as(targets)
