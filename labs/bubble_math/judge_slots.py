"""The check of `fill_and_drain`: the slots as they were written down, then run on real ranks."""

from __future__ import annotations

import random
from collections.abc import Callable

from labs import formulas, ranks
from labs.bubble_math import slots
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import broke, not_reached
from labs.pipeline.jobs import Job, plain_loss
from labs.pipeline.on_rank import on_rank
from labs.ranks.ship import Source
from labs.staying import must_return

ONCE, ORDER, TIGHT, RUN = "each micro-batch once", "order", "no slot too many", "run on ranks"
PROPERTIES = (ONCE, ORDER, TIGHT, RUN)
CASES = ((4, 4), (3, 5), (2, 1), (1, 3), (4, 2), (5, 9))
ON_RANKS = (3, 5)
"""(ranks, micro-batches) of the slots that are run."""
_LIMIT = 20.0


def sizes(seed: int) -> list[tuple[int, int]]:
    """(ranks, micro-batches): fixed ones, and some that nobody can have written an answer for."""
    draw = random.Random(seed)
    p = draw.randrange(6, 9)
    return [*CASES, *((p, m) for m in range(1, p)), (draw.randrange(9, 12), draw.randrange(12, 25))]


def grids(function: Callable, cases: list[tuple[int, int]]) -> list[slots.Grid | str]:
    """On a rank: what the function gives for each case; a sentence for what is no grid."""
    found: list[slots.Grid | str] = []
    for case in cases:
        ranks.keep("done", len(found))
        with must_return():
            grid = function(*case)
        found.append(slots.odd(grid, case[0]) or slots.plain(grid))
    return found


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """The learner's function runs in a process of its own."""
    return judge_on_sizes(function, sizes(seed), ON_RANKS)


def judge_on_sizes(
    function: Callable | Source, cases: list[tuple[int, int]], on_ranks: tuple[int, int]
) -> list[Verdict]:
    """The same for these (ranks, micro-batches); on_ranks: those of them that are run."""
    try:
        run = ranks.launch(grids, 1, args=(function, cases), limit=_LIMIT, status=False)
    except ranks.RunFailed as failed:
        done = failed.run.kept[0].get("done", 0) if failed.run.kept else 0
        return broke(PROPERTIES, failed, where=_told(*cases[min(done, len(cases) - 1)]))
    except ValueError as refused:  # it cannot be sent to a rank
        return not_reached(PROPERTIES, Verdict(ONCE, FAILED, str(refused)))
    found = dict(zip(cases, run.values[0], strict=True))
    for (p, m), grid in found.items():
        wrong = grid if isinstance(grid, str) else slots.odd(grid, p) or slots.missing(grid, m)
        if wrong:
            hint = "every rank works on every micro-batch, each in one slot of its row"
            first = Verdict(ONCE, FAILED, f"{_told(p, m)}: {wrong}", hint, run.output)
            return not_reached(PROPERTIES, first)
    made = [Verdict(ONCE, PASSED, output=run.output), _order(found), _tight(found)]
    if made[1].state == FAILED:
        return [*made, *not_reached((RUN,), Verdict(RUN, FAILED, "not run: the order is wrong"))]
    return [*made, _run(found[on_ranks], *on_ranks)]


def _told(p: int, m: int) -> str:
    return f"{p} {'rank' if p == 1 else 'ranks'}, {m} micro-batches"


def _order(found: dict) -> Verdict:
    for (p, m), grid in found.items():
        wrong = slots.too_early(grid, m)
        if wrong:
            hint = "a micro-batch is on rank s + 1 at the earliest one slot after it was on rank s"
            return Verdict(ORDER, FAILED, f"{_told(p, m)}: {wrong}", hint)
    return Verdict(ORDER, PASSED)


def _tight(found: dict) -> Verdict:
    for (p, m), grid in found.items():
        lengths, wanted = sorted({len(row) for row in grid}), m + p - 1
        if lengths != [wanted]:
            got = " and ".join(map(str, lengths))
            hint = (
                "all rows are as long as the whole takes: a slot in which a rank waits is None"
                if min(lengths) < wanted
                else "nobody need wait longer than until the rank before is done"
            )
            text = f"{_told(p, m)}: rows of {got} slots, expected {wanted} in each"
            return Verdict(TIGHT, FAILED, text, hint)
    return Verdict(TIGHT, PASSED, "m + p - 1 slots in every row")


def _run(grid: slots.Grid, p: int, m: int) -> Verdict:
    """Real ranks do what the slots say."""
    job = Job("your slots", slots.schedule(grid, m))
    try:
        run = ranks.launch(on_rank, p, args=([job], plain_loss), limit=_LIMIT, status=False)
    except ranks.RunFailed as failed:
        return broke((RUN,), failed, where=_told(p, m))[0]
    done = [[at[1] for at in value[0]["steps"][0]["done"]] for value in run.values]
    sends, wanted = run.ledger.count(op="send"), formulas.pipeline_sends(p, m) // 2
    ordered = [[i for i in row if i is not None] for row in grid]
    if done != ordered or sends != wanted:
        text = f"{_told(p, m)}: ranks did {done}; {sends} messages, expected {wanted}"
        return Verdict(RUN, FAILED, text)
    return Verdict(RUN, PASSED, f"{_told(p, m)}: {sends} messages, in your order")
