"""The checks of causal_block_mask and zigzag_positions: counted place by place.

Each function runs in a process of its own, and what must come back is found pair by pair, and token
by token.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from labs import ranks
from labs.context_parallel.places import NEVER
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import as_asked, broke, not_reached
from labs.ranks.ship import Source
from labs.staying import must_return

VALUES, PLACES, REFUSAL = "values", "places", "refuses what cannot be shared"
MASK, ZIGZAG = (VALUES,), (PLACES, REFUSAL)
_LIMIT = 20.0
_AT = "at"
_KEPT = "made"
_FAR = 2**24  # a float of 32 bits does not know the next whole number
_LONGEST = 2000  # tokens of a rank that an answer may return, and be shown for


def mask_cases(seed: int) -> list[tuple[str, list[int], list[int]]]:
    """Which block it is, places of the queries, places of the keys."""
    draw = random.Random(seed)

    def drawn(count: int) -> list[int]:
        return sorted(draw.sample(range(3, 60), count))

    return [
        ("a rank's own block, tokens 8 to 11", [8, 9, 10, 11], [8, 9, 10, 11]),
        ("the first rank's own block", [0, 1, 2], [0, 1, 2]),
        ("an earlier block", [8, 9, 10, 11], [4, 5, 6, 7]),
        ("a later block", [8, 9, 10, 11], [12, 13, 14, 15]),
        ("zigzag, ranks 1 and 0 of 2", [2, 3, 4, 5], [0, 1, 6, 7]),
        ("full attention: queries placed at the end", [8] * 4, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("padding, which nobody sees", [1, 8, 8], [0, 1, 2, NEVER, NEVER]),
        ("a query that sees nothing", [-1, 0, 5], [0, 4, 5, 6]),
        ("3 queries, 5 keys", drawn(3), drawn(5)),
        ("6 queries, 2 keys", drawn(6), drawn(2)),
        ("one of each", [7], [7]),
        ("places in no order", [9, 2, 5], [6, 2, 9, 1]),
        ("tokens of a sequence of 16 million", [_FAR, _FAR + 1], [_FAR - 1, _FAR + 1, _FAR + 2]),
    ]


def masks_on_rank(function: Callable, given: list[tuple[str, list[int], list[int]]]) -> list:
    """On a rank: (rows, shape, type, the places as they were left) of each mask.

    Raises TypeError for what is no tensor.
    """
    found = []
    for label, queries, keys in given:
        ranks.keep(_AT, label)
        q, k = torch.tensor(queries), torch.tensor(keys)
        with must_return():
            mask = function(q, k)
        if not isinstance(mask, torch.Tensor):
            raise TypeError(f"the function returned {type(mask).__name__}, not a tensor")
        after = [q.tolist(), k.tolist()]
        found.append((mask.tolist(), list(mask.shape), str(mask.dtype), after))
    return found


def judge_mask(function: Callable | Source, seed: int) -> list[Verdict]:
    """causal_block_mask: every pair of a query and a key."""
    return judge_masks(function, mask_cases(seed))


def judge_masks(
    function: Callable | Source, asked: list[tuple[str, list[int], list[int]]]
) -> list[Verdict]:
    """The same for these blocks."""
    try:
        run = ranks.launch(masks_on_rank, 1, args=(function, asked), limit=_LIMIT, status=False)
    except ranks.RunFailed as failed:
        hint = _SHAPE if "must match the size" in str(failed) else ""
        return broke(MASK, failed, hint, _at(failed))
    except ValueError as refused:
        return [Verdict(VALUES, FAILED, str(refused))]
    return judged_masks(asked, run.values[0], run.output)


def judged_masks(asked: list, found: list, output: str) -> list[Verdict]:
    """The verdict on the masks that came back: the first wrong one."""
    for (label, queries, keys), (rows, shape, kind, after) in zip(asked, found, strict=True):
        want = [[k <= q for k in keys] for q in queries]
        if shape != [len(queries), len(keys)]:
            told = f"{label}: shape {tuple(shape)}, expected {(len(queries), len(keys))}"
            return [Verdict(VALUES, FAILED, told, _SHAPE, output)]
        if rows != want or kind != "torch.bool":
            told = _first_wrong(label, queries, keys, rows, want, kind)
            hint = _mask_hint(queries, keys, rows, want, kind)
            return [Verdict(VALUES, FAILED, told, hint, output)]
        if after != [queries, keys]:
            told = f"{label}: right, but the places were changed in place"
            return [Verdict(VALUES, FAILED, told, "work on copies", output)]
    return [Verdict(VALUES, PASSED, f"{len(asked)} blocks, every pair", output=output)]


_SHAPE = (
    "one row a query, one column a key: q_places.unsqueeze(-1) is (n_q, 1), and comparing it with "
    "k_places (n_k,) gives (n_q, n_k)"
)


def _at(failed: ranks.RunFailed) -> str:
    return str(failed.run.kept[0].get(_AT, "")) if failed.run.kept else ""


def _first_wrong(
    label: str, queries: list[int], keys: list[int], rows: list, want: list, kind: str
) -> str:
    for q, row, right in zip(queries, rows, want, strict=True):
        for k, got, wanted in zip(keys, row, right, strict=True):
            if bool(got) != wanted:
                key = "padding" if k == NEVER else f"the key at {k}"
                sees = "sees" if wanted else "does not see"
                return f"{label}: the query at {q} {sees} {key}, the mask says {got}"
    return f"{label}: type {kind}, expected torch.bool"


def _mask_hint(queries: list[int], keys: list[int], rows: list, want: list, kind: str) -> str:
    got = [[bool(x) for x in row] for row in rows]
    if got == want:
        return "True where the query sees the key, of type bool: a comparison gives that"
    if got == [[not x for x in row] for row in want]:
        return "it is the other way round: True where the query sees the key"
    if got == [[k < q for k in keys] for q in queries]:
        return "a token sees itself: at or before its own place, <= and not <"
    if got == [[k >= q for k in keys] for q in queries]:
        return (
            "a query sees what came before it, not what comes after: k_places <= q_places; one row "
            "a query, one column a key"
        )
    if got == [[j <= i for j in range(len(keys))] for i in range(len(queries))]:
        return (
            "a local mask: the lower triangle is right for a rank's own block alone. Compare the "
            "global positions, which stand in q_places and k_places"
        )
    if min(queries) >= _FAR:
        return "places are whole numbers, and large ones: compare them as they come, not as floats"
    if queries != sorted(queries):
        return "each entry for itself: nothing says that the places of a block ascend"
    if all(all(row) for row in got):
        return "no mask at all: compare the places"
    return "each entry asks one question: is the key's place at or before the query's?"


def zigzag_cases(seed: int) -> list[tuple[int, int]]:
    """(ranks, length): 1 to 4 ranks, odd numbers of them, and some that are drawn."""
    draw = random.Random(seed)
    c = draw.randrange(5, 9)
    return [(4, 16), (2, 8), (4, 8), (3, 12), (1, 6), (5, 20), (c, 2 * c * draw.randrange(2, 6))]


REFUSED = ((4, 12), (3, 9), (2, 6), (4, 4), (1, 3), (4, 9), (3, 14), (4, 15), (5, 1005))
"""(ranks, length): multiples of the ranks, but not of twice as many; then multiples of neither."""


def zigzag_on_rank(function: Callable, asked: list[tuple[int, int]], refused: list) -> dict:
    """On a rank: the places of each rank of each case, and what was made of what cannot be shared.

    Raises TypeError for what is no tensor.
    """
    made = []
    for rank, c, length in _every(asked):
        ranks.keep(_AT, _zigzag_label(rank, c, length))
        ranks.keep(_KEPT, made)
        with must_return():
            places = function(rank, c, length)
        if not isinstance(places, torch.Tensor):
            raise TypeError(f"the function returned {type(places).__name__}, not a tensor")
        shown = places.flatten()[:_LONGEST].tolist()
        made.append((shown, list(places.shape), str(places.dtype)))
    told = []
    for rank, c, length in _every(refused):
        ranks.keep(_AT, _zigzag_label(rank, c, length))
        with must_return():
            try:
                function(rank, c, length)
                told.append("accepted")
            except Exception as error:
                told.append(f"{type(error).__name__}: {error}")
    return dict(made=made, refused=told)


def _every(cases: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(rank, ranks, length): every rank of each case."""
    return [(rank, c, length) for c, length in cases for rank in range(c)]


def _zigzag_label(rank: int, c: int, length: int) -> str:
    return f"rank {rank} of {c}, {length} tokens"


def judge_zigzag(function: Callable | Source, seed: int) -> list[Verdict]:
    """zigzag_positions: every place of every rank, and lengths that cannot be shared."""
    return judge_shares(function, zigzag_cases(seed), REFUSED)


def judge_shares(
    function: Callable | Source, asked: list[tuple[int, int]], refused_: Sequence[tuple[int, int]]
) -> list[Verdict]:
    """The same for these (ranks, length), and for those that are to be refused."""
    try:
        run = ranks.launch(
            zigzag_on_rank, 1, args=(function, asked, list(refused_)), limit=_LIMIT, status=False
        )
    except ranks.RunFailed as failed:
        made = failed.run.kept[0].get(_KEPT, []) if failed.run.kept else []
        wrong = _first_wrong_places(asked, made)  # goes before what broke
        return not_reached(ZIGZAG, wrong) if wrong else broke(ZIGZAG, failed, "", _at(failed))
    except ValueError as refused:
        return not_reached(ZIGZAG, Verdict(PLACES, FAILED, str(refused)))
    return judged_zigzag(asked, run.values[0], refused_)


def judged_zigzag(
    asked: list[tuple[int, int]], told: dict, refused: Sequence[tuple[int, int]] = REFUSED
) -> list[Verdict]:
    """The verdicts on the places, and on the refusals."""
    wrong = _first_wrong_places(asked, as_asked(told["made"], _every(asked)))
    first = wrong or Verdict(PLACES, PASSED, f"{len(asked)} sequences, every rank of each")
    return [first, _refusals(told["refused"], refused)]


def _right_places(rank: int, c: int, length: int) -> list[int]:
    chunk = length // (2 * c)
    return [place for place in range(length) if place // chunk in (rank, 2 * c - 1 - rank)]


def _first_wrong_places(asked: Sequence[tuple[int, int]], made: list) -> Verdict | None:
    pairs = zip(_every(asked), made, strict=False)  # fewer, where the function broke
    return next(filter(None, (_wrong_places(*one, *told) for one, told in pairs)), None)


def _wrong_places(
    rank: int, c: int, length: int, got: list[int], shape: list[int], kind: str
) -> Verdict | None:
    want = _right_places(rank, c, length)
    label = _zigzag_label(rank, c, length)
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


def _refusals(told: list[str], refused: Sequence[tuple[int, int]]) -> Verdict:
    for (rank, c, length), made in zip(_every(refused), told, strict=True):
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
