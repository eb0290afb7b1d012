"""What is wrong with the ranks' programs, messages and all, each finding one sentence.

An order says what is computed; a program also says what is received before and sent after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from labs.schedules.instructions import (
    BACKWARD,
    BACKWARD_INPUT,
    COMPUTE,
    FORWARD,
    MESSAGES,
    RECEIVE_BACKWARD,
    RECEIVE_FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    Instruction,
    Schedule,
)

Program = Sequence[Instruction]
NAMES = {
    RECEIVE_FORWARD: "receive the activation of", SEND_FORWARD: "send the activation of",
    RECEIVE_BACKWARD: "receive the gradient of", SEND_BACKWARD: "send the gradient of",
}  # fmt: skip
_NEEDS = {FORWARD: RECEIVE_FORWARD, BACKWARD: RECEIVE_BACKWARD, BACKWARD_INPUT: RECEIVE_BACKWARD}
_GIVES = {FORWARD: SEND_FORWARD, BACKWARD: SEND_BACKWARD, BACKWARD_INPUT: SEND_BACKWARD}


def other_computations(schedule: Schedule, programs: Sequence[Program]) -> list[str]:
    """Where a program computes something else than its rank's order, or in another order."""
    found = []
    for rank, program in enumerate(programs):
        computed = [at for at in program if at.kind not in MESSAGES]
        order = list(schedule.orders[rank])
        if computed == order:
            continue
        place = next(
            (n for n, (got, want) in enumerate(zip(computed, order, strict=False)) if got != want),
            min(len(computed), len(order)),
        )
        got = str(computed[place]) if place < len(computed) else "nothing more"
        want = str(order[place]) if place < len(order) else "nothing more"
        found.append(f"rank {rank}: computation {place + 1} is {got}, the order says {want}")
    return found


def wrong_messages(schedule: Schedule, programs: Sequence[Program]) -> list[str]:
    """Messages that are missing, or too many: the first of each rank."""
    found = []
    for rank, program in enumerate(programs):
        done = Counter(at for at in program if at.kind in MESSAGES)
        wanted = Counter(at for at in schedule.program(rank) if at.kind in MESSAGES)
        wrong = next((at for at in [*wanted, *done] if done[at] != wanted[at]), None)
        if wrong is None:
            continue
        told = f"rank {rank}: {wrong} ({NAMES[wrong.kind]} micro-batch {wrong.micro_batch}) is"
        if not wanted[wrong]:
            stage = schedule.stage(rank, wrong.chunk)
            first = wrong.kind in (RECEIVE_FORWARD, SEND_BACKWARD)
            ends = (stage == 0) if first else (stage == schedule.stages - 1)
            side = "before" if first else "after"
            why = f"there is no stage {side} it" if ends else "nobody needs it"
            found.append(f"{told} too many: {why}")
        else:
            found.append(f"{told} there {done[wrong]} times, not once")
    return found


def misplaced(schedule: Schedule, programs: Sequence[Program]) -> list[str]:
    """Receives after what needs them, sends before what makes them: the first of each rank."""
    found = []
    for rank, program in enumerate(programs):
        place = {at: n for n, at in enumerate(program)}
        for at, n in place.items():
            needed = _NEEDS.get(at.kind) and at._replace(kind=_NEEDS[at.kind])
            made = _GIVES.get(at.kind) and at._replace(kind=_GIVES[at.kind])
            if needed and place.get(needed, -1) > n:
                found.append(f"rank {rank}: {at} is step {n + 1}, before {needed}, which it needs")
                break
            if made and place.get(made, len(program)) < n:
                found.append(f"rank {rank}: {made} is sent before {at}, which makes it")
                break
            if made and made in place and _comes_later(program, n, place[made]):
                found.append(f"rank {rank}: {made} is not sent right after {at}, which makes it")
                break
    return found


def _comes_later(program: Program, n: int, sent: int) -> bool:
    """Whether something else than messages of the same pass lies between a pass and its send."""
    return any(at.kind in COMPUTE or at.kind in _NEEDS.values() for at in program[n + 1 : sent])
