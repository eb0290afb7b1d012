"""The check of zigzag_positions, in a process of its own: what must come is found token by token.

Lengths that can be shared and lengths that cannot are asked in one list, in an order that is drawn:
a rank is not told which are to be refused, and the judge holds each outcome against the numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from labs import ranks
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import as_asked, broke, not_reached
from labs.ranks.ship import Source
from labs.staying import must_return

PLACES, REFUSAL = "places", "refuses what cannot be shared"
PROPERTIES = (PLACES, REFUSAL)
REFUSED = ((4, 12), (3, 9), (2, 6), (4, 4), (1, 3), (4, 9), (3, 14), (4, 15), (5, 1005))
"""(ranks, length): multiples of the ranks, but not of twice as many; then multiples of neither."""
_LIMIT = 20.0
_AT, _KEPT = "at", "made"
_LONGEST = 2000  # tokens of a rank that an answer may return, and be shown for
Question = tuple[int, int, int]  # rank, ranks, length
Shares = Sequence[tuple[int, int]]  # ranks, length
Outcome = tuple[list, list[int], str] | str
"""The places, their shape and type; of anything else what it is, in words."""
_NO_TENSOR = "the function returned "


def cases(seed: int) -> list[tuple[int, int]]:
    """(ranks, length): 1 to 4 ranks, odd numbers of them, and some that are drawn."""
    draw = random.Random(seed)
    c = draw.randrange(5, 9)
    return [(4, 16), (2, 8), (4, 8), (3, 12), (1, 6), (5, 20), (c, 2 * c * draw.randrange(2, 6))]


def mixed(asked: Shares, refused: Shares, seed: int) -> list[Question]:
    """Every rank of what can be shared and of what cannot, in an order that is drawn."""
    found = _every([*asked, *refused])
    random.Random(seed).shuffle(found)
    return found


def on_rank(function: Callable, questions: list[Question]) -> list[Outcome]:
    """On a rank: what came of each question.

    Raises what the function raised first, where it never gave a tensor.
    """
    told: list[Outcome] = []
    broken = None
    for rank, c, length in questions:
        ranks.keep(_AT, _label(rank, c, length))
        ranks.keep(_KEPT, told)
        with must_return():
            try:
                told.append(_plain(function(rank, c, length)))
            except Exception as error:
                broken = broken or error
                told.append(f"{type(error).__name__}: {error}")
    if broken and all(isinstance(one, str) for one in told):
        ranks.keep(_AT, "")
        ranks.keep(_KEPT, [])
        raise broken
    return told


def _plain(places: object) -> Outcome:
    if not isinstance(places, torch.Tensor):
        return f"{_NO_TENSOR}{type(places).__name__}, not a tensor"
    return places.flatten()[:_LONGEST].tolist(), list(places.shape), str(places.dtype)


def _every(shares: Shares) -> list[Question]:
    """Every rank of each case."""
    return [(rank, c, length) for c, length in shares for rank in range(c)]


def _label(rank: int, c: int, length: int) -> str:
    return f"rank {rank} of {c}, {length} tokens"


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """zigzag_positions: every place of every rank, and lengths that cannot be shared."""
    return judge_shares(function, cases(seed), REFUSED, seed)


def judge_shares(
    function: Callable | Source, asked: Shares, refused: Shares, seed: int
) -> list[Verdict]:
    """The same for these shares, and for those that are to be refused."""
    questions = mixed(asked, refused, seed)
    try:
        run = ranks.launch(
            on_rank, 1, args=(function, questions), limit=_LIMIT, status=False
        )  # fmt: skip
    except ranks.RunFailed as failed:
        kept = failed.run.kept[0] if failed.run.kept else {}
        told = dict(zip(questions, kept.get(_KEPT, []), strict=False))
        wrong = _first_wrong(asked, told)  # goes before what broke
        if wrong:
            return not_reached(PROPERTIES, wrong)
        return broke(PROPERTIES, failed, "", str(kept.get(_AT, "")))
    except ValueError as error:
        return not_reached(PROPERTIES, Verdict(PLACES, FAILED, str(error)))
    return judged(questions, run.values[0], asked, refused)


def judged(
    questions: list[Question], outcomes: list[Outcome], asked: Shares, refused: Shares
) -> list[Verdict]:
    """The verdicts on the places, and on the refusals."""
    told = dict(zip(questions, as_asked(outcomes, questions), strict=True))
    wrong = _first_wrong(asked, told)
    if wrong and any(isinstance(told[one], str) for one in _every(asked)):
        return not_reached(PROPERTIES, wrong)
    first = wrong or Verdict(PLACES, PASSED, f"{len(asked)} sequences, every rank of each")
    return [first, _refusals(refused, told)]


def _first_wrong(asked: Shares, told: dict[Question, Outcome]) -> Verdict | None:
    """Of the questions that were answered, fewer where the function broke."""
    found = (_wrong(one, told[one]) for one in _every(asked) if one in told)
    return next(filter(None, found), None)


def _wrong(question: Question, outcome: Outcome) -> Verdict | None:
    if isinstance(outcome, str):
        _, c, length = question
        hint = "" if outcome.startswith(_NO_TENSOR) else (
            f"{length} tokens are 2*{c} chunks of {length // (2 * c)}: nothing to refuse"
        )  # fmt: skip
        return Verdict(PLACES, FAILED, f"{_label(*question)}: {outcome}", hint)
    return _wrong_places(*question, *outcome)


def _right_places(rank: int, c: int, length: int) -> list[int]:
    chunk = length // (2 * c)
    return [place for place in range(length) if place // chunk in (rank, 2 * c - 1 - rank)]


def _wrong_places(
    rank: int, c: int, length: int, got: list[int], shape: list[int], kind: str
) -> Verdict | None:
    want = _right_places(rank, c, length)
    label = _label(rank, c, length)
    if got == want and shape == [len(want)] and kind == "torch.int64":
        return None
    if got == want:
        told = f"{label}: shape {tuple(shape)}, type {kind}; expected {(len(want),)}, torch.int64"
        return Verdict(PLACES, FAILED, told, "one dimension of whole numbers, as arange gives them")
    told = f"{label}: got {got[:16]}, expected {want[:16]}"
    return Verdict(PLACES, FAILED, told, _zigzag_hint(rank, c, length, got, want))


def _zigzag_hint(rank: int, c: int, length: int, got: list[int], want: list[int]) -> str:
    chunk, n = length // (2 * c), length // c
    if sorted(got) == want:
        return "ascending: the early chunk first, then its mirror image, each in its own order"

    def chunks(*numbers: int) -> list[int]:
        return [number * chunk + at for number in sorted(numbers) for at in range(chunk)]

    if got == chunks(rank, rank + c) and c > 1:
        return (
            f"chunks {rank} and {rank + c} are as far apart on every rank, so the last rank still "
            "works most: the mirror image of chunk r is the one as far from the end"
        )
    if got == list(range(rank * n, rank * n + n)):
        return "consecutive tokens: the last rank has the most work. Chunk r and its mirror image"
    if got == list(range(rank, length, c)):
        return (
            "every c-th token (stripes): nearly balanced too, but no block is ever wholly visible "
            "or wholly hidden. Zigzag is two chunks a rank"
        )
    if got and max(got) >= length:
        return f"{length} tokens have places 0 to {length - 1}: the last chunk is 2*{c}-1"
    if len(got) != len(want):
        return f"a rank holds length/ranks = {n} tokens: two chunks of {chunk}"
    if c % 2:
        return (
            f"with {c} ranks it goes wrong: the rule is the same for odd and even numbers of them"
        )
    return "rank r holds chunks r and 2*ranks-1-r, of length/(2*ranks) tokens each"


def _refusals(refused: Shares, told: dict[Question, Outcome]) -> Verdict:
    for rank, c, length in _every(refused):
        outcome = told[rank, c, length]
        accepted = not isinstance(outcome, str) or outcome.startswith(_NO_TENSOR)
        made = "accepted" if accepted else outcome
        asked = f"{length} tokens, {c} {'rank' if c == 1 else 'ranks'}"
        asked += f", asked for rank {rank}" if rank else ""
        if not made.startswith("ValueError"):
            hint = (
                "2*ranks chunks of equal size: raise ValueError where length % (2*ranks) is not 0"
            )
            if rank:
                hint += ", whichever rank is asked for"
            elif length % c == 0:
                hint += f" ({length} is a multiple of {c}, but not of {2 * c})"
            elif length // c % 2 == 0:
                hint += f" ({length} // {c} is even, but {length} is no multiple of {c})"
            return Verdict(REFUSAL, FAILED, f"{asked}: expected ValueError, got: {made}", hint)
        if str(length) not in made or not {str(c), str(2 * c)} & set(_numbers(made)):
            hint = "a refusal says the numbers: the length, and how many ranks or chunks"
            return Verdict(REFUSAL, FAILED, f"{asked}: the message is {made!r}", hint)
    return Verdict(REFUSAL, PASSED, f"{refused[0][1]} tokens on {refused[0][0]} ranks")


def _numbers(text: str) -> list[str]:
    return "".join(x if x.isdigit() else " " for x in text).split()
