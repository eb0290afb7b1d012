"""Asks an order what each rank does: the course's at once, a learner's in a process of its own.

A learner's generator may never end, or raise; there it has a limit, and its own line is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from labs import ranks
from labs.answers import is_own
from labs.ranks.ship import Source
from labs.schedules.instructions import Order, Schedule, as_instruction, steps
from labs.schedules.known import Known
from labs.schedules.lint import lint
from labs.staying import must_return

LIMIT = 20.0
"""Seconds for all that is asked of one order."""
_MORE = 8  # instructions beyond the legal number that are still read, to be told of
Asked = tuple[int, int, int]  # ranks, micro-batches, chunks


def schedules(known: Known, order: Order | Source, asked: Sequence[Asked]) -> list[Schedule]:
    """The schedule of `order` for each (ranks, micro-batches, chunks).

    Raises ranks.RunFailed when a learner's order raises or does not end, ValueError for what is no
    order.
    """
    if not isinstance(order, Source) and not is_own(order):
        return [known.make(order, *one) for one in asked]
    run = ranks.launch(_listed, 1, args=(order, list(asked), known.looped), limit=LIMIT,
                       status=False)  # fmt: skip
    found = []
    for one, orders in zip(asked, run.values[0], strict=True):
        found.append(known.make(lambda rank, *_, orders=orders: orders[rank], *one))
    return found


def legal(found: Sequence[Schedule]) -> list[Schedule]:
    """The schedules, none of which breaks a rule. Raises ValueError, in the linter's words."""
    for one in found:
        wrong = lint(one)
        if wrong:
            sizes = f"{one.ranks} ranks, {one.micro_batches} micro-batches"
            raise ValueError(f"{one.name} on {sizes} cannot run: {wrong[0]}")
    return list(found)


def _listed(order: Callable, asked: Sequence[Asked], looped: bool) -> list[list[list[tuple]]]:
    """On a rank: by what was asked and by rank, the instructions as plain tuples."""
    found = []
    for p, m, v in asked:
        more = (v,) if looped else ()  # as Known.make
        orders: list[list[tuple]] = [[] for _ in range(p)]
        # Each rank of a pipeline asks for its own order only: one that counts the calls is wrong.
        for rank in reversed(range(p)):
            with must_return():
                given = islice(steps(order(rank, p, m, *more)), 3 * m * v + _MORE)
                orders[rank] = [tuple(as_instruction(at)) for at in given]
        found.append(orders)
    return found
