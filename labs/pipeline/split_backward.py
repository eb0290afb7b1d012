"""A backward pass in two parts: the gradient of the input now, that of the weights later.

In a linear layer the two are separate products, dX = dY·W and dW = dYᵀ·X; only dX is waited for.
Here dX is worked out in the backward pass, and dW when it is asked for (Qi et al. 2023, section 2).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

Deferred = list[tuple[nn.Linear, torch.Tensor, torch.Tensor]]  # layer, its input, its gradient


class Split:
    """The linear layers of a module, their weights' gradients deferred."""

    def __init__(self, module: nn.Module) -> None:
        self.collected: Deferred = []
        for layer in module.modules():
            if isinstance(layer, nn.Linear):
                layer.forward = lambda x, layer=layer: _Later.apply(
                    x, layer.weight, layer.bias, layer, self
                )

    def take(self) -> Deferred:
        """What the last backward pass has left to do."""
        found, self.collected = self.collected, []
        return found

    @staticmethod
    def finish(deferred: Deferred) -> None:
        """Work out the weights' gradients and add them up."""
        for layer, x, gradient in deferred:
            flat = gradient.flatten(0, -2)
            _add(layer.weight, flat.T @ x.flatten(0, -2))
            if layer.bias is not None:
                _add(layer.bias, flat.sum(0))


def _add(parameter: nn.Parameter, gradient: torch.Tensor) -> None:
    parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


class _Later(torch.autograd.Function):
    """y = x·Wᵀ + b, whose backward pass gives the input's gradient only."""

    @staticmethod
    def forward(ctx, x, weight, bias, layer, split):  # noqa: ANN001, ANN205
        ctx.save_for_backward(x, weight)
        ctx.layer, ctx.split = layer, split
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):  # noqa: ANN001, ANN205
        x, weight = ctx.saved_tensors
        ctx.split.collected.append((ctx.layer, x.detach(), gradient))
        return gradient @ weight, None, None, None, None
