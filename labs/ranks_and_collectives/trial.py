"""One trial of an answer: real ranks exchange tensors that say whose they are.

Each rank makes its tensor itself from a seed of its own, so that 8 MB need not travel there; the
kernel makes the same ones to know what must come back. No rank has another's seed, and its own only
when a try begins. What is expected never goes to a rank, and what came is compared in the kernel;
of memory that two tensors share, and of messages on their way, a rank can tell alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks.ledger import Ledger
from labs.ranks.ship import Source
from labs.ranks_and_collectives.in_flight import watched
from labs.seeds import mixed
from labs.staying import must_return
from labs.untouched import digest

LIMIT = 20.0
"""Seconds a launch may take: a cell ends within 30 s, whatever the answer does."""


@dataclass(frozen=True)
class Try:
    """One call on every rank: the shape and type of the tensors."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def payload(self) -> int:
        """Bytes of one rank's tensor."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"{self.shape} {kind}, {self.payload:,} bytes"


@dataclass(frozen=True)
class Case:
    """One launch: what each rank calls, and from whom its tensor must come."""

    ranks: int
    tries: tuple[Try, ...]
    seed: int
    comes_from: tuple[int, ...]  # by rank
    peers: tuple[int, ...] | None = None  # by rank: the second argument; None: there is none

    @property
    def sends(self) -> int:
        """Messages that each rank sends."""
        return int(self.ranks > 1)

    @property
    def world(self) -> str:
        """How many ranks, in words."""
        return f"{self.ranks} {'rank' if self.ranks == 1 else 'ranks'}"

    def label(self, number: int) -> str:
        """The world and the tensors of one try, in words."""
        pairs = ""
        if self.peers and self.ranks > 2:
            pairs = ", pairs " + " and ".join(f"{a}–{b}" for a, b in enumerate(self.peers) if a < b)
        return f"{self.world}{pairs}, {self.tries[number]}"


_MOST_RANKS = 8


def own_seed(seed: int, rank: int) -> int:
    """The seed of one rank, from which nobody finds that of another."""
    return mixed(seed, rank)


def made_by(one: Try, rank: int, own: int) -> torch.Tensor:
    """The tensor of a rank, from its own seed: whole numbers below 2**23, and the rank in each.

    Divided by 8 every number of rank r leaves r, so no two ranks have an equal number in one place.
    """
    draw = torch.Generator().manual_seed(own)
    numbers = torch.randint(2**20, one.shape, generator=draw)
    return (numbers * _MOST_RANKS + rank).to(one.dtype)


def made(one: Try, rank: int, seed: int) -> torch.Tensor:
    """The tensor of a rank, from the seed of the try."""
    return made_by(one, rank, own_seed(seed, rank))


@dataclass(frozen=True)
class Told:
    """What one rank reports of one try."""

    out: torch.Tensor
    odd: str  # why `out` cannot be compared, or ""
    changed: bool
    shares: bool  # whether the output lies in x's own memory
    faults: list[str]
    received_first: bool = False  # it sent only after it had received


@dataclass(frozen=True)
class Seen:
    """What came back: by try, by rank."""

    case: Case
    told: list[list[Told]]
    ledger: Ledger
    output: str = ""
    wanted: list[list[torch.Tensor]] = field(default_factory=list)
    given: list[list[torch.Tensor]] = field(default_factory=list)

    def calls(self, number: int, rank: int) -> list[tuple[str, int, int]]:
        """(operation, calls, payload bytes) of one rank in one try.

        What was sent in a section that the answer opened counts with the first try.
        """
        rows = list(self.ledger.where(section=f"try {number}", rank=rank).rows)
        if not number:
            tries = [f"try {n}" for n in range(len(self.case.tries))]
            rows += [row for row in self.ledger.strays(tries) if row.rank == rank]
        return [(row.op, row.count, row.payload_bytes) for row in rows]


def on_rank(
    function: Callable, tries: tuple[Try, ...], peer: int | None, *own: ranks.Handed
) -> list[dict]:
    """On a rank: each try once. own: its seed of each. Raises TypeError for what is no tensor."""
    rank, here = dist.get_rank(), ranks.device()
    found = []
    for number, (one, seed) in enumerate(zip(tries, own, strict=True)):
        x = made_by(one, rank, seed.get()).to(here)
        with ranks.section(f"try {number}"), watched() as log, must_return():
            out = function(x) if peer is None else function(x, peer)
        if not isinstance(out, torch.Tensor):
            raise TypeError(f"the function returned {type(out).__name__}, not a tensor")
        odd = _odd_kind(out, x)
        shares = not odd and out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        found.append(
            dict(out=torch.empty(0) if odd else out, odd=odd, shares=shares, faults=log.faults,
                 x=digest(x), received_first=log.received_first)
        )  # fmt: skip
    return found


def _odd_kind(out: torch.Tensor, like: torch.Tensor) -> str:
    """Why an output cannot be reported and compared."""
    if type(out) not in (torch.Tensor, torch.nn.Parameter) or out.layout != torch.strided:
        return f"the output is a {type(out).__name__} of layout {out.layout}, not a plain tensor"
    if out.device != like.device:
        return f"the output is on {out.device}, x is on {like.device}"
    return ""


def _odd(out: torch.Tensor, like: torch.Tensor) -> str:
    if out.shape != like.shape:
        return f"the output has shape {tuple(out.shape)}, x has {tuple(like.shape)}"
    if out.dtype != like.dtype:
        return f"the output is {out.dtype}, x is {like.dtype}"
    return ""


def run(function: Callable | Source, case: Case) -> Seen:
    """Run one case on real ranks. Raises ranks.RunFailed when a rank fails or waits for ever."""
    world, tries = range(case.ranks), range(len(case.tries))
    own = [
        ranks.Later([own_seed(case.seed + number, rank) for rank in world], f"try {number}")
        for number in tries
    ]
    peers = ranks.PerRank(list(case.peers or [None] * case.ranks))
    done = ranks.launch(
        on_rank, case.ranks, args=(function, case.tries, peers, *own), limit=LIMIT, status=False
    )
    given = [
        [made(one, rank, case.seed + number) for rank in range(case.ranks)]
        for number, one in enumerate(case.tries)
    ]
    by_try = [
        [_told(value[number], x) for value, x in zip(done.values, given[number], strict=True)]
        for number in tries
    ]
    wanted = [[tensors[source] for source in case.comes_from] for tensors in given]
    return Seen(case, by_try, done.ledger, done.output, wanted, given)


def _told(value: dict, x: torch.Tensor) -> Told:
    """What a rank reported of one try, held against the x that it had."""
    out, odd = value["out"], value["odd"]
    return Told(
        out, odd or _odd(out, x), value["x"] != digest(x), value["shares"], value["faults"],
        value["received_first"],
    )  # fmt: skip
