"""Which rank stands where on a mesh. Pure: no process group, no torch.

    rank = ((dp·PP + pp)·CP + cp)·TP + tp

tp is the fastest axis, so that the ranks of a tensor-parallel group are neighbours and share a
node; dp is the outermost. Megatron-LM's default order is tp-cp-ep-dp-pp, with pp outermost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from numbers import Integral

AXES = ("dp", "pp", "cp", "tp")
"""From the slowest to the fastest."""


@dataclass(frozen=True, order=True)
class Layout:
    """Sizes of the mesh's axes. Raises ValueError where one is no whole number, 1 or more."""

    dp: int = 1
    pp: int = 1
    cp: int = 1
    tp: int = 1

    def __post_init__(self) -> None:
        for axis, size in self.sizes.items():
            if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
                raise ValueError(f"{axis} must be a whole number, 1 or more; got {size!r}")

    def __str__(self) -> str:
        return " ".join(f"{a}={n}" for a, n in self.sizes.items() if a != "cp" or n > 1)

    @property
    def sizes(self) -> dict[str, int]:
        """Axis: size, from the slowest to the fastest."""
        return dict(dp=self.dp, pp=self.pp, cp=self.cp, tp=self.tp)

    @property
    def ranks(self) -> int:
        """Ranks of the whole mesh."""
        return prod(self.sizes.values())

    def coordinate(self, rank: int) -> dict[str, int]:
        """Axis: place on it. Raises ValueError for a rank outside of the mesh."""
        if isinstance(rank, bool) or not isinstance(rank, Integral) or not 0 <= rank < self.ranks:
            raise ValueError(f"{self} has ranks 0 to {self.ranks - 1}; {rank!r} is none of them")
        found = {}
        for axis in reversed(AXES):
            rank, found[axis] = divmod(rank, self.sizes[axis])
        return {axis: found[axis] for axis in AXES}

    def rank(self, dp: int = 0, pp: int = 0, cp: int = 0, tp: int = 0) -> int:
        """The rank at a coordinate. Raises ValueError where it lies outside of the mesh."""
        at = dict(dp=dp, pp=pp, cp=cp, tp=tp)
        for axis, place in at.items():
            if not 0 <= place < self.sizes[axis]:
                raise ValueError(f"{axis} = {place} lies outside of {self}")
        rank = 0
        for axis in AXES:
            rank = rank * self.sizes[axis] + at[axis]
        return rank

    def groups(self, *axes: str) -> list[list[int]]:
        """The ranks that differ in nothing but `axes`, group by group, each in rank order.

        ("tp",) on dp=2 pp=1 tp=2: [[0, 1], [2, 3]]. Raises ValueError for an unknown axis.
        """
        unknown = [axis for axis in axes if axis not in AXES]
        if unknown or not axes:
            raise ValueError(f"a group is one of the axes {', '.join(AXES)}; got {axes!r}")
        fixed = [axis for axis in AXES if axis not in axes]
        found = []
        for at in product(*(range(self.sizes[axis]) for axis in fixed)):
            rest = dict(zip(fixed, at, strict=True))
            inside = product(*(range(self.sizes[axis]) for axis in AXES if axis in axes))
            names = [axis for axis in AXES if axis in axes]
            found.append([self.rank(**rest, **dict(zip(names, i, strict=True))) for i in inside])
        return found

    def group(self, rank: int, *axes: str) -> list[int]:
        """The group of `rank` along `axes`."""
        return next(group for group in self.groups(*axes) if rank in group)

    def peers(self, rank: int, axis: str, step: int) -> int | None:
        """The rank `step` further along an axis; None past its end."""
        at = self.coordinate(rank)
        there = at[axis] + step
        return self.rank(**{**at, axis: there}) if 0 <= there < self.sizes[axis] else None


def factorizations(ranks: int) -> list[Layout]:
    """Every dp x pp x tp of that many ranks, the evenest first."""
    found = [
        Layout(dp=dp, pp=pp, tp=ranks // dp // pp)
        for dp in range(1, ranks + 1) if ranks % dp == 0
        for pp in range(1, ranks // dp + 1) if ranks // dp % pp == 0
    ]  # fmt: skip
    return sorted(found, key=lambda at: (max(at.sizes.values()), at.tp, at.pp))
