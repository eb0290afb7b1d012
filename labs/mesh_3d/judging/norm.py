"""One round of global_grad_norm on a rank, and what must come back.

A small model of a few gradients, each of which one rank of the group holds, or several of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.distributed as dist

from labs import ranks
from labs.mesh_3d.judging.rounds import ALL, APART, NEXT, ONE, THREE, Round, arguments
from labs.seeds import mixed
from labs.staying import must_return

Part = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape of a gradient, and the places in the group of those that hold it."""

_TWO: tuple[Part, ...] = (((3, 4), (0,)), ((5,), (1,)), ((), (1,)), ((2, 1, 2), (0,)))
_FOUR: tuple[Part, ...] = (*_TWO, ((4, 2), (2,)), ((6,), (3,)))
COPIED: tuple[Part, ...] = (*_FOUR, ((7,), (0, 1)), ((3,), (2, 3)), ((5,), (0, 1, 2, 3)))
"""As a tensor-parallel group of two on each of two stages: norms and biases are held by both."""


@dataclass(frozen=True)
class Norm(Round):
    """size: the gradients are that many times N(0, 1); ranged: judged as one of types and sizes.

    spoilt: the part of which one number is no number (NaN), as after an overflow; None: of none
    """

    parts: tuple[Part, ...] = COPIED
    size: float = 1.0
    ranged: bool = False
    spoilt: int | None = None

    def given(self, group: int, member: int) -> list[tuple[torch.Tensor, int]]:
        """Gradients of one rank, and how many hold each."""
        return made(self, group, member)

    @property
    def some_empty(self) -> bool:
        """Whether a rank holds no gradient."""
        holders = {member for _, held in self.parts for member in held}
        return len(holders) < self.ranks


def norms(seed: int) -> list[Norm]:
    """What the answer is asked for, the plainest first."""
    first = seed * 16
    two = (*_TWO, ((6,), (0, 1)))
    three = (*two, ((4,), (0, 1, 2)), ((8,), (2,)))
    bf16 = dict(dtype=torch.bfloat16, parts=(((700,), (0,)), ((40, 50), (2,)), ((900,), (0, 1, 3))))
    fp32 = dict(dtype=torch.float32, ranged=True)
    found = [
        Norm("each gradient on one rank", ALL, parts=_FOUR),
        Norm("some gradients on several ranks", ALL),
        Norm("some gradients on several ranks", APART, parts=two),
        Norm("all gradients on both ranks", NEXT, parts=(((4,), (0, 1)), ((2, 3), (0, 1)))),
        Norm("some gradients on several ranks", THREE, parts=three),
        Norm("one rank alone", ONE, parts=(((3,), (0,)), ((2, 2), (0,)))),
        Norm("gradients of 0", NEXT, parts=two, size=0.0),
        Norm("gradients near 1", ALL, **fp32),
        Norm("gradients near 1e20", ALL, size=1e20, **fp32),
        Norm("gradients near 1e-30", ALL, size=1e-30, **fp32),
        Norm("gradients near 1", ALL, ranged=True, **bf16),
        Norm("a NaN in a gradient of one rank", ALL, spoilt=1),
        Norm("a NaN in a gradient of one rank", ALL, dtype=torch.float32, spoilt=4),
        Norm("a rank without gradients", ALL, parts=(((3, 4), (0,)), ((5,), (2, 3)), ((2,), (3,)))),
        Norm("no gradients at all", NEXT, parts=()),
    ]  # fmt: skip
    return [replace(one, seed=first + number) for number, one in enumerate(found)]


def made(asked: Norm, group: int, member: int | None = None) -> list[tuple[torch.Tensor, int]]:
    """(gradient, how many hold it) of one rank of a group; None: of the whole model."""
    found = []
    for number, (shape, holders) in enumerate(asked.parts):
        draw = torch.Generator().manual_seed(mixed(asked.seed, group, number))
        grad = torch.randn(shape, generator=draw, dtype=torch.float64) * asked.size
        if number == asked.spoilt:
            grad.view(-1)[-1] = torch.nan
        if member is None or member in holders:
            found.append((grad.to(asked.dtype), len(holders)))
    return found


def one(
    function, asked: Norm, given: list[tuple[torch.Tensor, int]], member: int,  # noqa: ANN001
    process_group: dist.ProcessGroup | None,
) -> dict:  # fmt: skip
    """On a rank: one norm. Raises TypeError for what is no scalar tensor.

    after: the gradients and their holders as the answer left them, for `changed`.
    """
    here = ranks.device()
    held = [(grad.clone().to(here), times) for grad, times in given]
    if not held and here.type != "cpu":  # a list says nothing of the device
        held = [(torch.empty(0, device=here, dtype=asked.dtype), 1)]
    grads, holders = [grad for grad, _ in held], [times for _, times in held]
    with must_return():
        got = function(*arguments(grads, holders, group=process_group))
    if not isinstance(got, torch.Tensor):
        raise TypeError(f"the function returned {type(got).__name__}, not a scalar tensor")
    if not all(isinstance(grad, torch.Tensor) for grad in grads):
        grads = None
    after = dict(grads=grads, holders=holders)
    return dict(norm=got.detach().clone(), after=after)


def changed(asked: Norm, group: int, member: int, after: dict) -> str:
    """What of a rank's arguments an answer has changed: "grads", "holders" or ""."""
    given, grads = made(asked, group, member), after["grads"]
    if not given and grads and not grads[0].numel():  # what stands in for none, on a GPU
        return ""
    before = [grad for grad, _ in given]
    if grads is None or len(grads) != len(before) or not all(map(_same, grads, before)):
        return "grads"
    return "" if after["holders"] == [times for _, times in given] else "holders"


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal number by number; a NaN stands where one stood."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


class Reference:
    """The right norm of one group, in fp64, and parts of it for the hints."""

    def __init__(self, asked: Norm, group: int) -> None:
        self.asked, self.n = asked, asked.ranks
        self.whole = _squares(made(asked, group))
        self.by_member = [_squares(made(asked, group, member)) for member in range(self.n)]

    @cached_property
    def squares(self) -> float:
        """The sum of all squares, each number once."""
        return sum(square for square, _ in self.whole)

    @property
    def norm(self) -> float:
        return self.squares**0.5


def _squares(held: list[tuple[torch.Tensor, int]]) -> list[tuple[float, int]]:
    """(sum of squares, how many hold it) of each gradient."""
    return [(grad.double().square().sum().item(), times) for grad, times in held]
