"""Recompute by hand: keep the inputs of a piece of work, and do it again in the backward pass.

What torch.utils.checkpoint does. That one also brings the state of the random generators back,
which is not needed here (dropout.py draws from seeds alone), and imports torch's compiler, on each
rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class _Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
        ctx.work = work
        ctx.save_for_backward(*inputs)
        return work(*inputs)  # autograd looks away: nothing inside is kept

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        needed = ctx.needs_input_grad[1:]
        inputs = [
            tensor.detach().requires_grad_(wanted)
            for tensor, wanted in zip(ctx.saved_tensors, needed, strict=True)
        ]
        with torch.enable_grad():
            out = ctx.work(*inputs)
        torch.autograd.backward(out, grad)  # weights that `work` uses get their gradients here
        return None, *(tensor.grad for tensor in inputs)


def again(work: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> torch.Tensor:
    """work(*inputs), of which only the inputs are kept for the backward pass.

    work must give the same each time. One of the inputs must need a gradient: through the others,
    and through weights that `work` brings along, nothing would flow back otherwise. These get their
    gradients by `backward()`; torch.autograd.grad does not see them.
    """
    return _Again.apply(work, *inputs)
