"""Dropout on a dp x tp mesh: which ranks must draw the same mask, and which must not.

    inside a region (attention weights, the MLP's hidden units)   other numbers on every rank: own
    outside, tensor parallelism      the same activations on each rank of a TP group: the same mask
    outside, sequence parallelism    other tokens on each rank: a mask of its own
    between data-parallel groups     other samples: another mask, everywhere

A mask is drawn from a seed that is made of the place's name and of the coordinates that may tell
ranks apart there. Nothing is carried along from call to call, so that a layer that is computed
again in the backward pass (recompute) finds the same masks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import torch

from labs.formulas.sequence import DROPPED, MASKS, SOFTMAX_MASK
from labs.sequence_parallel.kept import named

ATTENTION_WEIGHTS, HIDDEN = "attention weights", "hidden units of the MLP"
AFTER_ATTENTION, AFTER_MLP = "after attention", "after the MLP"
INSIDE, OUTSIDE = (ATTENTION_WEIGHTS, HIDDEN), (AFTER_ATTENTION, AFTER_MLP)

RULES = ("right", "one seed", "a seed each")
"""How seeds are made: as above; the same for the whole mesh; another on every rank, everywhere."""

Drop = Callable[[str, torch.Tensor], torch.Tensor]


def coordinates(name: str, sharded_tokens: bool, rule: str = "right") -> tuple[str, ...]:
    """Which coordinates of the mesh tell masks apart at a place: of "dp" and "tp", or none.

    sharded_tokens: outside the regions each rank has its own tokens (sequence parallelism).
    Raises ValueError for an unknown rule.
    """
    if rule not in RULES:
        raise ValueError(f"{rule!r} was asked for; there are {', '.join(RULES)}")
    if rule == "one seed":
        return ()
    if rule == "a seed each" or name in INSIDE or sharded_tokens:
        return ("dp", "tp")
    return ("dp",)


def seed_of(seed: int, name: str, **at: int) -> int:
    """A seed of 63 bits for one place and its coordinates.

    Hashed and not added up: seed + 10*dp + tp is the same for (0, 10) and (1, 0).
    """
    words = f"{seed}/{name}/" + "/".join(f"{axis}={at[axis]}" for axis in sorted(at))
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest()) >> 1


def nowhere(name: str, y: torch.Tensor) -> torch.Tensor:
    """No dropout."""
    return y


class Drawn:
    """Dropout that draws its masks; `masks` holds what was drawn last, by place.

    share   of the numbers that are set to 0; the others are divided by 1 - share
    at      this rank's coordinates, dp=… and tp=…
    places  where there is dropout
    """

    def __init__(
        self,
        share: float,
        seed: int,
        at: Mapping[str, int],
        sharded_tokens: bool,
        places: tuple[str, ...] = (ATTENTION_WEIGHTS, *OUTSIDE),
        rule: str = "right",
    ) -> None:
        self.share, self.places, self.masks = share, places, {}
        self._seeds = {}
        for name in places:
            apart = coordinates(name, sharded_tokens, rule)
            self._seeds[name] = seed_of(seed, name, **{axis: at[axis] for axis in apart})

    def __call__(self, name: str, y: torch.Tensor) -> torch.Tensor:
        if name not in self.places:
            return y
        draw = torch.Generator().manual_seed(self._seeds[name])
        keep = (torch.rand(y.shape, generator=draw) >= self.share).to(y.device)
        self.masks[name] = keep
        return applied(name, y, keep, self.share)


def given(masks: Mapping[str, torch.Tensor], share: float) -> Drop:
    """Dropout by masks that are there already, bool and of the shape of what they meet."""

    def drop(name: str, y: torch.Tensor) -> torch.Tensor:
        return applied(name, y, masks[name], share) if name in masks else y

    return drop


def applied(name: str, y: torch.Tensor, keep: torch.Tensor, share: float) -> torch.Tensor:
    """What is kept, larger by as much as is lost. Of this autograd keeps the mask alone."""
    inside = name == ATTENTION_WEIGHTS
    dropped = y * named(SOFTMAX_MASK if inside else MASKS, keep) / (1 - share)
    return named(DROPPED, dropped) if inside else dropped
