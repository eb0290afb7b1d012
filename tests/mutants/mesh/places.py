"""Wrong places on the mesh: rank_to_coordinate and coordinate_to_rank."""

from tests.mutants.mesh.wrong import Wrong, body

NAMED, ANY = "dp, pp and tp", "other axes, other orders"
_PLACE, _RANK = body("rank_to_coordinate(rank, sizes)"), body("coordinate_to_rank(at, sizes)")


def place(
    name: str, fails: tuple, hint: tuple, lines: str, holds: tuple = (), breaks=False
) -> Wrong:
    return Wrong("rank_to_coordinate", name, fails, hint, _PLACE(lines), holds, breaks)


def rank(
    name: str, fails: tuple, hint: tuple, lines: str, holds: tuple = (), breaks=False
) -> Wrong:
    return Wrong("coordinate_to_rank", name, fails, hint, _RANK(lines), holds, breaks)


_BOTH = (NAMED, ANY)
MUTANTS = [
    place("first_axis_fastest", _BOTH, ("last axis of `sizes` is the fastest",), """
        found = {}
        for axis in sizes:
            rank, found[axis] = divmod(rank, sizes[axis])
        return found
    """),
    place("three_names", (ANY,), ("axes come from `sizes`",), """
        pp, tp = sizes.get("pp", 1), sizes.get("tp", 1)
        return {"dp": rank // (pp * tp), "pp": rank // tp % pp, "tp": rank % tp}
    """, holds=(NAMED,)),
    place("three_axes_unpacked", (NAMED,), ("two axes or five",), """
        dp, pp, tp = sizes.values()
        places = rank // (pp * tp), rank // tp % pp, rank % tp
        return dict(zip(sizes, places))
    """, breaks=True),
    place("sorted_as_usual", (ANY,), ("in any order",), """
        order = [axis for axis in ("dp", "pp", "cp", "tp") if axis in sizes]
        order = order if len(order) == len(sizes) else list(sizes)
        found = {}
        for axis in reversed(order):
            rank, found[axis] = divmod(rank, sizes[axis])
        return found
    """, holds=(NAMED,)),
    place("no_remainder", _BOTH, ("% size",), """
        found = {}
        for axis in reversed(sizes):
            found[axis], rank = rank, rank // sizes[axis]
        return found
    """),
    place("remainders_of_the_rank", _BOTH, ("divide the rank",), """
        return {axis: rank % size for axis, size in sizes.items()}
    """),
    place("divided_with_a_slash", _BOTH, ("// and %",), """
        found, step = {}, 1
        for axis in reversed(sizes):
            found[axis], step = rank / step % sizes[axis] // 1, step * sizes[axis]
        return found
    """),
    place("on_the_wrong_axes", _BOTH, ("on the wrong axes",), """
        found = []
        for size in reversed(sizes.values()):
            rank, at = divmod(rank, size)
            found.append(at)
        return dict(zip(sizes, found))
    """),
    place("own_size_as_step", _BOTH, ("faster axes have together",), """
        return {axis: rank // size % size for axis, size in sizes.items()}
    """),
    place("a_tuple", (NAMED,), ("not a dict",), """
        found = []
        for size in reversed(sizes.values()):
            rank, at = divmod(rank, size)
            found.append(at)
        return tuple(reversed(found))
    """),
    place("uses_sizes_up", (NAMED,), ("work on copies",), """
        found = {}
        while sizes:
            axis, size = sizes.popitem()
            rank, found[axis] = divmod(rank, size)
        return found
    """),
    place("up_to_four_axes", (ANY,), ("any number of them",), """
        *_, a, b, c, d = 1, 1, 1, *sizes.values()
        at = rank // (b * c * d) % a, rank // (c * d) % b, rank // d % c, rank % d
        return dict(zip(sizes, at[-len(sizes):]))
    """, holds=(NAMED,)),
    place("turns_sizes_round", (NAMED,), ("work on copies",), """
        found = {}
        for axis in list(sizes)[::-1]:
            size = sizes.pop(axis)
            rank, found[axis] = divmod(rank, size)
            sizes[axis] = size
        return found
    """),
    rank("first_axis_fastest", _BOTH, ("last axis of `sizes` is the fastest",), """
        rank, step = 0, 1
        for axis, size in sizes.items():
            rank, step = rank + at[axis] * step, step * size
        return rank
    """),
    rank("order_of_the_place", (ANY,), ("by its name",), """
        rank = 0
        for place, size in zip(at.values(), sizes.values()):
            rank = rank * size + place
        return rank
    """, holds=(NAMED,)),
    rank("places_added", _BOTH, ("count alike",), "return sum(at.values())"),
    rank("own_size_as_step", _BOTH, ("faster axes have together",), """
        return sum(at[axis] * size for axis, size in sizes.items())
    """),
    rank("three_names", (ANY,), ("axes come from `sizes`",), """
        pp, tp = sizes.get("pp", 1), sizes.get("tp", 1)
        return (at.get("dp", 0) * pp + at.get("pp", 0)) * tp + at.get("tp", 0)
    """, holds=(NAMED,)),
    rank("names_looked_up", (ANY,), ("axes come from `sizes`",), """
        return (at["dp"] * sizes["pp"] + at["pp"]) * sizes["tp"] + at["tp"]
    """, breaks=True),
    rank("multiplied_too_late", _BOTH, ("then the place is added",), """
        rank = 0
        for axis, size in sizes.items():
            rank = (rank + at[axis]) * size
        return rank
    """),
    rank("up_to_four_axes", (ANY,), ("any number of them",), """
        *_, b, c, d = 1, 1, 1, *sizes.values()
        *_, i, j, k, l = 0, 0, 0, *(at[axis] for axis in sizes)
        return ((i * b + j) * c + k) * d + l
    """, holds=(NAMED,)),
    rank("turns_the_place_round", (NAMED,), ("work on copies",), """
        rank = 0
        for axis, size in sizes.items():
            place = at.pop(axis)
            rank, at[axis] = rank * size + place, place
        return rank
    """),
    rank("no_return", _BOTH, ("without a `return`",), "rank = sum(at.values())"),
]  # fmt: skip
