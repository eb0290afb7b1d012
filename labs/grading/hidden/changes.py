"""Changes whose effect is known: what one rank holds is changed, and exactly that must show.

Two runs in one launch. The second inputs are handed over when every rank has given its first
output, so nothing about them can be known before. Ranks whose output must stay as it was are held
to the same bits; the others to the difference that mathematics gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs import ranks
from labs.equality import EPS, gap
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import broke
from labs.ranks.ship import Source
from labs.staying import must_return
from labs.tp_linear_pair import cases
from labs.tp_linear_pair.properties import VALUES
from labs.tp_linear_pair.trial import LIMIT, Case


@dataclass(frozen=True)
class Change:
    """Two sets of inputs by rank. difference: of the outputs, by rank; None: the same bits."""

    case: Case
    after: list[dict[str, object]]
    difference: list[torch.Tensor | None]


def on_rank(
    function: Callable, first: ranks.Handed, second: ranks.Handed, groups: dict, axis: str
) -> list[torch.Tensor]:
    """On a rank: the output for the first inputs, and for the second."""
    mine = {}
    for name, members in groups.items():
        for one in members:
            group = dist.new_group(one)
            if dist.get_rank() in one:
                mine[name] = group
    made = []
    for name, handed in (("first", first), ("second", second)):
        given = handed.get()
        with ranks.section(name), must_return():
            out = function(*(given | mine).values())
        if type(out) not in (torch.Tensor, torch.nn.Parameter):
            raise TypeError(f"the function returned {type(out).__name__}, not a plain tensor")
        made.append(out.detach().clone())
    return made


def _replaced(case: Case, rank: int, name: str, tensor: torch.Tensor) -> list[dict[str, object]]:
    return [{**given, name: tensor} if at == rank else given
            for at, given in enumerate(case.inputs)]  # fmt: skip


def _noise(like: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    return torch.randn(like.shape, generator=draw, dtype=like.dtype)


def _own(name: str, argument: str) -> Callable[[torch.Generator], Change]:
    """One rank's `argument` changes, and only its own output."""

    def make(draw: torch.Generator) -> Change:
        case = cases.MAKERS[name](4, draw)
        rank = int(torch.randint(4, (), generator=draw))
        given = case.inputs[rank]
        delta = _noise(given[argument], draw)
        moved = given[argument] + delta
        effect = given["x"] @ moved - given["x"] @ given[argument] if argument != "x" else delta
        after = _replaced(case, rank, argument, moved)
        return Change(case, after, [effect if at == rank else None for at in range(4)])

    return make


def _cut(draw: torch.Generator) -> Change:
    """One column of a fused bias changes: the rank that is asked for it sees it, no other."""
    case = cases.cut_fused(4, draw)
    rank = int(torch.randint(4, (), generator=draw))
    given = case.inputs[rank]["w"]
    place = int((given == case.out[rank][0]).nonzero()[0])
    delta = torch.zeros_like(given)
    delta[place] = 1 + torch.rand((), generator=draw, dtype=given.dtype)
    after = [{**one, "w": one["w"] + delta} for one in case.inputs]
    effect = torch.zeros_like(case.out[rank])
    effect[0] = delta[place]
    return Change(case, after, [effect if at == rank else None for at in range(4)])


def _sum_of_group(draw: torch.Generator) -> Change:
    """g: one summand changes, and with it the sum of its own group."""
    case = cases.reduce_from_ranks(4, draw)
    rank = int(torch.randint(4, (), generator=draw))
    delta = _noise(case.inputs[rank]["x"], draw)
    after = _replaced(case, rank, "x", case.inputs[rank]["x"] + delta)
    return Change(case, after, [delta if at % 2 == rank % 2 else None for at in range(4)])


def _row(draw: torch.Generator) -> Change:
    """One shard of x changes: z changes by its product with that rank's rows, on every rank."""
    case = cases.row_parallel(4, draw)
    rank = int(torch.randint(4, (), generator=draw))
    given = case.inputs[rank]
    delta = _noise(given["x_shard"], draw)
    after = _replaced(case, rank, "x_shard", given["x_shard"] + delta)
    return Change(case, after, [delta @ given["w_shard"]] * 4)


def _permuted_heads(draw: torch.Generator) -> Change:
    """Ranks exchange their heads: the sum over all heads stays what it is."""
    case = cases.attention_heads(2, draw)
    after = [case.inputs[1], case.inputs[0]]
    return Change(case, after, [torch.zeros_like(case.out[0])] * 2)


def _shifted_logits(draw: torch.Generator) -> Change:
    """All logits grow by the same number: no probability changes, and no loss."""
    case = cases.vocab_parallel_loss(2, draw, vocab=40)
    by = 1 + torch.rand((), generator=draw, dtype=torch.float64)
    after = [{**one, "logits_shard": one["logits_shard"] + by} for one in case.inputs]
    return Change(case, after, [torch.zeros_like(case.out[0])] * 2)


CHANGES: dict[str, Callable[[torch.Generator], Change]] = {
    "copy_to_ranks": _own("copy_to_ranks", "x"),
    "reduce_from_ranks": _sum_of_group,
    "column_parallel": _own("column_parallel", "w_shard"),
    "row_parallel": _row,
    "cut_fused": _cut,
    "attention_heads": _permuted_heads,
    "vocab_parallel_loss": _shifted_logits,
}


def judge_changes(name: str, function: Source, seed: int) -> list[Verdict]:
    """One verdict: whether what had to change did, by how much, and nothing else."""
    change = CHANGES[name](torch.Generator().manual_seed(seed))
    case = change.case
    try:
        run = ranks.launch(
            on_rank, case.ranks,
            args=(function, ranks.Later(case.inputs, "first"), ranks.Later(change.after, "second"),
                  case.groups, case.axis),
            limit=LIMIT, status=False,
        )  # fmt: skip
    except ranks.RunFailed as failed:
        return broke((VALUES,), failed)
    return [Verdict(VALUES, PASSED if holds(change, run.values) else FAILED)]


def holds(change: Change, made: list[list[torch.Tensor]]) -> bool:
    """Whether each rank's second output differs from its first as it must."""
    for (first, second), want, out in zip(made, change.difference, change.case.out, strict=True):
        if first.shape != out.shape or second.shape != out.shape or second.dtype != out.dtype:
            return False
        if want is None:
            if not torch.equal(first, second):
                return False
            continue
        scale = out.abs().max().item() + want.abs().max().item()
        if not gap("change", second - first, want, scale, EPS[torch.float64]).ok:
            return False
    return True
