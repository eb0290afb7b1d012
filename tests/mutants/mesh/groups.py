"""Wrong groups, and groups on the wrong number of nodes."""

from tests.mutants.mesh.wrong import Wrong, body

MEMBERS, ORDER = "who is in a group", "order"
WHOLE, ODD = "whole groups on nodes", "groups that do not fit"
_GROUPS, _NODES = body("groups_of(axis, sizes)"), body("place_on_nodes(sizes, per_node)")


def group(
    name: str, fails: tuple, hint: tuple, lines: str, holds: tuple = (), breaks=False
) -> Wrong:
    return Wrong("groups_of", name, fails, hint, _GROUPS(lines), holds, breaks)


def node(name: str, fails: tuple, hint: tuple, lines: str, holds: tuple = ()) -> Wrong:
    return Wrong("place_on_nodes", name, fails, hint, _NODES(lines), holds)


_BY_REST = """
        found = {}
        for rank in range(math.prod(sizes.values())):
            at = rank_to_coordinate(rank, sizes)
            found.setdefault(KEY, []).append(rank)
"""
_REST = _BY_REST.replace("KEY", "tuple(at[name] for name in sizes if name != axis)")
_TOLD = "max(len({r // per_node for r in g}) for g in groups_of(axis, sizes))"
_BOTH = (WHOLE, ODD)
MUTANTS = [
    group("neighbours", (MEMBERS,), ("fastest axis alone",), """
        n, size = math.prod(sizes.values()), sizes[axis]
        return [list(range(first, first + size)) for first in range(0, n, size)]
    """),
    group("far_apart", (MEMBERS,), ("slowest axis alone",), """
        n, size = math.prod(sizes.values()), sizes[axis]
        return [list(range(first, n, n // size)) for first in range(n // size)]
    """),
    group("one_group", (MEMBERS,), ("all groups, not that of one rank",), """
        rest = {name: 0 for name in sizes}
        return [[coordinate_to_rank({**rest, axis: i}, sizes) for i in range(sizes[axis])]]
    """),
    group("one_place_in_common", (MEMBERS,), ("one place on",),
          _BY_REST.replace("KEY", "at[axis]") + "        return list(found.values())"),
    group("along_the_next_axis", (MEMBERS,), ("those are the groups along",), """
        names = list(sizes)
        axis = names[(names.index(axis) + 1) % len(names)]
    """ + _REST + "        return list(found.values())"),
    group("all_in_one", (MEMBERS,), ("as many ranks as the axis",), """
        return [list(range(math.prod(sizes.values())))]
    """),
    group("one_for_each_rank", (MEMBERS,), ("in no second one",), _REST + """
        ranks = range(math.prod(sizes.values()))
        return [next(g for g in found.values() if rank in g) for rank in ranks]
    """),
    group("backwards", (ORDER,), ("places on the axis",),
          _REST + "        return [group[::-1] for group in found.values()]", holds=(MEMBERS,)),
    group("last_group_first", (ORDER,), ("first ranks",),
          _REST + "        return list(found.values())[::-1]", holds=(MEMBERS,)),
    group("other_axes_backwards", (ORDER,), ("first ranks",), """
        others = [name for name in reversed(sizes) if name != axis]
        found = []
        for places in itertools.product(*(range(sizes[name]) for name in others)):
            rest = dict(zip(others, places))
            found.append([coordinate_to_rank({**rest, axis: i}, sizes)
                          for i in range(sizes[axis])])
        return found
    """, holds=(MEMBERS,)),
    group("a_dict", (MEMBERS,), ("one list of ranks a group",), _REST + "        return found"),
    group("ranks_in_a_row", (MEMBERS,), ("one list of ranks a group",),
          _REST + "        return list(found.values())[0]"),
    group("rank_by_division", (MEMBERS,), ("whole numbers",),
          _REST + "        return [[rank / 1 for rank in group] for group in found.values()]"),
    group("three_names", (MEMBERS,), ("under any name",), """
        at = {name: range(sizes[name]) for name in sizes | dict(dp=1, pp=1, tp=1) if name != axis}
        found = []
        for places in itertools.product(*at.values()):
            rest = dict(zip(at, places))
            found.append([coordinate_to_rank({**rest, axis: i}, sizes)
                          for i in range(sizes[axis])])
        return found
    """, breaks=True),
    group("up_to_four_axes", (MEMBERS,), (), """
        *_, a, b, c, d = 1, 1, 1, *sizes.values()
        at = [*"???", *sizes][-4:].index(axis)
        ranks = torch.arange(a * b * c * d).view(a, b, c, d)
        return ranks.movedim(at, -1).reshape(-1, sizes[axis]).tolist()
    """, breaks=True),
    group("turns_sizes_round", (MEMBERS,), ("work on copies",), _REST + """
        sizes[axis] = sizes.pop(axis)
        return list(found.values())
    """),
    node("first_group_alone", (ODD,), ("Look at all groups",),
         "return {axis: len({r // per_node for r in groups_of(axis, sizes)[0]}) for axis in sizes}",
         holds=(WHOLE,)),
    node("fewest", (ODD,), ("one on most counts",),
         f"return {{axis: {_TOLD.replace('max', 'min')} for axis in sizes}}", holds=(WHOLE,)),
    node("ranks_not_nodes", _BOTH, ("how many ranks a group has",),
         "return {axis: size for axis, size in sizes.items()}"),
    node("as_if_neighbours", (WHOLE,), ("further apart",),
         "return {axis: math.ceil(size / per_node) for axis, size in sizes.items()}"),
    node("how_far_it_reaches", _BOTH, ("how far the group reaches",), """
        found, step = {}, 1
        for axis in reversed(sizes):
            step *= sizes[axis]
            found[axis] = math.ceil(step / per_node)
        return found
    """),
    node("how_far_rounded_down", _BOTH, ("how far the group reaches",), """
        found, step = {}, 1
        for axis in reversed(sizes):
            step *= sizes[axis]
            found[axis] = max(1, step // per_node)
        return found
    """),
    node("all_nodes", (WHOLE,), ("all nodes of the mesh",), """
        nodes = math.ceil(math.prod(sizes.values()) / per_node)
        return {axis: nodes for axis in sizes}
    """),
    node("yes_or_no", _BOTH, ("nodes are counted",),
         f"return {{axis: {_TOLD} == 1 for axis in sizes}}"),
    node("all_groups_together", _BOTH, ("sum over all groups",),
         f"return {{axis: {_TOLD.replace('max', 'sum')} for axis in sizes}}"),
    node("only_what_crosses", (WHOLE,), ("one entry for each axis",),
         f"return {{axis: {_TOLD} for axis in sizes if {_TOLD} > 1}}"),
]  # fmt: skip
