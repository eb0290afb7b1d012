"""The exercises of notebook 00: what is asked, how it is checked, the hint ladder.

Answers run on real ranks, small tensors and 8 MB; what is judged is where each tensor came from,
that x is left alone, that each rank sends once, and that nothing is touched on its way.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

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
RING_WORLDS = (2, 3, 4, 1)
"""The odd one last: whoever forgets that one rank has no neighbour sees what is right already."""


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
    """The judge of exchange or of ring_shift."""
    return lambda function, seed: judge_on_cases(function, cases(name, seed))


def judge_on_cases(function: Callable | Source, asked: Sequence[Case]) -> list[Verdict]:
    """Run the answer on each case; of each property the first failure is shown."""
    told: dict[str, Verdict] = {}
    done: list[Case] = []
    for case in asked:
        try:
            seen = trial.run(function, case)
        except ranks.RunFailed as failed:
            hint = faults.of_failure(failed, function, case)
            return _and_so_far(broke(PROPERTIES, failed, hint, _where(case, told, done)), told)
        except ValueError as refused:  # it cannot be sent to a rank
            return not_reached(PROPERTIES, Verdict(VALUES, FAILED, str(refused)))
        for look in (_values, _left_alone, _traffic, _flight):
            verdict = look(seen)
            before = told.get(verdict.name)
            better = verdict.state == FAILED or case.sends  # one rank has less to tell
            if before is None or before.state == PASSED and better:
                told[verdict.name] = verdict
        done.append(case)
    return list(told.values())


def _where(case: Case, told: dict[str, Verdict], done: list[Case]) -> str:
    """The case that broke, and what was right before it."""
    if not done or told[VALUES].state != PASSED:
        return case.world
    worlds = [str(one.ranks) for one in done]
    listed = " and ".join(filter(None, [", ".join(worlds[:-1]), worlds[-1]]))
    return f"{case.world} (the values are right on {listed})"


def _and_so_far(broken: list[Verdict], told: dict[str, Verdict]) -> list[Verdict]:
    """What earlier cases showed stays: a fault of theirs, and each property that held."""
    if VALUES in told and told[VALUES].state == FAILED:
        return list(told.values())
    return [broken[0], *(told.get(one.name, one) for one in broken[1:])]


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
    kept = "nothing written before its wait, every handle waited for"
    return Verdict(FLIGHT, PASSED, kept, _rounds(seen), seen.output)


def _rounds(seen: Seen) -> str:
    """A word on a ring that is right and slow: one rank waits for the next, all the way round."""
    late = [one.received_first for one in seen.told[0]] if seen.case.peers is None else []
    longest = run = 0
    for received_first in late + late:  # it is a ring
        run = run + 1 if received_first else 0
        longest = max(longest, run)
    if longest < 2:
        return ""
    return (
        f"right, but on {seen.case.world} the messages go one after the other, in {longest + 1} "
        "rounds; posting does it in one"
    )


def _judge_ring_or_tree(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    worlds = (4, 64, 8, 6, draw.randrange(9, 64), 3, 2)
    asked = [(t, draw.uniform(1e-6, 1e-4), draw.uniform(1e-10, 1e-9)) for t in worlds]

    def inputs(t: int, alpha: float, beta: float) -> str:
        return f"{t} ranks, α = {alpha:.3g} s, β = {beta:.3g} s a byte"

    return judge_formula(function, asked, formulas.ring_pays_from, inputs, "bytes", hint=_of_ring)


def _of_ring(point: tuple[int, float, float], value: float) -> str:
    """What a wrong answer forgets."""
    t, alpha, beta = point
    ring, tree = 2 * (t - 1), 2 * (t - 1).bit_length()

    def equal(ring_steps: float, tree_steps: float, share: float = 1 / t) -> float:
        return (ring_steps - tree_steps) * alpha / ((tree_steps - ring_steps * share) * beta)

    slips = [
        (-equal(ring, tree), "the sign: the ring has more steps, the tree more bytes"),
        (equal(ring, tree) * (beta / alpha) ** 2, "bytes are seconds divided by β"),
        (equal(ring, tree / 2), "a tree goes twice too: up with the sums, down with the result"),
        (equal(ring / 2, tree), "a ring goes twice round: a reduce-scatter, then an all-gather"),
        (equal(ring, 2 * math.log2(t)), "⌈ ⌉ means rounded up: a tree has whole steps"),
        (alpha / beta, "at α/β bytes one message is as much start as bytes; the question is of two "
         "whole collectives: set their times equal"),
    ]  # fmt: skip
    if ring != tree:
        slips.append((equal(ring, tree, 1), "in each step a ring sends one t-th of the tensor"))
    near = (hint for slip, hint in slips if abs(value - slip) <= 1e-9 * abs(slip))
    return next(near, "")


_ALL = (
    Exercise(
        "ring_pays_from", "ranks_and_collectives", "practice",
        "Say from which size on a ring all-reduce beats a tree.", 2, 5,
        ("Write down both times: steps · (α + β · bytes of each step), n/t bytes on the "
         "ring and n in the tree.",
         "Set them equal and bring n to one side: the ring's further steps cost α each, the tree's "
         "further bytes β each."),
        (VALUES,), _judge_ring_or_tree,
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
