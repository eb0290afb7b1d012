"""The check of an order: its rules, time, what it stores, and then real ranks that follow it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from labs import formulas, ranks
from labs.answers import Missing, reference
from labs.exercise import FAILED, PASSED, Verdict
from labs.figure import Picture
from labs.judging import broke, not_reached
from labs.one_f_one_b import hints
from labs.pipeline.jobs import Job, plain_loss
from labs.pipeline.on_rank import on_rank
from labs.pipeline.orders import Asked, schedules
from labs.pipeline.parity import held
from labs.ranks.ship import Source
from labs.result import Check
from labs.schedules import draw
from labs.schedules.instructions import Schedule
from labs.schedules.known import KNOWN, Known
from labs.schedules.lint import lint
from labs.schedules.simulate import Times, simulate

RULES, STORED, TIME, JOURNAL, TRAFFIC, GRADIENTS = (
    "rules", "stored", "time", "order on ranks", "messages", "gradients",
)  # fmt: skip
PROPERTIES = (RULES, STORED, TIME, JOURNAL, TRAFFIC, GRADIENTS)
_LIMIT = 30.0
_TIMES = Times(forward=1, backward=2)
_EVEN = Times(forward=1, backward=1)
CASES: dict[str, tuple[Asked, ...]] = {
    "gpipe": ((4, 8, 1), (3, 4, 1), (4, 2, 1), (2, 1, 1), (1, 3, 1), (8, 32, 1)),
    "one_f_one_b": ((4, 8, 1), (3, 4, 1), (4, 2, 1), (2, 1, 1), (1, 3, 1), (8, 32, 1)),
    "interleaved": ((2, 4, 2), (4, 8, 2), (3, 6, 3), (4, 4, 2), (1, 2, 2), (8, 16, 4), (3, 6, 1)),
    "zero_bubble": ((4, 8, 1), (3, 5, 1), (4, 2, 1), (2, 2, 1), (2, 1, 1), (1, 3, 1), (8, 16, 1)),
}
"""(ranks, micro-batches, chunks) that an order is asked for; the first two are run."""


def _cases(name: str, seed: int) -> list[Asked]:
    """The fixed ones, and some that nobody can have written an answer for."""
    draw = random.Random(seed)
    p, q = draw.randrange(5, 8), draw.randrange(5, 12)
    if name == "interleaved":
        drawn = [(p, p * draw.randrange(2, 4), draw.randrange(5, 7)), (q, q, draw.randrange(2, 4)),
                 (p, 2 * p, 1)]  # fmt: skip
    else:
        drawn = [*((p, m, 1) for m in range(1, p + 2)), (q, draw.randrange(33, 65), 1)]
    return [*CASES[name], *drawn]


def judge_order(name: str) -> Callable[[Callable | Source, int], list[Verdict]]:
    """The judge of the exercise that writes the schedule of that name."""
    return lambda function, seed: judge_on_sizes(name, function, _cases(name, seed), 2, seed)


def judge_on_sizes(
    name: str, function: Callable | Source, asked: Sequence[Asked], run: int, seed: int
) -> list[Verdict]:
    """The verdicts on an order for these (ranks, micro-batches, chunks).

    run: how many of them, the first ones, are run on real ranks.
    """
    known = KNOWN[name]
    try:
        made = schedules(known, function, asked)
    except ranks.RunFailed as failed:
        return broke(PROPERTIES, failed, hints.of_failure(failed))
    except ValueError as refused:
        return not_reached(PROPERTIES, Verdict(RULES, FAILED, str(refused)))
    rules = _rules(name, made)
    if rules.state == FAILED:
        return not_reached(PROPERTIES, rules)
    on_paper = [rules, _stored(name, known, made), _time(name, known, made)]
    return [*on_paper, *_run(made[:run], known, seed)]


def _sizes(one: Schedule) -> str:
    chunks = f", {one.chunks} chunks" if one.chunks > 1 else ""
    ranks_ = "rank" if one.ranks == 1 else "ranks"
    return f"{one.ranks} {ranks_}, {one.micro_batches} micro-batches{chunks}"


def _rules(name: str, made: Sequence[Schedule]) -> Verdict:
    for one in made:
        wrong = lint(one)
        if wrong:
            hint = hints.of_rules(name, one, wrong[0])
            return Verdict(RULES, FAILED, f"{_sizes(one)}: {wrong[0]}", hint)
    return Verdict(RULES, PASSED, "all passes once, none before what it needs, nobody stuck")


def _stored(name: str, known: Known, made: Sequence[Schedule]) -> Verdict:
    for one in made:
        p, m, v = one.ranks, one.micro_batches, one.chunks
        done = simulate(one, _TIMES)
        got = [done.peak_stored(rank) for rank in range(p)]
        wanted = [known.stored(p, rank, m, v) for rank in range(p)]
        if got != wanted:
            rank = next(r for r in range(p) if got[r] != wanted[r])
            text = (
                f"{_sizes(one)}: at most stored by rank: {_listed(got)}\nexpected {_listed(wanted)}"
            )
            hint = hints.of_stored(name, one, rank, got, wanted)
            return Verdict(STORED, FAILED, text, hint, picture=_drawn(one))
    p, m, v = made[0].ranks, made[0].micro_batches, made[0].chunks
    most = _listed([known.stored(p, rank, m, v) for rank in range(p)])
    return Verdict(STORED, PASSED, f"{_sizes(made[0])}: at most {most} on ranks 0 to {p - 1}")


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _time(name: str, known: Known, made: Sequence[Schedule]) -> Verdict:
    for one in filter(lambda one: _applies(name, one), made):
        for times in (_TIMES, _EVEN):
            got, wanted = simulate(one, times).makespan, known.seconds(one, times)
            if abs(got - wanted) > 1e-9:
                shown = f"f = {times.forward:g}, b = {times.backward:g}"
                text = f"{_sizes(one)}, {shown}: takes {got:g} slots, expected {wanted:g}"
                hint = hints.of_time(name, got - wanted)
                return Verdict(TIME, FAILED, text, hint, picture=_drawn(one, times))
    one = made[0]
    slots = f"{simulate(one, _TIMES).makespan:g} slots"
    beside = _beside(name, known, one)
    return Verdict(TIME, PASSED, f"{_sizes(one)}, f = 1, b = 2: {slots}{beside}")


def _applies(name: str, one: Schedule) -> bool:
    """Whether the formula holds for that few micro-batches."""
    return name != "zero_bubble" or one.micro_batches >= one.ranks


def _beside(name: str, known: Known, mine: Schedule) -> str:
    """Whether it is the course's order to the letter, or another one of the same worth."""
    try:
        order = reference(f"one_f_one_b.{known.order}")
    except Missing:
        return ""
    best = known.make(order, mine.ranks, mine.micro_batches, mine.chunks)
    return "" if best.orders == mine.orders else "; not the course's order, and as good"


def _drawn(one: Schedule, times: Times = _TIMES) -> Picture:
    return draw.gantt(simulate(one, times), [f"your order, {_sizes(one)}"])


def _run(made: Sequence[Schedule], known: Known, seed: int) -> list[Verdict]:
    """Two of the schedules on real ranks."""
    jobs = [Job(f"order {n}", one, seed=seed % 1000, gradients=True, rows=2)
            for n, one in enumerate(made)]  # fmt: skip
    world = max(one.ranks for one in made)
    try:
        run = ranks.launch(on_rank, world, args=(jobs, plain_loss), limit=_LIMIT, status=False)
    except ranks.RunFailed as failed:
        return broke((JOURNAL, TRAFFIC, GRADIENTS), failed)
    found = []
    for number, job in enumerate(jobs):
        told = [value[number] for value in run.values[: job.schedule.ranks]]
        found.append(_of_run(job, told, run.ledger.count(section=job.name, op="send")))
    return [next((v for v in of if v.state == FAILED), of[0]) for of in zip(*found, strict=True)]


def _of_run(job: Job, told: list[dict], sent: int) -> list[Verdict]:
    """The verdicts on one job."""
    one, where = job.schedule, _sizes(job.schedule)
    done = [[tuple(at) for at in rank["steps"][0]["done"]] for rank in told]
    followed = done == [[tuple(at) for at in order] for order in one.orders]
    wanted = formulas.pipeline_sends(one.ranks, one.micro_batches, one.chunks)
    checks = held(where, job, [rank["gradients"] for rank in told],
                         told[-1]["steps"][0]["loss"])  # fmt: skip
    return [
        Verdict(JOURNAL, PASSED if followed else FAILED, where),
        Verdict(TRAFFIC, PASSED if sent == wanted else FAILED,
                f"{where}: {sent} messages, expected {wanted}"),
        _of_gradients(checks),
    ]  # fmt: skip


def _of_gradients(checks: Sequence[Check]) -> Verdict:
    wrong = [check for check in checks if not check.ok]
    if wrong:
        return Verdict(GRADIENTS, FAILED, str(wrong[0]))
    return Verdict(GRADIENTS, PASSED, "of every stage those of one device")
