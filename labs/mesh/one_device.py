"""The same training on one device, with torch's own optimizer and clipping and nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labs.gpt import GPT, token_losses
from labs.mesh.config import Config
from labs.mesh.data import batch


@dataclass
class Reference:
    """What training came to. Gradients are those of the last step, before clipping."""

    losses: list[float]
    norms: list[float]
    gradients: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]


def train(config: Config, steps: int) -> Reference:
    """`steps` steps of AdamW on whole batches; dtype, clipping and optimizer as in `config`."""
    model = GPT(config.model, config.seed).to(config.dtype)
    at = config.optimizer
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=at.lr, betas=at.betas, eps=at.eps, weight_decay=at.weight_decay
    )
    losses, norms, gradients = [], [], {}
    largest = float("inf") if config.clip is None else config.clip
    for step in range(steps):
        tokens, targets = batch(config, step)
        optimizer.zero_grad()
        loss = token_losses(model(tokens), targets).mean()
        loss.backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), largest).item())
        optimizer.step()
        losses.append(loss.item())
    weights = {n: p.detach().clone() for n, p in model.named_parameters()}
    return Reference(losses, norms, gradients, weights)
