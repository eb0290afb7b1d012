"""AdamW on a share of the weights: torch's own, with a master copy where weights are bf16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class AdamW:
    """Settings of the optimizer (Loshchilov and Hutter, 2019)."""

    lr: float = 3e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01

    def on(self, share: torch.Tensor) -> Updated:
        """The optimizer of this share of the weights."""
        return Updated(self, share)


class Updated:
    """A share of the weights with its optimizer state: m and v, and a master copy if it needs one.

    Every number is updated by itself, so a share needs nothing of the other shares.
    """

    def __init__(self, settings: AdamW, share: torch.Tensor) -> None:
        self.mixed = share.dtype in (torch.bfloat16, torch.float16)
        master = share.detach().float() if self.mixed else share.new_empty(0)
        self.weights = nn.Parameter(master)  # without a master: of no size but during a step
        self.optimizer = torch.optim.AdamW(
            [self.weights], lr=settings.lr, betas=settings.betas, eps=settings.eps,
            weight_decay=settings.weight_decay,
        )  # fmt: skip

    def step(self, share: torch.Tensor, grad: torch.Tensor) -> None:
        """Update `share` (N,) in place by its gradient (N,)."""
        if not self.mixed:
            self.weights.data = share
        self.weights.grad = grad.to(self.weights.dtype)
        self.optimizer.step()
        self.weights.grad = None
        if self.mixed:
            share.copy_(self.weights.detach())
        else:
            self.weights.data = share.new_empty(0)  # a share that was handed in may go

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """m and v by torch's names, "exp_avg" and "exp_avg_sq"; "master" where there is one."""
        found = {k: v for k, v in self.optimizer.state[self.weights].items() if k != "step"}
        return {**found, **({"master": self.weights.detach()} if self.mixed else {})}

    @property
    def updates(self) -> int:
        """Steps done so far; m and v are corrected by them (Kingma and Ba, 2015, section 3)."""
        return int(self.optimizer.state[self.weights].get("step", 0))

    def restore(self, updates: int, state: Mapping[str, torch.Tensor]) -> None:
        """Go on after `updates` steps with this state, in the form of `state`, which is kept."""
        told = self.optimizer.state_dict()
        moments = {k: v for k, v in state.items() if k != "master"}
        told["state"] = {0: {"step": torch.tensor(float(updates)), **moments}}
        self.optimizer.load_state_dict(told)
        if self.mixed:
            self.weights.data.copy_(state["master"])
