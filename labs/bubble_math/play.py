"""The explorer of notebooks 02 and 03: sliders over the course's schedules, or one's own."""

from __future__ import annotations

from collections.abc import Callable

from labs.answers import Missing, reference
from labs.pipeline import refuse
from labs.schedules.explore import explore as explore_orders
from labs.schedules.known import KNOWN


def explore(p: int = 4, m: int = 8, **mine: Callable) -> object:
    """A box of widgets: p ranks, m micro-batches to begin with.

    mine: orders of your own by the name of the exercise, in place of the course's. Schedules whose
    order is nowhere are left out. Raises ValueError for another name, labs.answers.Missing where
    there is no order at all.
    """
    names = [known.order for known in KNOWN.values()]
    unknown = [name for name in mine if name not in names]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no order of the course; there are {', '.join(names)}")
    refuse.orders(**mine)
    orders = {}
    for known in KNOWN.values():
        try:
            order = reference(f"one_f_one_b.{known.order}", mine.get(known.order))
        except Missing as one:
            missing = one
            continue
        orders[known.title] = (known, order)
    if not orders:
        raise missing
    return explore_orders(orders, p=p, m=m)
