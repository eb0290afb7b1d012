"""The eight collectives: what each rank holds before and after, and the call that does it.

A tensor is a row of blocks, and a block says where it comes from: block b of rank r is a vector of
t numbers, b+1 in place r and 0 elsewhere. A sum over the ranks then has b+1 in every place. So what
a run returns tells for every block which ranks are in it, and nothing is taken from a table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

ROOT = 0
Block = tuple[int, ...]
Blocks = list[Block]


def block(rank: int, number: int, ranks: int) -> Block:
    """Block `number` of `rank`: number + 1 in the place of the rank."""
    return tuple(number + 1 if place == rank else 0 for place in range(ranks))


def total(number: int, ranks: int) -> Block:
    """Block `number` summed over all ranks."""
    return (number + 1,) * ranks


def _everywhere(rank: int, t: int) -> Blocks:
    return [block(rank, b, t) for b in range(t)]


def _at_root(rank: int, t: int) -> Blocks:
    return _everywhere(rank, t) if rank == ROOT else []


def _one_each(rank: int, t: int) -> Blocks:
    return [block(rank, rank, t)]


def _sums(rank: int, t: int) -> Blocks:
    return [total(b, t) for b in range(t)]


def _of_all(rank: int, t: int) -> Blocks:
    return [block(other, other, t) for other in range(t)]


# The calls. x (k, m): the blocks that this rank holds; room (t, m): where others' may arrive.
# What comes back is what the rank holds after it, None for nothing.
_Call = Callable[[torch.Tensor | None, torch.Tensor], torch.Tensor | None]


def _is_root() -> bool:
    return dist.get_rank() == ROOT


def _broadcast(x: torch.Tensor | None, room: torch.Tensor) -> torch.Tensor:
    held = room if x is None else x
    dist.broadcast(held, ROOT)
    return held


def _reduce(x: torch.Tensor, room: torch.Tensor) -> torch.Tensor | None:
    dist.reduce(x, ROOT)
    return x if _is_root() else None  # elsewhere x holds what the algorithm left there


def _all_reduce(x: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(x)
    return x


def _gather(x: torch.Tensor, room: torch.Tensor) -> torch.Tensor | None:
    dist.gather(x[0], list(room) if _is_root() else None, dst=ROOT)
    return room if _is_root() else None


def _all_gather(x: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    dist.all_gather_single(room.view(-1), x.view(-1))
    return room


def _scatter(x: torch.Tensor | None, room: torch.Tensor) -> torch.Tensor:
    dist.scatter(room[0], list(x) if _is_root() else None, src=ROOT)
    return room[:1]


def _reduce_scatter(x: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    dist.reduce_scatter_single(room[0], x.view(-1))
    return room[:1]


def _all_to_all(x: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
    dist.all_to_all_single(room.view(-1), x.view(-1))
    return room


@dataclass(frozen=True)
class Collective:
    """One collective on t ranks. before, after: (rank, t) -> the blocks that the rank holds."""

    op: str
    says: str
    before: Callable[[int, int], Blocks]
    after: Callable[[int, int], Blocks]
    call: _Call

    def holds(self, rank: int, ranks: int, numbers: int) -> torch.Tensor | None:
        """A tensor of zeros of the size that `rank` has before the call, `numbers` a block."""
        held = len(self.before(rank, ranks))
        return torch.zeros(held, numbers) if held else None


_ALL = (
    Collective("broadcast", "the root's tensor goes to all", _at_root,
               lambda rank, t: _everywhere(ROOT, t), _broadcast),
    Collective("reduce", "the sum goes to the root", _everywhere,
               lambda rank, t: _sums(rank, t) if rank == ROOT else [], _reduce),
    Collective("all_reduce", "the sum goes to all", _everywhere, _sums, _all_reduce),
    Collective("gather", "a block of each goes to the root", _one_each,
               lambda rank, t: _of_all(rank, t) if rank == ROOT else [], _gather),
    Collective("all_gather", "a block of each goes to all", _one_each, _of_all, _all_gather),
    Collective("scatter", "the root deals out its blocks", _at_root,
               lambda rank, t: [block(ROOT, rank, t)], _scatter),
    Collective("reduce_scatter", "of the sum each gets a block", _everywhere,
               lambda rank, t: [total(rank, t)], _reduce_scatter),
    Collective("all_to_all", "each deals out its blocks", _everywhere,
               lambda rank, t: [block(other, rank, t) for other in range(t)], _all_to_all),
)  # fmt: skip
COLLECTIVES: dict[str, Collective] = {one.op: one for one in _ALL}


def stamped(blocks: Blocks) -> torch.Tensor | None:
    """Blocks as the tensor that a rank holds, (k, t); None where it holds nothing."""
    return torch.tensor(blocks, dtype=torch.float64) if blocks else None


def read(held: torch.Tensor | None) -> Blocks:
    """The blocks of a tensor that came back."""
    return [] if held is None else [tuple(map(int, row)) for row in held.tolist()]


def origins(blocks: Blocks) -> list[tuple[int, int]]:
    """(rank, number) of each block, both from 0; of a sum the first rank that is in it."""
    found = []
    for one in blocks:
        rank = next(place for place, number in enumerate(one) if number)
        found.append((rank, one[rank] - 1))
    return found
