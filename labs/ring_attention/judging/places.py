"""The check of causal_block_mask, in a process of its own: what must come is found pair by pair."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from labs import ranks
from labs.context_parallel.places import NEVER
from labs.exercise import FAILED, PASSED, Verdict
from labs.judging import broke
from labs.ranks.ship import Source
from labs.staying import must_return

VALUES = "values"
MASK = (VALUES,)
_LIMIT = 20.0
_AT = "at"
_FAR = 2**24  # a float of 32 bits does not know the next whole number


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
