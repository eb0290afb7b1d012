"""What is wrong with a schedule, before anything runs: each finding one sentence.

Three things can be wrong: what is computed (a micro-batch missing, or twice), the order (a backward
pass before its forward pass; ranks that wait for each other), and a picture that claims more than
can be (something starts before what it needs has ended).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from labs.ranks.doctor import programs as on_paper
from labs.ranks.doctor.diagnosis import Diagnosis
from labs.schedules.instructions import (
    BACKWARD,
    BACKWARD_INPUT,
    BACKWARD_WEIGHT,
    COMPUTE,
    FORWARD,
    MESSAGES,
    RECEIVE_BACKWARD,
    RECEIVE_FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    Instruction,
    Schedule,
    as_instruction,
)
from labs.schedules.simulate import CannotGoOn, simulate
from labs.schedules.timeline import Timeline

_SENDS = (SEND_FORWARD, SEND_BACKWARD)


def lint(schedule: Schedule) -> list[str]:
    """All that is wrong with the orders, the first of each kind on each rank; empty: nothing."""
    found = [
        sentence
        for rank, order in enumerate(schedule.orders)
        for sentence in _of_rank(schedule, rank, order)
    ]
    if found:
        return found
    try:
        simulate(schedule)
    except CannotGoOn as stop:
        return [str(stop)]
    return []


def _of_rank(schedule: Schedule, rank: int, order: Sequence[Instruction]) -> list[str]:
    m, v = schedule.micro_batches, schedule.chunks
    for n, at in enumerate(order):
        where = f"rank {rank}, step {n + 1} ({at})"
        if at.kind not in COMPUTE:
            return [f"{where}: {at.kind!r} is none of {', '.join(COMPUTE)}"]
        if not 0 <= at.micro_batch < m:
            return [f"{where}: there are micro-batches 0 to {m - 1}"]
        if not 0 <= at.chunk < v:
            return [f"{where}: there are chunks 0 to {v - 1}"]
    done = Counter(order)
    kinds = [FORWARD]
    if schedule.has_backward:
        kinds += [BACKWARD_INPUT, BACKWARD_WEIGHT] if schedule.splits_backward else [BACKWARD]
    found = []
    for kind in COMPUTE:
        wanted = 1 if kind in kinds else 0
        wrong = [
            (done[Instruction(kind, i, c)], i, c) for c in range(v) for i in range(m)
            if done[Instruction(kind, i, c)] != wanted
        ]  # fmt: skip
        if wrong:
            times, i, c = wrong[0]
            chunk = f" of chunk {c}" if v > 1 else ""
            more = f", and {len(wrong) - 1} more are wrong" if len(wrong) > 1 else ""
            found.append(
                f"rank {rank}: {kind} of micro-batch {i}{chunk} is done {times} times, not "
                f"{wanted}{more}"
            )
    return found or _too_early(rank, order)


def _too_early(rank: int, order: Sequence[Instruction]) -> list[str]:
    place = {at: n for n, at in enumerate(order)}
    before = {BACKWARD: FORWARD, BACKWARD_INPUT: FORWARD, BACKWARD_WEIGHT: BACKWARD_INPUT}
    for at, n in place.items():
        needed = before.get(at.kind) and at._replace(kind=before[at.kind])
        if needed and place[needed] > n:
            return [f"rank {rank}: {at} is step {n + 1}, before {needed}, which it needs"]
    return []


def violations(timeline: Timeline, message: float = 0.0, slack: float = 1e-9) -> list[str]:
    """Where a timeline claims what cannot be: a start before the end of what it needs, or overlap.

    message: time between the end of a stage and the start of its neighbour on another rank.
    """
    schedule = timeline.schedule
    end = {
        (schedule.stage(s.rank, s.instruction.chunk), *s.instruction[:2]): s.end
        for s in timeline.spans()
    }
    found = []
    for span in timeline.spans():
        stage = schedule.stage(span.rank, span.instruction.chunk)
        for key in _needs(schedule, stage, span.instruction):
            far = schedule.home(key[0])[0] != span.rank
            ready = end.get(key)
            if ready is None:
                found.append(f"rank {span.rank}: {span.instruction} needs {_name(key)}, never done")
            elif span.start + slack < ready + (message if far else 0.0):
                found.append(
                    f"rank {span.rank}: {span.instruction} starts at {span.start:g}, but "
                    f"{_name(key)} ends at {ready:g}" + (f" + {message:g}" * (far and message > 0))
                )
    for rank in range(schedule.ranks):
        spans = sorted(zip(timeline.starts[rank], timeline.ends[rank], strict=True))
        for (_, before), (start, _) in zip(spans, spans[1:], strict=False):
            if start + slack < before:
                found.append(f"rank {rank}: two things at once at {start:g}")
                break
    return found


def _name(key: tuple[int, str, int]) -> str:
    return f"{key[1]}{key[2]} of stage {key[0]}"


def _needs(schedule: Schedule, stage: int, at: Instruction) -> list[tuple[int, str, int]]:
    """(stage, kind, micro-batch) of what must have ended before."""
    i = at.micro_batch
    gradient = BACKWARD_INPUT if schedule.splits_backward else BACKWARD
    if at.kind == FORWARD:
        return [(stage - 1, FORWARD, i)] if stage else []
    if at.kind == BACKWARD_WEIGHT:
        return [(stage, BACKWARD_INPUT, i)]
    after = [(stage + 1, gradient, i)] if stage < schedule.stages - 1 else []
    return [(stage, FORWARD, i), *after]


def lint_messages(
    schedule: Schedule, programs: Sequence[Sequence[Instruction]] | None = None,
    blocking: bool = False,
) -> Diagnosis | None:  # fmt: skip
    """The deadlock of the ranks' programs, messages and all; None when they come to their end.

    programs: what each rank does with its sends and receives (None: the schedule's own).
    blocking: whether a send ends only when its receiver takes the message, as a plain dist.send
    does; else it is an isend.

    Raises ValueError for another number of programs, or an instruction of no kind.
    """
    if programs is None:
        programs = [schedule.program(rank) for rank in range(schedule.ranks)]
    if len(programs) != schedule.ranks:
        raise ValueError(f"{len(programs)} programs for {schedule.ranks} ranks; each has one")
    steps = [
        [_step(schedule, rank, n, as_instruction(at), blocking) for n, at in enumerate(program)]
        for rank, program in enumerate(programs)
    ]
    return on_paper.lint(steps, "program")


def _step(schedule: Schedule, rank: int, n: int, at: Instruction, blocking: bool) -> on_paper.Step:
    if at.kind in COMPUTE:
        return on_paper.compute(str(at))
    if at.kind not in MESSAGES:
        known = ", ".join((*COMPUTE, *MESSAGES))
        raise ValueError(f"rank {rank}, step {n + 1} ({at}): {at.kind!r} is none of {known}")
    other = schedule.peer(rank, at)
    if other == rank:  # the next chunk is here too: nothing travels
        return on_paper.compute(str(at))
    # One tag for each message, so that a send and its receive are the same one.
    stage = schedule.stage(rank, at.chunk)
    towards = 1 if at.kind in (SEND_FORWARD, RECEIVE_BACKWARD) else -1
    boundary = min(stage, stage + towards)
    back = at.kind in (SEND_BACKWARD, RECEIVE_BACKWARD)
    tag = (boundary * schedule.micro_batches + at.micro_batch) * 2 + back
    if at.kind in (RECEIVE_FORWARD, RECEIVE_BACKWARD):
        step = on_paper.receive(other, tag)
    else:
        step = on_paper.send(other, tag, name="" if blocking else f"send {n}")
    return replace(step, text=str(at))
