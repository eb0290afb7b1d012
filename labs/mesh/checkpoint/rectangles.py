"""From a run of a rank's part of a parameter to rectangles of the whole parameter. Pure geometry.

ZeRO shares out parameters end to end, so a share begins and ends amid a row; tensor parallelism
keeps some rows or columns. What is stored are rectangles in the coordinates of the whole parameter:
they mean the same at every layout.

    part (3, 4) of a rank, elements 2 to 11     . . a a      a run of a row-major matrix is at most
                                                b b b b      three rectangles: part of a first row,
                                                c c c .      whole rows, part of a last row
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from labs.mesh.held import Held, Runs


@dataclass(frozen=True)
class Rectangle:
    """Numbers [offsets, offsets + sizes) of a whole parameter, and where a run has them.

    at: place of the first one, counted from the beginning of the run; strides: as a tensor's
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    at: int
    strides: tuple[int, ...]

    def of(self, run: torch.Tensor) -> torch.Tensor:
        """These numbers of a run (n,), a view in the rectangle's shape."""
        return run.as_strided(self.sizes, self.strides, run.storage_offset() + self.at)


def of_run(held: Held, first: int, end: int) -> list[Rectangle]:
    """The rectangles of elements [first, end) of a rank's part of a parameter, laid out row by row.

    Padding past the whole parameter's size belongs to none. Raises ValueError for a parameter of
    more than two dimensions, and for elements that the part does not have.
    """
    if len(held.shape) > 2:
        raise ValueError(f"{held.name} has {len(held.shape)} dimensions; 1 or 2 can be stored")
    rows, width = (*held.shape, 1)[:2]
    rows, width = (held.padded, width) if held.dim == 0 else (rows, held.padded)
    if not 0 <= first <= end <= rows * width:
        raise ValueError(
            f"elements {first} to {end} were asked for; this rank's part of {held.name} has "
            f"{rows * width}"
        )
    sides = [_whole(rows), _whole(width)]
    sides[held.dim] = [*_kept(held.runs, held.shape[held.dim])]
    found = []
    for top, bottom, left, right in _bands(first, end, width):
        for row, height, local_row in _within(sides[0], top, bottom):
            for column, wide, local_column in _within(sides[1], left, right):
                at = local_row * width + local_column - first
                found.append(Rectangle((row, column), (height, wide), at, (width, 1)))
    if len(held.shape) == 2:
        return found
    return [Rectangle(r.offsets[:1], r.sizes[:1], r.at, r.strides[:1]) for r in found]


Side = list[tuple[int, int, int]]
"""Runs along one dimension: first place in the whole, length, first place in the part."""


def _whole(size: int) -> Side:
    return [(0, size, 0)]


def _kept(runs: Runs, size: int) -> Iterator[tuple[int, int, int]]:
    """The runs that a part consists of, without what reaches past the size."""
    local = 0
    for first, end in runs:
        if min(end, size) > first:
            yield first, min(end, size) - first, local
        local += end - first


def _within(side: Side, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """What of a side lies in places [low, high) of the part."""
    for whole, length, local in side:
        first, end = max(low, local), min(high, local + length)
        if first < end:
            yield whole + first - local, end - first, first


def _bands(first: int, end: int, width: int) -> Iterator[tuple[int, int, int, int]]:
    """Top, bottom, left, right of the parts of [first, end) in rows of `width`."""
    row, column = divmod(first, width)
    last, rest = divmod(end, width)
    if row == last:
        if column < rest:
            yield row, row + 1, column, rest
        return
    if column:
        yield row, row + 1, column, width
        row += 1
    if row < last:
        yield row, last, 0, width
    if rest:
        yield last, last + 1, 0, rest
