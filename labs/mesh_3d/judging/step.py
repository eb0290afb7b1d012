"""One round of zero1_step on a rank, and what must come back.

`update` is handed in by the judge: it notes what it was given, and changes a share by another
factor on each rank, drawn for it alone, so that nobody can work out another one's share.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist

from labs import ranks
from labs.mesh_3d.judging.held import Held
from labs.mesh_3d.judging.rounds import ALL, APART, NEXT, ONE, THREE, UPDATE, Round, arguments
from labs.seeds import mixed
from labs.staying import must_return

Given = tuple[torch.Tensor, torch.Tensor, tuple[float, float]]


@dataclass(frozen=True)
class Step(Round):
    """share: numbers of one rank's share; together: all ranks of the world meet in `update`.

    moved: the share in which the first rank's gradients are larger by 1; None: in none
    """

    share: int = 3
    together: bool = False
    traced: bool = False
    moved: int | None = None

    @property
    def size(self) -> int:
        """Of all weights: N."""
        return self.share * self.ranks

    @property
    def bytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def hidden(self) -> dict[str, None]:
        """Where gradients are others is no rank's business."""
        return dict(moved=None)

    def given(self, group: int, member: int) -> Given:
        """Weights, gradients and factors of one rank."""
        return (*made(self, group, member), factors(self, group, member))


def steps(seed: int) -> list[Step]:
    """What the answer is asked for, the plainest first."""
    first = seed * 16
    found = [
        Step("a step", ALL),
        Step("a step", APART, share=4),
        Step("a step", NEXT, share=5, dtype=torch.float32),
        Step("a step", THREE, share=5),
        Step("one rank alone", ONE, share=6),
        Step("one number each", ALL, share=1),
        Step("a larger model", ALL, share=512, traced=True),
        Step("update holds a collective", APART, share=2, together=True),
    ]
    return [replace(one, seed=first + number) for number, one in enumerate(found)]


def made(step: Step, group: int, member: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights, the same on all ranks of a group, and one rank's gradients: both N(0, 1)."""

    def drawn(number: int) -> torch.Tensor:
        draw = torch.Generator().manual_seed(mixed(step.seed, group, number))
        return torch.randn(step.size, generator=draw, dtype=torch.float64).to(step.dtype)

    grads = drawn(member)
    if step.moved is not None and not member:
        grads[step.moved * step.share : (step.moved + 1) * step.share] += 1
    return drawn(7), grads


def factors(step: Step, group: int, member: int) -> tuple[float, float]:
    """How much of a share is left on one rank, and how much of its gradient is taken off."""
    draw = random.Random(mixed(step.seed, group, member, 1))
    return draw.uniform(0.4, 0.9), draw.uniform(0.1, 0.9)


def changed(share: torch.Tensor, grad: torch.Tensor, by: tuple[float, float]) -> torch.Tensor:
    """What `update` makes of a share on a rank with these factors."""
    return share * by[0] - by[1] * grad


def one(
    function, step: Step, given: Given, member: int,  # noqa: ANN001
    process_group: dist.ProcessGroup | None,
) -> dict:  # fmt: skip
    """On a rank: one step. Weights are read through a view that was there before."""
    weights, grads = (x.clone().to(ranks.device()) for x in given[:2])
    view, calls = weights[:], []
    held = Held([weights, grads]) if step.traced else None

    def update(share: torch.Tensor, grad: torch.Tensor) -> None:
        with held.paused() if held else contextlib.nullcontext():
            calls.append(tuple(_noted(x) for x in (share, grad)))
            if step.together:
                with ranks.section(UPDATE):
                    dist.all_reduce(torch.ones(1, device=ranks.device()))
            fits = all(isinstance(x, torch.Tensor) for x in (share, grad))
            if fits and share.shape == grad.shape:
                with torch.no_grad():
                    share.copy_(changed(share, grad, given[2]))

    with held or contextlib.nullcontext(), must_return():
        function(*arguments(weights, grads, update, group=process_group))
    return dict(
        calls=calls,
        updates=len(calls) if step.together else 0,
        weights=view.detach().clone(),
        peak=held.peak if held else 0,
        largest=held.largest if held else 0,
    )


def _noted(x: object) -> object:
    """The values, or what type it has."""
    return x.detach().clone() if isinstance(x, torch.Tensor) else type(x).__name__


class Reference:
    """The right results of one group of a step, in fp64."""

    def __init__(self, step: Step, group: int) -> None:
        given = [made(step, group, member) for member in range(step.ranks)]
        self.step, self.group, self.n = step, group, step.ranks
        self.weights = given[0][0].double()
        self.grads = [grads.double() for _, grads in given]
        self.total = torch.stack(self.grads).sum(0)

    def share(self, whole: torch.Tensor, member: int) -> torch.Tensor:
        """The part of all weights, or of all gradients, that is one rank's."""
        size = self.step.share
        return whole[member * size : (member + 1) * size]

    def new(self, member: int) -> torch.Tensor:
        """One share after the step."""
        parts = self.share(self.weights, member), self.share(self.total, member)
        return changed(*parts, self.factors(member))

    def factors(self, member: int) -> tuple[float, float]:
        """Of one rank's update."""
        return factors(self.step, self.group, member)

    @property
    def after(self) -> torch.Tensor:
        """All weights after the step."""
        return torch.cat([self.new(member) for member in range(self.n)])
