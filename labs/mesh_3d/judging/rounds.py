"""Rounds of a check on real ranks: one call of the answer on each rank of some groups.

All rounds of a check share one launch of four ranks: the world, two groups side by side, as the
data-parallel groups of a mesh are, three ranks, one. A rank is handed its own inputs when a round
begins, and no seed: nothing of another's can be found there, nor what must come back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks import wire
from labs.ranks.ledger import Ledger, Row
from labs.ranks.ship import Source

LIMIT = 20.0
"""Seconds a launch may take: a cell ends within 30 s, whatever the answer does.

On a machine that others keep busy it is given as many of its own, three times as long at most.
"""
WORLD = 4
ROUND = "round"
"""What a rank keeps: the number of the round that it is at."""

ALL, THREE, ONE = ((0, 1, 2, 3),), ((0, 1, 2),), ((0,),)
APART, NEXT = ((0, 2), (1, 3)), ((0, 1), (2, 3))
"""Two groups side by side: along a slower axis, and along the fastest."""


@dataclass(frozen=True)
class Round:
    """One call of the answer. groups: ranks of the world, each in the order of its group."""

    name: str
    groups: tuple[tuple[int, ...], ...] = ALL
    seed: int = 0
    dtype: torch.dtype = torch.float64

    @property
    def section(self) -> str:
        """Its name in the ledger; no two rounds of a check have one seed."""
        return f"round {self.seed}"

    @property
    def ranks(self) -> int:
        """Of one group."""
        return len(self.groups[0])

    @property
    def hidden(self) -> dict[str, Any]:
        """What no rank is told of a round besides its seed: the fields as they go there."""
        return {}

    def given(self, group: int, member: int) -> Any:
        """What one rank is handed: tensors of its own."""
        raise NotImplementedError

    def __str__(self) -> str:
        listed = " and ".join(f"{{{', '.join(map(str, group))}}}" for group in self.groups)
        n = f"{self.ranks} rank{'s' * (self.ranks > 1)}"
        where = n if self.groups == ALL else f"the group{'s' * (len(self.groups) > 1)} {listed}"
        return f"{self.name}, {where}, {str(self.dtype).removeprefix('torch.')}"


One = Callable[[Callable, Round, Any, int, dist.ProcessGroup | None], dict]
"""(answer, round, what it is handed, place in the group, group) -> what a rank tells of it."""


_ROOTED = ("broadcast", "reduce", "gather", "scatter")


@dataclass(frozen=True)
class Seen:
    """What came of one round: by group, by place in it."""

    round: Round
    told: list[list[dict]]
    ledger: Ledger  # of this round
    output: str = ""

    def calls(self, group: int, member: int) -> list[tuple[str, int, int]]:
        """(operation, calls, payload bytes) of one rank."""
        rows = self.ledger.where(rank=self.round.groups[group][member]).rows
        return [(row.op, row.count, row.payload_bytes) for row in rows]

    def sent(self, group: int, member: int) -> float:
        """Bytes that a rank sends at best for what it asked for: those of rings.

        Worked out here, from operations and payloads. Of an operation with a root it is at least
        what it comes to where every rank is the root in turn.
        """
        return sum(map(self._ideal, self.ledger.where(rank=self.round.groups[group][member]).rows))

    def _ideal(self, row: Row) -> float:
        if row.op in _ROOTED:
            return max(row.ideal_bytes, row.payload_bytes * (1 - 1 / self.round.ranks))
        return wire.ideal_bytes(row.op, row.payload_bytes, self.round.ranks, 0, None)


def on_rank(
    functions: Sequence[Callable], asked: Sequence[Round], one: One, *handed: ranks.Handed
) -> list[list[dict]]:
    """On a rank: of each function, each round in which this rank has a place.

    handed: by round, what this rank gets, asked for when the round begins; None where it has none.
    """
    made: dict[tuple[int, ...], dist.ProcessGroup | None] = {}
    for members in dict.fromkeys(group for round_ in asked for group in round_.groups):
        whole = len(members) == dist.get_world_size()
        made[members] = None if whole else dist.new_group(list(members))
    me, found = dist.get_rank(), []
    for label, function in enumerate(functions):
        found.append([])
        for number, round_ in enumerate(asked):
            # A call on the wrong group is to be found out in its round, not to meet a later one.
            with ranks.section("between rounds"):
                dist.barrier()
            ranks.keep(ROUND, number)
            given = handed[number].get()
            at = next((at for at, group in enumerate(round_.groups) if me in group), None)
            if at is None:
                found[-1].append({})
                continue
            members = round_.groups[at]
            with ranks.section(f"{label} {round_.section}"):
                told = one(function, round_, given, members.index(me), made[members])
            found[-1].append(told)
    return found


def run_all(
    functions: Sequence[Callable | Source],
    asked: Sequence[Round],
    one: One,
    limit: float = LIMIT,
) -> list[list[Seen]]:
    """Answers in one launch, one after the other. If one breaks, all are lost: RunFailed."""
    told = [replace(round_, seed=number, **round_.hidden) for number, round_ in enumerate(asked)]
    sections = [round_.section for round_ in told]
    world = max(WORLD, *(rank + 1 for one_ in asked for group in one_.groups for rank in group))
    handed = [
        ranks.Later([_handed(round_, rank) for rank in range(world)], f"0 {section}")
        for round_, section in zip(asked, sections, strict=True)
    ]
    args = (list(functions), told, one, *handed)
    done = ranks.launch(on_rank, world, args=args, limit=limit, status=False)
    known = [f"{label} {section}" for label in range(len(functions)) for section in sections]
    rows = {section: list(done.ledger.where(section=section).rows) for section in known}
    # What was sent in a section that an answer opened counts with the first round.
    rows[known[0]] += _strays(done, known)
    return [
        [
            Seen(
                round_,
                [[done.values[rank][label][number] for rank in group] for group in round_.groups],
                Ledger(rows[f"{label} {sections[number]}"]),
                done.output,
            )
            for number, round_ in enumerate(asked)
        ]
        for label in range(len(functions))
    ]


UPDATE = "update"
"""The section of the collective that `update` holds: one number each time an answer calls it."""
_MOST_UPDATES = 64  # in one round, of the wrongest answer


def _strays(done: ranks.Run, known: Sequence[str]) -> list[Row]:
    """What was sent in no round's section, without the collectives of `update`."""
    found = []
    for row in done.ledger.strays(known):
        if (row.section, row.op) == (UPDATE, "all_reduce"):
            told = [round_.get("updates", 0) for label in done.values[row.rank] for round_ in label]
            row = _less(row, sum(n for n in told if type(n) is int and 0 <= n <= _MOST_UPDATES))
        if row.count > 0:
            found.append(row)
    return found


def _less(row: Row, calls: int) -> Row:
    """Without so many calls of one number each."""
    payload = max(0, row.payload_bytes - calls * torch.float32.itemsize)
    share = payload / max(1, row.payload_bytes)
    return replace(
        row, count=max(row.count - calls, 1 if payload else 0), payload_bytes=payload,
        wire_bytes=row.wire_bytes * share, ideal_bytes=row.ideal_bytes * share,
    )  # fmt: skip


def _handed(asked: Round, rank: int) -> Any:
    places = [(at, group.index(rank)) for at, group in enumerate(asked.groups) if rank in group]
    return asked.given(*places[0]) if places else None


def broken_at(failed: ranks.RunFailed, asked: Sequence[Round]) -> Round | None:
    """The round that broke: that of the rank that raised, else the first that a rank is at."""
    at = {rank: kept[ROUND] for rank, kept in enumerate(failed.run.kept) if ROUND in kept}
    blamed = [] if failed.run.culprit is None else [failed.run.culprit]
    numbers = [at[rank] for rank in blamed if rank in at] or list(at.values())
    return asked[min(numbers)] if numbers else None


def arguments(*given: object, group: dist.ProcessGroup | None) -> tuple:
    """The group is handed on where there is one; without it the answer's own default counts."""
    return given if group is None else (*given, group)
