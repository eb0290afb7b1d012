"""One trial of an answer: real ranks exchange tensors that say whose they are.

Each rank makes its tensor itself, by rank, shape and seed, so that 8 MB need not travel there; the
kernel makes the same ones to know what must come back. What is expected never goes to a rank.
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
from labs.staying import must_return

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


def made(one: Try, rank: int, seed: int) -> torch.Tensor:
    """The tensor of a rank: numbers from 0 to 2**20 drawn from the seed, and the rank in each.

    Number n of rank r is drawn + r, so no two ranks have an equal number in one place.
    """
    draw = torch.Generator().manual_seed(seed)
    numbers = torch.randint(2**20, one.shape, generator=draw)
    return (numbers + rank).to(one.dtype)


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
        """(operation, calls, payload bytes) of one rank in one try."""
        rows = self.ledger.where(section=f"try {number}", rank=rank).rows
        return [(row.op, row.count, row.payload_bytes) for row in rows]


def on_rank(
    function: Callable, tries: tuple[Try, ...], seed: int, peers: tuple[int, ...] | None
) -> list[dict]:
    """On a rank: each try once. Raises TypeError for what is no tensor."""
    rank, here = dist.get_rank(), ranks.device()
    found = []
    for number, one in enumerate(tries):
        x = made(one, rank, seed + number).to(here)
        before = x.clone()
        with ranks.section(f"try {number}"), watched() as log, must_return():
            out = function(x) if peers is None else function(x, peers[rank])
        if not isinstance(out, torch.Tensor):
            raise TypeError(f"the function returned {type(out).__name__}, not a tensor")
        odd = _odd(out, before)
        shares = not odd and out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        found.append(
            dict(out=torch.empty(0) if odd else out, odd=odd, shares=shares, faults=log.faults,
                 changed=not torch.equal(x, before), received_first=log.received_first)
        )  # fmt: skip
    return found


def _odd(out: torch.Tensor, like: torch.Tensor) -> str:
    if type(out) not in (torch.Tensor, torch.nn.Parameter) or out.layout != torch.strided:
        return f"the output is a {type(out).__name__} of layout {out.layout}, not a plain tensor"
    if out.shape != like.shape:
        return f"the output has shape {tuple(out.shape)}, x has {tuple(like.shape)}"
    if out.dtype != like.dtype:
        return f"the output is {out.dtype}, x is {like.dtype}"
    if out.device != like.device:
        return f"the output is on {out.device}, x is on {like.device}"
    return ""


def run(function: Callable | Source, case: Case) -> Seen:
    """Run one case on real ranks. Raises ranks.RunFailed when a rank fails or waits for ever."""
    done = ranks.launch(
        on_rank, case.ranks, args=(function, case.tries, case.seed, case.peers), limit=LIMIT,
        status=False,
    )  # fmt: skip
    by_try = [[Told(**value[number]) for value in done.values] for number in range(len(case.tries))]
    given = [
        [made(one, rank, case.seed + number) for rank in range(case.ranks)]
        for number, one in enumerate(case.tries)
    ]
    wanted = [[tensors[source] for source in case.comes_from] for tensors in given]
    return Seen(case, by_try, done.ledger, done.output, wanted, given)
