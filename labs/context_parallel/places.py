"""Where tokens stand in the whole sequence, who holds which, and which keys a query may see.

One rule for every mask of this lab: a query sees the keys placed at or before it. Causal attention
places each query where it stands; full attention places all of them at the end. A key at NEVER is
padding, that nobody sees. The places of a rank ascend.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

NEVER = 2**62
"""The place of a key that no query sees."""


def plain(ranks: int, length: int) -> torch.Tensor:
    """Consecutive runs: (ranks, T/ranks), row r the places that rank r holds."""
    return torch.arange(length).view(ranks, length // ranks)


def at_the_end(places: torch.Tensor, length: int) -> torch.Tensor:
    """Places for queries that see everything: as many as in `places`, all of them `length`."""
    return torch.full_like(places, length)


@dataclass(frozen=True)
class Seen:
    """The part of a block in which anything is visible: queries from `first`, keys up to `last`."""

    first: int  # the queries before it see no key of the block
    last: int  # the keys from it on are seen by no query
    whole: bool  # every query of the part sees every key of it

    @property
    def empty(self) -> bool:
        return self.last == 0


def seen(q_places: torch.Tensor, k_places: torch.Tensor) -> Seen:
    """What of a block has to be worked on. Places ascend, so it is a run of queries and of keys."""
    last = int(torch.searchsorted(k_places, q_places[-1], right=True))
    if last == 0:
        return Seen(len(q_places), 0, False)
    first = int(torch.searchsorted(q_places, k_places[0]))
    return Seen(first, last, bool(q_places[first] >= k_places[last - 1]))


def pairs(q_places: torch.Tensor, k_places: torch.Tensor) -> int:
    """Pairs of a query and a key that it sees."""
    return int(torch.searchsorted(k_places, q_places, right=True).sum())
