"""Hidden cases of notebook 04: five ranks, uneven shapes, memory and the order of events outside.

What a ring's ranks say of themselves (overlap, the largest tensor) is backed by two cases in which
the judge sees it without them: ring_outside.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from labs.context_parallel.places import NEVER, plain
from labs.exercise import FAILED, PASSED, Verdict
from labs.formulas.context import ring_forward_bytes
from labs.grading.hidden import Hidden
from labs.grading.hidden.points import formula
from labs.grading.hidden.ring_outside import judge_large, judge_order
from labs.grading.hidden.shorter import judge_shorter
from labs.ranks.ship import Source
from labs.ring_attention.judging import merge, places, ring, zigzag
from labs.ring_attention.judging.trial import Job, Seen
from labs.ring_attention.judging.trial_jobs import zigzag_places
from labs.sequence_parallel import exercise_case
from labs.sequence_parallel.judge import judge_on_cases

_ALL, _SOME = ((0, 1, 2, 3, 4),), ((0, 2, 4),)


def _jobs(seed: int) -> list[Job]:
    """Five ranks zigzag, three of five, then a causal ring twice: the last block is another one."""
    first = seed * 32
    zigzag, ahead = zigzag_places(5, 30), plain(5, 15)
    return [
        Job("zigzag, five ranks", _ALL, zigzag, zigzag, heads=6, kv_heads=3, width=3, batch=1,
            seed=first),
        Job("causal, three of five", _SOME, plain(3, 21), plain(3, 21), heads=3, kv_heads=1,
            width=5, batch=3, seed=first + 1),
        Job("causal", _ALL, ahead, ahead, heads=2, seed=first + 2),
        Job("causal, another last block", _ALL, ahead, ahead, heads=2, seed=first + 2,
            last=first + 3),
    ]  # fmt: skip


def _ring(name: str) -> Callable[[Callable | Source, int], list[Verdict]]:
    def judge(function: Callable | Source, seed: int) -> list[Verdict]:
        verdicts, seen = ring.seen_on_jobs(name, function, _jobs(seed))
        if seen:
            first = ring.PROPERTIES[name][0]
            state = PASSED if earlier_stay(seen[-2], seen[-1], first) else FAILED
            verdicts.append(Verdict(first, state))
        return verdicts

    return judge


def earlier_stay(before: Seen, after: Seen, name: str) -> bool:
    """Whether earlier ranks' rows have the same bits, and the last rank's do not.

    A causal query sees no later key, so another last block is nothing to it.
    """
    pairs = [
        torch.equal(one[name], other[name])
        for one, other in zip(before.told[0], after.told[0], strict=True)
    ]
    return pairs == [True] * (len(pairs) - 1) + [False]


MOST_GROWN = {"ring_forward": 40 * 2**20, "ring_backward": 46 * 2**20}
"""Bytes by which a rank of 8 may grow over blocks of 4 MiB.

The right ways in tests/grading_ways grow by 26 to 32 MiB and by 30 to 40, a merge that makes many
copies by 37; what keeps every block of the ring by 42 to 49 and by 53, what gathers them by 46.
"""
_INPUTS = {"ring_forward": 16 * 2**20, "ring_backward": 18 * 2**20}
"""What a rank's own block, and what attention gave for it, take at most."""


def _of_ring(name: str) -> list[Hidden]:
    return [
        Hidden("order", lambda function, seed: judge_order(name, function, seed),
               after=ring.OVERLAP),
        Hidden("5 ranks", _ring(name)),
        Hidden("large blocks", lambda function, seed: judge_large(name, function, seed),
               most_grown=MOST_GROWN[name], early=_INPUTS[name]),
    ]  # fmt: skip


def _scatter(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = torch.Generator().manual_seed(seed)
    five = exercise_case.make(5, draw, batch=1, per_rank=2, d=7)
    wire = exercise_case.make(3, draw, per_rank=32, d=128)
    return judge_on_cases(function, [five, wire])


def _merges(function: Callable | Source, seed: int) -> list[Verdict]:
    """Four blocks of many and of single keys, in trees of all kinds; scores of 3e4; fp32."""
    draw = torch.Generator().manual_seed(seed)

    def case(label: str, judged: str, order: object, keys: tuple[int, ...], shift: float = 0.0,
             hidden: int | None = None, **more: object) -> merge.Case:  # fmt: skip
        lead = (1, 5, 1)
        scores = [3 * torch.randn(*lead, 7, n, generator=draw, dtype=torch.float64) + shift
                  for n in keys]  # fmt: skip
        values = [torch.randn(*lead, n, 3, generator=draw, dtype=torch.float64) for n in keys]
        if hidden is not None:
            scores[hidden][..., 2:5, :] = -torch.inf
        return merge.Case(label, judged, scores, values, order, **more)

    asked = [
        case("one key each", merge.VALUES, (0, 1), (1, 1)),
        case("many keys", merge.VALUES, (0, 1), (1, 40)),
        case("fp32", merge.VALUES, (0, 1), (9, 2), dtype=torch.float32),
        case("four", merge.ORDER, ((0, 1), (2, 3)), (1, 2, 3, 9)),
        case("four in a row", merge.ORDER, (3, (2, (0, 1))), (5, 1, 8, 2)),
        case("some rows see nothing of the first", merge.NOTHING, (0, 1), (4, 2), hidden=0),
        case("or of the last", merge.NOTHING, (0, (1, 2)), (4, 2, 1), hidden=2),
        case("3e4", merge.LARGE, (0, 1), (3, 5), 3e4),
        case("-3e4", merge.LARGE, (0, 1), (3, 5), -3e4),
    ]
    return merge.judge_on_cases(function, asked)


def _masks(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    asked = []
    for number in range(12):
        most = draw.choice((12, 1000, 2**40))
        queries = [draw.randrange(-1, most) for _ in range(draw.randrange(1, 9))]
        keys = [draw.choice((draw.randrange(most), NEVER, draw.choice(queries)))
                for _ in range(draw.randrange(1, 9))]  # fmt: skip
        asked.append((f"drawn {number}", queries, [max(0, key) for key in keys]))
    return places.judge_masks(function, asked)


def _zigzag(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    asked = [(c, 2 * c * draw.randrange(1, 40)) for c in draw.sample(range(9, 24), 3)]
    refused = [(c, 2 * c * draw.randrange(1, 9) + draw.randrange(1, 2 * c)) for c in (6, 7, 11)]
    return zigzag.judge_shares(function, [*asked, (1, 2)], [*refused, (9, 27)], seed)


def _bytes(draw: random.Random) -> list[tuple]:
    found = []
    for c in (1, 2, 7, draw.randrange(9, 65), 128):
        found.append((draw.randrange(1, 9), c * draw.randrange(1, 5000), draw.randrange(1, 65),
                      draw.choice((48, 80, 96, 192)), draw.choice((1, 2, 4, 8)), c))  # fmt: skip
    return found


CASES: dict[str, list[Hidden]] = {
    "sequence_scatter_gather": [
        Hidden("refusals", judge_shorter),
        Hidden("5 ranks, and the wire", _scatter),
    ],
    "merge_partials": [Hidden("other blocks", _merges)],
    "causal_block_mask": [Hidden("drawn places", _masks)],
    "ring_bytes": [formula("larger", ring_forward_bytes, _bytes)],
    "ring_forward": _of_ring("ring_forward"),
    "zigzag_positions": [Hidden("more ranks", _zigzag)],
    "ring_backward": _of_ring("ring_backward"),
}
