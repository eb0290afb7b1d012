"""The checks of rank_to_coordinate and coordinate_to_rank: every rank of many meshes.

What must come back is found by counting through all places, the last axis running fastest.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod

from labs import judging_alone as pure
from labs.exercise import Verdict
from labs.judging_alone import Asked, Made, of_sizes
from labs.ranks.ship import Source

NAMED, ANY = "dp, pp and tp", "other axes, other orders"
PROPERTIES = (NAMED, ANY)
Sizes = dict[str, int]
Pairs = list[tuple[object, object]]
"""What was asked of one mesh, and what came back."""
_PASSED = {
    NAMED: "every rank, sizes of 1 and odd ones among them",
    ANY: "one to five axes, by the names and in the order of `sizes`",
}


def named_meshes(seed: int) -> list[Sizes]:
    """dp, pp, tp in this order: unlike ones, the 64 ranks of the lesson, sizes of 1, drawn ones."""
    draw = random.Random(seed)
    drawn = tuple(draw.randrange(2, 6) for _ in range(3))
    sizes = [(2, 3, 4), (2, 2, 2), (4, 2, 8), (1, 4, 2), (3, 1, 2), (2, 2, 1), drawn]
    return [dict(zip(("dp", "pp", "tp"), one, strict=True)) for one in sizes]


def other_meshes(seed: int) -> list[Sizes]:
    """One axis, two, four, five, other names, and tp not the fastest."""
    draw = random.Random(seed + 1)
    four = [("dp", 2), ("pp", draw.randrange(2, 4)), ("cp", draw.randrange(2, 4)), ("tp", 2)]
    mixed = [("dp", 2), ("pp", draw.randrange(2, 4)), ("tp", draw.randrange(3, 5))]
    draw.shuffle(four)
    return [
        {"pp": 2, "dp": 3, "tp": 4}, {"tp": 4, "dp": 2, "pp": 3}, {"stage": 3, "tensor": 2},
        {"replica": 2, "node": 3, "gpu": 4}, {"dp": 2, "pp": 2, "cp": 2, "tp": 2}, dict(four),
        dict(reversed(mixed)), {"tp": 5}, {"pod": 2, "dp": 3, "pp": 1, "cp": 2, "tp": 2},
    ]  # fmt: skip


def places(sizes: Mapping[str, int]) -> list[Sizes]:
    """The place of every rank, by rank."""
    every = product(*(range(size) for size in sizes.values()))
    return [dict(zip(sizes, at, strict=True)) for at in every]


def asked_places(seed: int) -> list[Asked]:
    """(rank, sizes) of every rank."""
    return [
        (f"{of_sizes(sizes)}, rank {rank}", (rank, sizes))
        for sizes in [*named_meshes(seed), *other_meshes(seed)]
        for rank in range(prod(sizes.values()))
    ]


def asked_ranks(seed: int) -> list[Asked]:
    """(place, sizes) of every rank; on the other meshes the place names its axes in any order."""
    draw, named = random.Random(seed + 2), named_meshes(seed)
    found = []
    for sizes in [*named, *other_meshes(seed)]:
        for at in places(sizes):
            pairs = list(at.items())
            if sizes not in named:
                draw.shuffle(pairs)
            found.append((f"{of_sizes(sizes)}, at {of_sizes(dict(pairs))}", (dict(pairs), sizes)))
    return found


def judge_places(function: Callable | Source, seed: int) -> list[Verdict]:
    """rank_to_coordinate."""
    return pure.judge(
        function, asked_places(seed), pure.by_axis, PROPERTIES, judged_places, _of_failure
    )


def judge_ranks(function: Callable | Source, seed: int) -> list[Verdict]:
    """coordinate_to_rank."""
    return pure.judge(
        function, asked_ranks(seed), pure.number, PROPERTIES, judged_ranks, _of_failure
    )


def judged_places(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the places that came back."""
    alike = _by_mesh(asked, made)

    def wrong(args: tuple, got: object) -> tuple[str, str, str] | None:
        rank, sizes = args
        want = places(sizes)[rank]
        if got == want and all(type(place) is int for place in got.values()):
            return None
        if not isinstance(got, dict):
            told = f"the function returned {got}, not a dict of axis: place"
            return _property(sizes), told, NO_RETURN if got == "NoneType" else _DICT
        told = f"got {of_sizes(got)}, expected {of_sizes(want)}"
        return _property(sizes), told, _why_place(sizes, got, alike[tuple(sizes.items())])

    return pure.first_faults(PROPERTIES, _PASSED, asked, made, wrong, output)


def judged_ranks(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the ranks that came back."""
    alike = _by_mesh(asked, made)

    def wrong(args: tuple, got: object) -> tuple[str, str, str] | None:
        at, sizes = args
        want = places(sizes).index(at)
        if got == want and type(got) is int:
            return None
        told = f"got {got}, expected {want}"
        return _property(sizes), told, _why_rank(sizes, got, alike[tuple(sizes.items())])

    return pure.first_faults(PROPERTIES, _PASSED, asked, made, wrong, output)


def _by_mesh(asked: Sequence[Asked], made: Sequence[Made]) -> dict[tuple, Pairs]:
    """All that came back of one mesh: a slip shows on every rank, and on one alone by chance."""
    found: dict[tuple, Pairs] = {}
    for (_, (given, sizes)), (got, _) in zip(asked, made, strict=False):
        found.setdefault(tuple(sizes.items()), []).append((given, got))
    return found


NO_RETURN = "the function ends without a `return`"
_DICT = 'one entry for each axis of `sizes`, as in {"dp": 0, "pp": 1, "tp": 1}'
_NAMES = (
    "axes come from `sizes`: loop over it, so that any number of them works, under any name and in "
    "any order"
)
_FASTEST = (
    "the last axis of `sizes` is the fastest: rank 1 is one place further on it. Here the first "
    "one is"
)
_WHOLE = "places and ranks are whole numbers: // and % give them, / does not"


def _of_failure(text: str) -> str:
    if "KeyError" in text:
        return _NAMES
    if "values to unpack" in text:
        return f"a mesh may have two axes or five: {_NAMES}"
    if "must be reversible" in text or "unsupported operand" in text and "NoneType" in text:
        return "something that the function uses is None: is each function that it calls written?"
    return ""


def _property(sizes: Mapping[str, int]) -> str:
    return NAMED if tuple(sizes) == ("dp", "pp", "tp") else ANY


def _in_reverse(sizes: Mapping[str, int]) -> dict[str, int]:
    return dict(reversed(list(sizes.items())))


def _why_place(sizes: Sizes, got: dict, pairs: Pairs) -> str:
    if set(got) != set(sizes):
        return _NAMES
    if any(type(place) is not int for place in got.values()):
        return _WHOLE
    right, reverse = places(sizes), places(_in_reverse(sizes))

    def all_are(slip: Callable[[int], dict]) -> bool:
        return all(made == slip(rank) for rank, made in pairs)

    if _property(sizes) == ANY and all_are(lambda rank: _usual(rank, sizes)):
        return _NAMES
    if all_are(lambda rank: reverse[rank]):
        return _FASTEST
    if all_are(lambda rank: dict(zip(sizes, reversed(right[rank].values()), strict=True))):
        return "the right places on the wrong axes: the first remainder belongs to the last axis"
    if all_are(lambda rank: {axis: rank % size for axis, size in sizes.items()}):
        return (
            "each place is rank % size here: divide the rank by the size of one axis before you "
            "go to the next, divmod(rank, size) does both"
        )
    for axis, size in sizes.items():
        if not all(0 <= made[axis] < size for _, made in pairs):
            return (
                f"{axis} has places 0 to {size - 1}: what is left over, % size, is the place; what "
                "is divided, // size, goes on to the next slower axis"
            )
    return _NAMES if _property(sizes) == ANY else _STEP


_STEP = (
    "a step on an axis is as many ranks as all faster axes have together: on tp 1, on pp TP, on "
    "dp PP·TP"
)


def _usual(rank: int, sizes: Sizes) -> Sizes:
    """The place by the usual order of the axes, whatever the order of `sizes`."""
    order = sorted(sizes, key=lambda axis: _AXES.index(axis) if axis in _AXES else 0)
    return places({axis: sizes[axis] for axis in order})[rank]


_AXES = ("dp", "pp", "cp", "tp")


def _why_rank(sizes: Sizes, got: object, pairs: Pairs) -> str:
    if got == "NoneType":
        return NO_RETURN
    if type(got) is not int:
        return _WHOLE
    reverse = places(_in_reverse(sizes))

    def all_are(slip: Callable[[dict], int]) -> bool:
        return all(made == slip(at) for at, made in pairs)

    if all_are(lambda at: reverse.index(at)):
        return _FASTEST
    if all_are(lambda at: _row_major(at.values(), sizes)):
        return (
            "`at` may name its axes in another order than `sizes`: look each place up by its name, "
            "at[axis]"
        )
    if all_are(lambda at: sum(at.values())):
        return "places count alike here: a step on dp is PP·TP ranks, on pp TP, on tp 1"
    if all_are(lambda at: sum(at[axis] * size for axis, size in sizes.items())):
        return f"not as many as its own size: {_STEP}"
    if all_are(lambda at: _too_late(at, sizes)):
        return "first rank times the axis' size, then the place is added: (…) * size + at[axis]"
    if _property(sizes) == ANY:
        return _NAMES
    return "begin with the slowest axis: rank = rank * size + place, axis by axis"


def _row_major(values: Iterable[int], sizes: Sizes) -> int:
    """The rank by these places, in their order."""
    rank = 0
    for place, size in zip(values, sizes.values(), strict=True):
        rank = rank * size + place
    return rank


def _too_late(at: Sizes, sizes: Sizes) -> int:
    """The rank where each place is multiplied by its own axis' size as well."""
    rank = 0
    for axis, size in sizes.items():
        rank = (rank + at[axis]) * size
    return rank
