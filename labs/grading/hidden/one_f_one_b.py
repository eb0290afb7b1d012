"""Hidden cases of notebook 03: other numbers of ranks, micro-batches and chunks.

An order is run on a number of ranks that no check shows; loss functions meet batches of other
shapes, in fp32 too, and a pipeline of three.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import torch

from labs.answers import reference
from labs.exercise import Verdict
from labs.grading.hidden import Hidden
from labs.one_f_one_b import judge_loss, judge_messages, judge_orders
from labs.pipeline.orders import Asked
from labs.ranks.ship import Source
from labs.schedules.instructions import Schedule
from labs.schedules.known import KNOWN


def _sizes(name: str, draw: random.Random) -> list[Asked]:
    """The first is run: at most 8 stages, as the model has layers."""
    if name == "interleaved":
        p = draw.randrange(9, 13)
        drawn = [(p, 2 * p, draw.randrange(2, 4)), (7, 7 * draw.randrange(1, 4), 8), (6, 6, 1)]
        return [(2, 2 * draw.randrange(3, 6), draw.choice((3, 4))), *drawn]
    drawn = [(draw.randrange(9, 24), draw.randrange(1, 50), 1) for _ in range(4)]
    return [(5, draw.randrange(6, 10), 1), *drawn, (1, 1, 1)]


def _order(name: str) -> Hidden:
    def judge(function: Callable | Source, seed: int) -> list[Verdict]:
        asked = _sizes(name, random.Random(seed))
        return judge_orders.judge_on_sizes(name, function, asked, 1, seed)

    return Hidden("other sizes", judge)


def _shuffled(one: Schedule, draw: random.Random) -> Schedule:
    """All forward passes, then the backward passes: both in an order of their own, on all ranks."""
    m = one.micro_batches
    there, back = (draw.sample(range(m), m) for _ in range(2))
    orders = tuple(
        tuple(order[i] for i in there) + tuple(order[m + i] for i in back) for order in one.orders
    )
    return replace(one, name="passes in an order of their own", orders=orders)


def _messages(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)

    def made(name: str, p: int, m: int) -> Schedule:
        return KNOWN[name].make(reference(f"one_f_one_b.{KNOWN[name].order}"), p, m)

    asked = [
        _shuffled(made("gpipe", 5, 4), draw),
        made("one_f_one_b", draw.randrange(9, 14), draw.randrange(3, 20)),
        _shuffled(made("gpipe", draw.randrange(6, 12), draw.randrange(3, 9)), draw),
        made("one_f_one_b", 2, 1),
    ]
    return judge_messages.judge_on_orders(function, asked, seed)


def _batches(draw: torch.Generator) -> dict[str, judge_loss.Batch]:
    """Sequences of any length, tokens that count anywhere in them."""
    found = {}
    for m, rows, length in ((7, 1, 13), (2, 5, 3), (6, 2, 1)):
        losses = 10 * torch.rand(m, rows, length, generator=draw, dtype=torch.float64)
        valid = (torch.rand(m, rows, length, generator=draw) < 0.6).double()
        valid[0, 0, 0] = 1
        found[f"{m} of {rows} x {length}"] = losses, valid
    losses, valid = found["7 of 1 x 13"]
    found["fp32"] = losses.float(), valid.float()
    return found


def _loss(function: Callable | Source, seed: int) -> list[Verdict]:
    batches = _batches(torch.Generator().manual_seed(seed))
    return judge_loss.judge_on_batches(function, batches, 3, 5, seed)


CASES: dict[str, list[Hidden]] = {
    "gpipe_order": [_order("gpipe")],
    "with_messages": [Hidden("other orders", _messages)],
    "micro_batch_loss": [Hidden("other batches", _loss)],
    "one_f_one_b_order": [_order("one_f_one_b")],
    "interleaved_order": [_order("interleaved")],
    "zero_bubble_order": [_order("zero_bubble")],
}
