"""The check of `with_messages`: the programs on paper, then real ranks that follow them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from labs import ranks
from labs.answers import Missing, reference
from labs.exercise import FAILED, NOT_REACHED, PASSED, Verdict
from labs.judging import broke, not_reached
from labs.pipeline.jobs import Job, plain_loss
from labs.pipeline.on_rank import on_rank
from labs.pipeline.parity import held
from labs.ranks.ship import Source
from labs.schedules.instructions import MESSAGES, Instruction, Schedule, as_instruction
from labs.schedules.known import KNOWN
from labs.schedules.lint import lint_messages
from labs.schedules.lint_programs import misplaced, other_computations, wrong_messages
from labs.staying import must_return

AS_ORDERED, PAIRED, PLACED, GRADIENTS = "order kept", "messages", "place", "gradients"
PROPERTIES = (AS_ORDERED, PAIRED, PLACED, GRADIENTS)
CASES = (
    ("one_f_one_b", 3, 4), ("gpipe", 2, 3), ("one_f_one_b", 1, 2), ("one_f_one_b", 4, 2),
    ("one_f_one_b", 3, 1),
)  # fmt: skip
_LIMIT = 20.0
_HINTS = {
    AS_ORDERED: "hand every instruction of the order on, as it comes, between its messages",
    PAIRED: "what does a rank in the middle receive and send, with F and with B? And what of it "
    "does the first rank not do, what the last?",
    PLACED: "receive before what needs it, send right after what made it",
}


def programs_on_rank(
    function: Callable, asked: Sequence[tuple[Sequence[Sequence[Instruction]], int]]
) -> list[list[list[tuple]]]:
    """On a rank: by case and rank, the program that the function makes of the rank's order."""
    found = []
    for orders, p in asked:
        made = []
        for rank, order in enumerate(orders):
            ranks.keep("at", (p, rank))
            most = 4 * len(order) + 8
            with must_return():
                told = function([Instruction(*at) for at in order], rank, p)
                if told is None or not hasattr(told, "__iter__"):
                    raise TypeError(f"it gave {told!r}, not one instruction after the other")
                made.append([tuple(as_instruction(at)) for at in islice(told, most)])
        found.append(made)
    return found


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """The learner's function runs in a process of its own."""
    try:
        made = _orders(seed)
    except Missing as missing:
        return not_reached(PROPERTIES, Verdict(AS_ORDERED, NOT_REACHED, str(missing)))
    return judge_on_orders(function, made, seed)


def judge_on_orders(
    function: Callable | Source, made: Sequence[Schedule], seed: int
) -> list[Verdict]:
    """The same for these schedules, of which the first is run."""
    asked = [([[tuple(at) for at in order] for order in one.orders], one.ranks) for one in made]
    try:
        run = ranks.launch(
            programs_on_rank, 1, args=(function, asked), limit=_LIMIT, status=False
        )  # fmt: skip
    except ranks.RunFailed as failed:
        return broke(PROPERTIES, failed)
    except ValueError as refused:
        return not_reached(PROPERTIES, Verdict(AS_ORDERED, FAILED, str(refused)))
    found = [
        (one, tuple(tuple(Instruction(*at) for at in program) for program in programs))
        for one, programs in zip(made, run.values[0], strict=True)
    ]
    on_paper = [
        _first(AS_ORDERED, found, other_computations),
        _first(PAIRED, found, wrong_messages),
        _first(PLACED, found, misplaced),
    ]
    if all(verdict.state == PASSED for verdict in on_paper):
        on_paper[-1] = _first(PLACED, found, _stuck)
    if not any(map(_has_messages, found)):
        on_paper[-1] = Verdict(PLACED, NOT_REACHED)  # none is in the wrong place
    if any(verdict.state == FAILED for verdict in on_paper):
        return [*on_paper, Verdict(GRADIENTS, NOT_REACHED)]
    return [*on_paper, _run(*found[0], seed)]


def _orders(seed: int) -> list[Schedule]:
    """What is to get its messages: orders of the course, one that goes back last to first."""
    p = random.Random(seed).randrange(5, 9)
    found = [
        KNOWN[name].make(reference(f"one_f_one_b.{KNOWN[name].order}"), p, m)
        for name, p, m in (*CASES, ("one_f_one_b", p, p + 1), ("gpipe", 3, 4))
    ]
    last = found[-1]
    turned = tuple((*order[:4], *reversed(order[4:])) for order in last.orders)
    found[-1] = replace(last, name="GPipe, back from last to first", orders=turned)
    return found


def _has_messages(of_case: tuple[Schedule, tuple]) -> bool:
    return any(at.kind in MESSAGES for program in of_case[1] for at in program)


def _stuck(one: Schedule, programs: Sequence[Sequence[Instruction]]) -> list[str]:
    """Ranks that wait for each other although every send is posted."""
    stuck = lint_messages(one, programs)
    return [stuck.told] if stuck else []


def _first(name: str, found: Sequence[tuple[Schedule, tuple]], look: Callable) -> Verdict:
    for one, programs in found:
        wrong = look(one, programs)
        if wrong:
            where = f"{one.name}, {one.ranks} ranks, {one.micro_batches} micro-batches"
            return Verdict(name, FAILED, f"{where}: {wrong[0]}", _HINTS[name])
    return Verdict(name, PASSED)


def _run(one: Schedule, programs: tuple, seed: int) -> Verdict:
    job = Job("your programs", one, seed=seed % 1000, gradients=True, programs=programs)
    try:
        run = ranks.launch(on_rank, one.ranks, args=([job], plain_loss), limit=_LIMIT, status=False)
    except ranks.RunFailed as failed:
        return broke((GRADIENTS,), failed)[0]
    told = [value[0] for value in run.values]
    checks = held(one.name, job, [t["gradients"] for t in told], told[-1]["steps"][0]["loss"])
    wrong = [check for check in checks if not check.ok]
    if wrong:
        return Verdict(GRADIENTS, FAILED, str(wrong[0]))
    sent = run.ledger.count(op="send")
    return Verdict(GRADIENTS, PASSED, f"on {one.ranks} ranks those of one device; {sent} messages")
