"""The same training on one device, with torch's own optimizer and clipping and nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from labs.gpt import GPT, token_losses
from labs.mesh.config import Config
from labs.mesh.data import batch
from labs.mesh.dropout import Samples, with_dropout
from labs.mesh.held import label


@dataclass
class Reference:
    """What training came to. Gradients are those of the last step, before clipping and after;
    `first` those of the first step, before clipping.
    """

    losses: list[float]
    norms: list[float]
    gradients: dict[str, torch.Tensor]
    clipped: dict[str, torch.Tensor]
    first: dict[str, torch.Tensor]
    weights: dict[str, torch.Tensor]


def train(config: Config, steps: int) -> Reference:
    """`steps` steps of AdamW on whole batches; dtype, clipping and optimizer as in `config`."""
    model = label(GPT(config.model, config.seed).to(config.dtype))
    samples = Samples(rows=config.batch)
    if config.dropout:
        length = config.model.length
        with_dropout(model, config.dropout, config.seed, samples, length, torch.arange(length))
    at = config.optimizer
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=at.lr, betas=at.betas, eps=at.eps, weight_decay=at.weight_decay
    )
    losses, norms, gradients, clipped, first = [], [], {}, {}, {}
    largest = float("inf") if config.clip is None else config.clip
    for step in range(steps):
        tokens, targets = batch(config, step)
        optimizer.zero_grad()
        samples.step = step
        loss = token_losses(model(tokens), targets).mean()
        loss.backward()
        told = step in (0, steps - 1)
        if told:
            gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
            first = first or gradients
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), largest).item())
        if told:
            clipped = {n: p.grad.clone() for n, p in model.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    weights = {n: p.detach().clone() for n, p in model.named_parameters()}
    return Reference(losses, norms, gradients, clipped, first, weights)
