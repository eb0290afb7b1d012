"""The exercises of notebook 00: what is asked, how it is checked, the hint ladder.

Answers run on real ranks, small tensors and 8 MB; what is judged is where each tensor came from,
that x is left alone, that each rank sends once, and that nothing is touched on its way.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from labs import formulas, ranks
from labs.exercise import FAILED, PASSED, Exercise, Verdict
from labs.judging import broke, judge_formula, not_reached
from labs.ranks.ship import Source
from labs.ranks_and_collectives import faults, trial
from labs.ranks_and_collectives.trial import Case, Seen, Try

VALUES, LEFT_ALONE, TRAFFIC, FLIGHT = "values", "x left alone", "traffic", "messages on their way"
PROPERTIES = (VALUES, LEFT_ALONE, TRAFFIC, FLIGHT)
_LARGE = Try((1024, 1024), torch.float64)  # 8 MiB: more than any socket's buffer
RING_WORLDS = (1, 2, 3, 4)


def cases(name: str, seed: int) -> list[Case]:
    """The launches of one check."""
    small = {1: Try((3,), torch.float32), 2: Try((8,), torch.float64),
             3: Try((2, 3), torch.int64), 4: Try((5, 1, 2), torch.float32)}  # fmt: skip
    if name == "exchange":  # on four ranks partners are both even or both odd
        return [
            Case(2, (small[2], _LARGE), seed, (1, 0), (1, 0)),
            Case(4, (small[4], _LARGE), seed, (2, 3, 0, 1), (2, 3, 0, 1)),
        ]
    return [
        Case(t, (small[t], _LARGE), seed, tuple((rank - 1) % t for rank in range(t)))
        for t in RING_WORLDS
    ]


def judge_on_ranks(name: str) -> Callable[[Callable | Source, int], list[Verdict]]:
    """A judge that runs the answer on each case; of each property the first failure is shown."""

    def judge(function: Callable | Source, seed: int) -> list[Verdict]:
        told: dict[str, Verdict] = {}
        for case in cases(name, seed):
            try:
                seen = trial.run(function, case)
            except ranks.RunFailed as failed:
                plural = "rank" if case.ranks == 1 else "ranks"
                hint, where = faults.of_failure(failed), f"{case.ranks} {plural}"
                return broke(PROPERTIES, failed, hint, where)
            except ValueError as refused:  # it cannot be sent to a rank
                return not_reached(PROPERTIES, Verdict(VALUES, FAILED, str(refused)))
            for look in (_values, _left_alone, _traffic, _flight):
                verdict = look(seen)
                if verdict.name not in told or told[verdict.name].state == PASSED:
                    told[verdict.name] = verdict
        return list(told.values())

    return judge


def _values(seen: Seen) -> Verdict:
    for number, told in enumerate(seen.told):
        for rank, one in enumerate(told):
            where = f"{seen.case.label(number)}\nrank {rank}: "
            if one.odd:
                hint = "make the buffer with torch.empty_like(x)"
                return Verdict(VALUES, FAILED, where + one.odd, hint, seen.output)
            want = seen.wanted[number][rank]
            wrong = (one.out != want).flatten().nonzero().flatten()
            if len(wrong):
                at = int(wrong[0])
                text = (
                    f"{where}{len(wrong):,} of {want.numel():,} numbers are wrong; the first: got "
                    f"{one.out.flatten()[at].item():.8g}, expected {want.flatten()[at].item():.8g}"
                )
                hint = faults.of_values(seen, number, rank)
                return Verdict(VALUES, FAILED, text, hint, seen.output)
    return Verdict(VALUES, PASSED, "every tensor came from where it should", output=seen.output)


def _left_alone(seen: Seen) -> Verdict:
    for number, told in enumerate(seen.told):
        for rank, one in enumerate(told):
            where = f"{seen.case.label(number)}\nrank {rank}: "
            if one.changed:
                hint = "x belongs to the caller: receive into a tensor of your own"
                return Verdict(LEFT_ALONE, FAILED, where + "x was changed", hint, seen.output)
            if one.shares:
                hint = "return a new tensor; x and what comes back must not share memory"
                return Verdict(LEFT_ALONE, FAILED, where + "what came back is x", hint, seen.output)
    return Verdict(LEFT_ALONE, PASSED, output=seen.output)


def _traffic(seen: Seen) -> Verdict:
    for number, one in enumerate(seen.case.tries):
        expected = [(op, 1, one.payload) for op in ("recv", "send")] if seen.case.sends else []
        for rank in range(seen.case.ranks):
            calls = sorted(seen.calls(number, rank))
            if calls != expected:
                told = (
                    f"{seen.case.label(number)}\nrank {rank} made {_told(calls)}\n"
                    f"expected {_told(expected)}"
                )
                hint = faults.of_traffic(calls, one.payload)
                return Verdict(TRAFFIC, FAILED, told, hint, seen.output)
    last = seen.case.tries[-1].payload
    told = f"one send a rank, of {last:,} bytes" if seen.case.sends else "nothing sent"
    return Verdict(TRAFFIC, PASSED, told, output=seen.output)


def _told(calls: list[tuple[str, int, int]]) -> str:
    return "; ".join(f"{n} × {op}, {size:,} bytes" for op, n, size in calls) or "no call"


def _flight(seen: Seen) -> Verdict:
    for number, told in enumerate(seen.told):
        for rank, one in enumerate(told):
            if one.faults:
                text = f"{seen.case.label(number)}\nrank {rank}: {'; '.join(one.faults)}"
                return Verdict(FLIGHT, FAILED, text, faults.of_flight(one.faults), seen.output)
    return Verdict(FLIGHT, PASSED, "nothing touched before its wait", output=seen.output)


def _judge_seconds(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    sizes = [(4096, 1), (0, 4), (4096, 2), (960, 3), (draw.randrange(1, 10**6) * 8, 4), (10, 3)]
    asked = [(*size, draw.uniform(1e-6, 1e-4), draw.uniform(1e-10, 1e-9)) for size in sizes]

    def told(payload: float, size: int, alpha: float, beta: float, got: float, want: float) -> str:
        return (
            f"payload {payload:,} bytes, {size} ranks, α = {alpha:.3g} s, β = {beta:.3g} s a "
            f"byte: got {got:.6g} s, expected {want:.6g} s"
        )

    return judge_formula(
        function, asked, formulas.ring_all_reduce_seconds, told, _of_formula, smallest=1e-9
    )


def _of_formula(point: tuple[float, int, float, float], value: float) -> str:
    """What a wrong formula forgets."""
    payload, t, alpha, beta = point
    steps = 2 * (t - 1)
    slips = (
        (steps * (alpha + payload * beta), "in each step one t-th of the tensor is sent, not all"),
        (alpha + steps / t * payload * beta, "every step costs α, and there are 2(t-1) of them"),
        (steps * alpha + payload * beta, "a rank sends 2(t-1)/t of the payload, not all of it"),
        (steps / 2 * (alpha + payload / t * beta), "twice round the ring: a reduce-scatter, then "
         "an all-gather"),
        (steps * t * (alpha + payload / t * beta), "all ranks send at the same time"),
    )  # fmt: skip
    near = (hint for slip, hint in slips if abs(value - slip) <= 1e-9 * max(slip, 1e-9))
    return next(near, "")


_ALL = (
    Exercise(
        "all_reduce_seconds", "ranks_and_collectives", "practice",
        "Say how long a ring all-reduce takes, from α and β.", 1, 5,
        ("A ring all-reduce has 2(t-1) steps; in each a rank sends one t-th of the tensor.",
         "One step is one message: α, and β for each of its bytes. All ranks send at the same "
         "time."),
        (VALUES,), _judge_seconds,
    ),
    Exercise(
        "exchange", "ranks_and_collectives", "graded",
        "Two ranks swap tensors, without a deadlock.", 2, 5,
        ("Neither rank may wait for its send before the other has posted its receive.",
         "isend and irecv return at once, with a handle; the message is done when handle.wait() "
         "returns. (dist.batch_isend_irecv posts a list of both, which NCCL needs too.)",
         "Receive into a new tensor like x. Post the send and the receive, then wait for both."),
        PROPERTIES, judge_on_ranks("exchange"),
    ),
    Exercise(
        "ring_shift", "ranks_and_collectives", "graded",
        "Every rank gets its left neighbour's tensor.", 2, 10,
        ("The right neighbour is (rank + 1) % ranks. You send to one, and receive from the other.",
         "All do the same at the same time: what did exchange need for that?",
         "One rank is its own neighbour, and a rank cannot send to itself."),
        PROPERTIES, judge_on_ranks("ring_shift"),
    ),
)  # fmt: skip
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
