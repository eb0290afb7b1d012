"""AdamW on a share of the weights: torch's own, with a master copy where weights are bf16."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.optim.adamw import adamw

_MOMENTS = ("exp_avg", "exp_avg_sq")


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
        self.settings = settings
        self._dtype = share.dtype
        self.mixed = share.dtype in (torch.bfloat16, torch.float16)
        self.master = share.detach().float() if self.mixed else None
        self.moments: dict[str, torch.Tensor] = {}  # there from the first step on
        self.count = torch.zeros(())  # steps done

    def step(self, share: torch.Tensor, grad: torch.Tensor) -> None:
        """Update `share` (N,) in place by its gradient (N,)."""
        weights = share if self.master is None else self.master
        if not self.moments:
            self.moments = {name: torch.zeros_like(weights) for name in _MOMENTS}
        at = self.settings
        # torch's own update without its Optimizer, which imports half of torch when it is made.
        with torch.no_grad():
            adamw(
                [weights], [grad.to(weights.dtype)], *([self.moments[name]] for name in _MOMENTS),
                [], [self.count], foreach=False, amsgrad=False, beta1=at.betas[0],
                beta2=at.betas[1], lr=at.lr, weight_decay=at.weight_decay, eps=at.eps,
                maximize=False,
            )  # fmt: skip
            if self.master is not None:
                share.copy_(self.master)

    @property
    def dtype(self) -> torch.dtype:
        """Of the state: fp32 where the weights are bf16."""
        return torch.float32 if self.mixed else self._dtype

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """m and v by torch's names, "exp_avg" and "exp_avg_sq"; "master" where there is one."""
        return {**self.moments, **({} if self.master is None else {"master": self.master})}

    @property
    def updates(self) -> int:
        """Steps done so far; m and v are corrected by them (Kingma and Ba, 2015, section 3)."""
        return int(self.count)

    def restore(self, updates: int, state: Mapping[str, torch.Tensor]) -> None:
        """Go on after `updates` steps with this state, in the form of `state`, which is kept."""
        self.count.fill_(updates)
        self.moments = {name: state[name] for name in _MOMENTS if name in state}
        if self.master is not None:
            self.master.copy_(state["master"])
