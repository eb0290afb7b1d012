"""Rings to be run on simulated devices, as data: who holds which tokens, what a block costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from labs import formulas
from labs.answers import reference
from labs.context_parallel.clock.device import ALL, PAIRS, WHOLE, WORK
from labs.context_parallel.clock.simulate import Times
from labs.context_parallel.places import at_the_end, plain

ZIGZAG_SECTION, OVERLAP = "zigzag", "overlap"
SECTIONS = (ZIGZAG_SECTION, OVERLAP)
PLAIN, ZIGZAG = "plain", "zigzag"
LENGTH = 960
"""Tokens; a multiple of 2c for 2, 3 and 4 ranks."""
BACKWARD = 2.0
"""A block's backward pass takes so many times as long as its forward pass."""
FEW, KEYS, WIDTH = 8, 4096, 64
"""Queries and keys of a rank, and width of a head, where messages shall take their time: 2 MiB of K
and V in fp32. Queries are few, so that merging their results is no work beside a message."""
LINK = 100e6
"""Bytes a second of the link then; see labs/context_parallel/clock/slow_link.py."""
FASTER, SLOWER = 2.0, 0.5
"""A block's computation in messages: a message that can be hidden, and one that is too long."""


@dataclass(frozen=True)
class Timed:
    """One ring on the first `ranks` ranks, a few tries of it.

    layout: PLAIN or ZIGZAG, causal; None: full attention, forward only, K and V as large as KEYS
    and WIDTH say, over a link of `link` bytes a second. work: of device.py here.
    seconds: of a rank's share of a causal forward pass were all ranks alike; of_message: instead of
    it, a block's time in messages. blocking: the ring waits for its messages first. held: (c, n)
    places of the tokens of each rank, where the attention is causal.
    """

    name: str
    ranks: int
    layout: str | None
    work: str = PAIRS
    seconds: float = 0.0
    of_message: float = 0.0
    blocking: bool = False
    length: int = LENGTH
    keys: int = KEYS
    link: float | None = None
    tries: int = 3
    held: torch.Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def causal(self) -> bool:
        return self.layout is not None

    @property
    def block_bytes(self) -> int:
        """Of a message of K and V where they are large; fp32."""
        return formulas.kv_block_bytes(1, self.ranks * self.keys, 1, WIDTH, 4, self.ranks)

    @property
    def pair(self) -> float:
        """Seconds that a pair takes forward, on causal attention."""
        return self.seconds / formulas.zigzag_pairs(self.length, self.ranks)

    def places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Of queries (c, n_q) and of keys (c, n_k), a row a rank."""
        if self.layout is None:
            keys = plain(self.ranks, self.ranks * self.keys)
            return at_the_end(keys[:, :FEW], self.ranks * self.keys), keys
        return self.held, self.held

    def units(self) -> list[list[int]]:
        """[rank][step]: pairs that a rank is charged for at that step."""
        (queries, keys), c = self.places(), self.ranks
        cost = WORK[self.work]
        return [
            [
                cost(queries[rank], keys[(rank - step) % c])
                if keys[(rank - step) % c].min() <= queries[rank].max() else 0
                for step in range(c)
            ]
            for rank in range(c)
        ]  # fmt: skip

    def times(self, pair: float, kv: float, sums: float) -> Times:
        """For the simulator; seconds of a pair and of the two kinds of message."""
        forward = [[units * pair for units in row] for row in self.units()]
        backward = [[BACKWARD * t for t in row] for row in forward] if self.causal else None
        return Times(forward, backward, kv, sums, not self.blocking)

    def formula(self, pair: float, message: float) -> float:
        """Seconds by the closed form: causal steps without messages, or a ring of equal blocks."""
        c = self.ranks
        if self.layout is None:
            block = FEW * self.keys * pair
            return formulas.ring_seconds(c, block, message, not self.blocking)
        own = self.length // c
        if self.work == ALL:
            pairs = c * own * own
        elif self.work == WHOLE:
            pairs = own * own * (c if self.layout == PLAIN else (c + 1) / 2)
        elif self.layout == PLAIN:
            pairs = formulas.causal_pairs(self.length, c, c - 1)
        else:
            pairs = formulas.zigzag_pairs(self.length, c)
        return (1 + BACKWARD) * pair * pairs


def jobs(
    ranks: int, sections: Sequence[str] = SECTIONS, seconds: float = 0.030, tries: int = 3,
    keys: int = KEYS, zigzag: Callable[[int, int, int], torch.Tensor] | None = None,
) -> list[Timed]:  # fmt: skip
    """All jobs of these sections on up to `ranks` ranks.

    seconds: of a rank's share of a causal forward pass; keys: of a rank, in the overlap section;
    zigzag: your own zigzag_positions, in place of the course's.
    """
    found = []
    if ZIGZAG_SECTION in sections:
        for c in range(2, min(4, ranks) + 1):
            for work in (PAIRS, WHOLE):
                for layout in (PLAIN, ZIGZAG):
                    found.append(_causal(c, layout, work, seconds, tries, zigzag))
        if ranks > 1:
            found.append(_causal(min(4, ranks), ZIGZAG, ALL, seconds, tries, zigzag))
    if OVERLAP in sections and ranks > 1:
        for of_message in (FASTER, SLOWER):
            for blocking in (False, True):
                name = "messages waited for first" if blocking else "with overlap"
                told = f"{name}, a block takes {of_message:g} messages"
                found.append(Timed(told, ranks, None, of_message=of_message, blocking=blocking,
                                   keys=keys, link=LINK, tries=tries))  # fmt: skip
    return found


def _causal(
    c: int, layout: str, work: str, seconds: float, tries: int, zigzag: Callable | None
) -> Timed:
    if layout == PLAIN:
        held = plain(c, LENGTH)
    else:
        of = reference("ring_attention.zigzag_positions", zigzag)
        held = torch.stack([of(rank, c, LENGTH) for rank in range(c)])
    return Timed(f"{layout}, c={c}, {work}", c, layout, work, seconds, tries=tries, held=held)
