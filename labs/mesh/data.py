"""Which samples a rank works on: shared out along dp, the same for all ranks of one replica."""

from __future__ import annotations

import torch

from labs import text
from labs.mesh.config import Config


def batch(config: Config, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets of a whole step, (B, T) each; the same whatever the layout."""
    return text.batch(config.batch, config.model.length, config.seed * 1_000_003 + step)


def mine(config: Config, step: int, dp: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of one replica, (B/dp, T) each."""
    tokens, targets = batch(config, step)
    n = config.layout.dp
    return tokens.chunk(n)[dp], targets.chunk(n)[dp]
