"""Other right ways to solve the exercises of notebook 05, which must pass."""

from tests.mutants.mesh.norm import ADD, REDUCE, ROOT
from tests.mutants.mesh.norm import ANSWER as NORM
from tests.mutants.mesh.step import ANSWER as STEP
from tests.mutants.mesh.step import GATHER, MINE, SUM, UPDATE
from tests.mutants.mesh.wrong import changed

_RING = """
    right, left = (dist.get_global_rank(group or dist.group.WORLD, (rank + i) % n)
                   for i in (1, -1))
    parts = grads.chunk(n)
    for hop in range(1, n):
        out, came = parts[(rank - hop) % n].contiguous(), torch.empty_like(grad)
        works = [dist.isend(out, right, group=group), dist.irecv(came, left, group=group)]
        for work in works: work.wait()
        parts[(rank - hop - 1) % n].add_(came)
    grad.copy_(parts[rank])
"""
RIGHT = {
    "places by steps": (
        "rank_to_coordinate",
        """
        def rank_to_coordinate(rank, sizes):
            at, step = {}, math.prod(sizes.values())
            for axis, size in sizes.items():
                step //= size
                at[axis] = rank // step % size
            return at
        """,
    ),
    "places counted out, in reverse": (
        "rank_to_coordinate",
        """
        def rank_to_coordinate(rank, sizes):
            every = torch.cartesian_prod(*map(torch.arange, sizes.values())).view(-1, len(sizes))
            pairs = zip(sizes, every[rank].tolist())
            return dict(reversed(list(pairs)))
        """,
    ),
    "rank by steps": (
        "coordinate_to_rank",
        """
        def coordinate_to_rank(at, sizes):
            rank, step = 0, 1
            for axis in reversed(sizes):
                rank, step = rank + at[axis] * step, step * sizes[axis]
            return rank
        """,
    ),
    "rank by counting": (
        "coordinate_to_rank",
        """
        def coordinate_to_rank(at, sizes):
            every = range(math.prod(sizes.values()))
            return next(rank for rank in every if rank_to_coordinate(rank, sizes) == dict(at))
        """,
    ),
    "groups by sorting": (
        "groups_of",
        """
        def groups_of(axis, sizes):
            found = {}
            for rank in range(math.prod(sizes.values())):
                at = rank_to_coordinate(rank, sizes)
                del at[axis]
                found.setdefault(tuple(at.values()), []).append(rank)
            return list(found.values())
        """,
    ),
    "groups of a reshaped tensor, as tuples": (
        "groups_of",
        """
        def groups_of(axis, sizes):
            ranks = torch.arange(math.prod(sizes.values())).view(*sizes.values())
            rows = ranks.movedim(list(sizes).index(axis), -1).reshape(-1, sizes[axis])
            return tuple(tuple(row) for row in rows.tolist())
        """,
    ),
    "nodes without groups": (
        "place_on_nodes",
        """
        def place_on_nodes(sizes, per_node):
            most = {}
            for axis in sizes:
                nodes = {}
                for rank in range(math.prod(sizes.values())):
                    at = rank_to_coordinate(rank, sizes) | {axis: 0}
                    nodes.setdefault(tuple(at.items()), set()).add(rank // per_node)
                most[axis] = max(map(len, nodes.values()))
            return most
        """,
    ),
    "shards by tables": (
        "shard_of",
        """
        CUTS = {"tokens": (0, 1), "logits": (0, 1), "qkv": (0, 3), "up": (0, 1)}

        def shard_of(name, shape, layers, at, sizes):
            t, mine = sizes["tp"], at["tp"]
            places = name.split(".")
            if places[0] == "blocks":
                stages = torch.arange(layers).tensor_split(sizes["pp"])
                if int(places[1]) not in stages[at["pp"]].tolist():
                    return None
            elif at["pp"] != (0 if places[0] == "embedding" else sizes["pp"] - 1):
                return None
            whole = 0, [(0, shape[0])]
            if t == 1:
                return whole
            if places[-2:] in (["out", "weight"], ["down", "weight"]):
                return 1, [(mine * shape[1] // t, (mine + 1) * shape[1] // t)]
            if places[-2] not in CUTS:
                return whole
            dim, parts = CUTS[places[-2]]
            each = -(-shape[0] // parts // t)
            starts = [part * shape[0] // parts + mine * each for part in range(parts)]
            return dim, [[start, start + each] for start in starts]
        """,
    ),
    "bytes by cases": (
        "state_bytes",
        """
        def state_bytes(parameters, n, zero, mixed=True):
            whole = {True: (16, 4, 2, 0), False: (16, 8, 4, 0)}[mixed][zero]
            return whole * parameters + (16 - whole) * parameters / n
        """,
    ),
    "lists of views": (
        "zero1_step",
        changed(
            STEP,
            (SUM, "dist.reduce_scatter(grad, list(grads.chunk(n)), group=group)"),
            (GATHER, "dist.all_gather(list(weights.chunk(n)), share, group=group)"),
        ),
    ),
    "nothing new at all": (
        "zero1_step",
        changed(
            STEP,
            (MINE, MINE.replace(".clone()", "")),
            ("grad = torch.empty_like(share)", "grad = grads.chunk(n)[rank]"),
        ),
    ),
    "keywords, and handles that are waited for": (
        "zero1_step",
        changed(
            STEP,
            (SUM, "work = dist.reduce_scatter_tensor(output=grad, input=grads, group=group, "
             "async_op=True)\n    work.wait()"),
            (UPDATE, "update(grad=grad, share=share)"),
            (GATHER, "dist.all_gather_into_tensor(weights, share, group=group, "
             "async_op=True).wait()"),
        ),
    ),
    "a reduce and a broadcast for each share": (
        "zero1_step",
        changed(
            STEP,
            (SUM, "for i, part in enumerate(grads.chunk(n)):\n"
             "        dist.reduce(part, group_dst=i, group=group)\n"
             "    grad.copy_(grads.chunk(n)[rank])"),
            (GATHER, "weights.chunk(n)[rank].copy_(share)\n"
             "    for i, part in enumerate(weights.chunk(n)):\n"
             "        dist.broadcast(part, group_src=i, group=group)"),
        ),
    ),
    "a ring by hand": ("zero1_step", changed(STEP, (f"    {SUM}\n", _RING))),
    "no message for one rank": (
        "zero1_step",
        changed(STEP, ("share = weights", "if n == 1:\n        return update(weights, grads)\n"
                       "    share = weights")),
    ),
    "norms of torch, squared": (
        "global_grad_norm",
        changed(NORM, (ADD, "total = total + torch.linalg.vector_norm(grad, "
                       "dtype=torch.float64)**2 / times")),
    ),
    "all gradients in one": (
        "global_grad_norm",
        changed(
            NORM,
            (ADD, "total = total + (grad.double().flatten() / times**0.5).square().sum()"),
            (ROOT, "return total**0.5"),
        ),
    ),
    "one number of a list": (
        "global_grad_norm",
        changed(
            NORM,
            (REDUCE, "told = torch.tensor([total.item()], dtype=torch.float64)\n"
             "    dist.all_reduce(told, group=group)"),
            (ROOT, "return told[0].sqrt()"),
        ),
    ),
    "told in fp32": ("global_grad_norm", changed(NORM, (ROOT, "return total.sqrt().float()"))),
}  # fmt: skip
"""By what is special: the exercise and the text of its cell."""
