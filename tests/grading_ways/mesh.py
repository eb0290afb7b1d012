"""Right parts of notebook 05 and tables of 06, written in other ways than the course's."""

PLACES = {
    "by recursion": """
def rank_to_coordinate(rank, sizes):
    if not sizes:
        return {}
    *others, last = sizes
    rest = rank_to_coordinate(rank // sizes[last], {axis: sizes[axis] for axis in others})
    return {**rest, last: rank % sizes[last]}
""",
    "torch's unravel_index": """
import torch

def rank_to_coordinate(rank: int, sizes) -> dict[str, int]:
    places = torch.unravel_index(torch.tensor(rank), tuple(sizes.values()))
    return {axis: int(place) for axis, place in zip(sizes, places)}
""",
}

RANKS = {
    "a sum of strides": """
import math

def strides(sizes):
    every = list(sizes.values())
    return {axis: math.prod(every[i + 1 :]) for i, axis in enumerate(sizes)}
# %%
def coordinate_to_rank(at, sizes):
    steps = strides(sizes)
    return sum(at[axis] * steps[axis] for axis in sizes)
""",
    "folded": """
from functools import reduce

def coordinate_to_rank(at, sizes):
    return reduce(lambda rank, axis: rank * sizes[axis] + at[axis], sizes, 0)
""",
}

GROUPS = {
    "by strides": """
import math

def groups_of(axis, sizes):
    names = list(sizes)
    step = math.prod(sizes[name] for name in names[names.index(axis) + 1 :])
    world, n = math.prod(sizes.values()), sizes[axis]
    firsts = [rank for rank in range(world) if rank // step % n == 0]
    return [[first + i * step for i in range(n)] for first in firsts]
""",
    "ranks that are alike in all else": """
import math

def groups_of(axis, sizes):
    at = [rank_to_coordinate(rank, sizes) for rank in range(math.prod(sizes.values()))]

    def alike(a, b):
        return all(a[name] == b[name] for name in sizes if name != axis)

    found = []
    for rank, place in enumerate(at):
        if place[axis] == 0:
            group = [other for other in range(len(at)) if alike(place, at[other])]
            found.append(sorted(group, key=lambda one: at[one][axis]))
    return found
""",
}

NODES = {
    "a set a group": """
def place_on_nodes(sizes, per_node):
    most = {}
    for axis in sizes:
        most[axis] = 0
        for group in groups_of(axis, sizes):
            nodes = set(map(lambda rank: rank // per_node, group))
            most[axis] = max(most[axis], len(nodes))
    return most
""",
    "sorted and counted": """
from itertools import groupby

def nodes(group, per_node):
    return sum(1 for _ in groupby(sorted(group), key=lambda rank: rank // per_node))
# %%
def place_on_nodes(sizes, per_node):
    counts = {}
    for axis in sizes:
        counts[axis] = max([nodes(group, per_node) for group in groups_of(axis, sizes)])
    return counts
""",
    "a tensor of nodes": """
import torch

def place_on_nodes(sizes, per_node):
    shape = list(sizes.values())
    node = torch.arange(torch.Size(shape).numel()).reshape(shape) // per_node
    return {
        axis: max(len(row.unique()) for row in node.movedim(i, -1).reshape(-1, shape[i]))
        for i, axis in enumerate(sizes)
    }
""",
}

SHARDS = {
    "a class of rules": """
class Rules:
    def __init__(self, tp, place):
        self.t, self.i = tp, place

    def equal(self, start, size):
        each = size // self.t
        return (start + self.i * each, start + (self.i + 1) * each)

    def padded(self, size):
        each = (size + self.t - 1) // self.t
        return (self.i * each, self.i * each + each)
# %%
def stage_of(name, layers, stages):
    part = name.split(".")
    if part[0] != "blocks":
        return {"embedding": 0, "head": stages - 1}[part[0]]
    sizes = [layers // stages + (s < layers % stages) for s in range(stages)]
    block = int(part[1])
    for stage, size in enumerate(sizes):
        if block < size:
            return stage
        block -= size
# %%
def shard_of(name, shape, layers, at, sizes):
    if stage_of(name, layers, sizes["pp"]) != at["pp"]:
        return None
    rules = Rules(sizes["tp"], at["tp"])
    match name.split("."):
        case ["embedding", "tokens", "weight"] | ["head", "logits", "weight"]:
            return 0, [rules.padded(shape[0])]
        case [*_, "attention", "qkv", _]:
            third = shape[0] // 3
            return 0, [rules.equal(i * third, third) for i in range(3)]
        case [*_, "mlp", "up", _]:
            return 0, [rules.equal(0, shape[0])]
        case [*_, "attention", "out", "weight"] | [*_, "mlp", "down", "weight"]:
            return 1, [rules.equal(0, shape[1])]
    return 0, [(0, shape[0])]
""",
    "patterns": r"""
import re

COLUMN = r"blocks\.\d+\.(attention\.qkv|mlp\.up)\."
ROW = r"blocks\.\d+\.(attention\.out|mlp\.down)\.weight"
VOCABULARY = r"embedding\.tokens\.weight|head\.logits\.weight"
# %%
def shard_of(name, shape, layers, at, sizes):
    stage, stages, i, t = at["pp"], sizes["pp"], at["tp"], sizes["tp"]
    found = re.match(r"blocks\.(\d+)\.", name)
    if found:
        each, more = divmod(layers, stages)
        owners = [s for s in range(stages) for _ in range(each + (1 if s < more else 0))]
        mine = owners[int(found[1])] == stage
    else:
        mine = stage == (0 if name.startswith("embedding") else stages - 1)
    if not mine:
        return None
    if re.fullmatch(VOCABULARY, name):
        rows = -(-shape[0] // t)
        return (0, [(rows * i, rows * (i + 1))])
    if re.match(COLUMN, name):
        parts = 3 if "qkv" in name else 1
        size = shape[0] // parts
        mine = (size * i // t, size * (i + 1) // t)
        return (0, [tuple(p * size + end for end in mine) for p in range(parts)])
    if re.fullmatch(ROW, name):
        return (1, [(shape[1] * i // t, shape[1] * (i + 1) // t)])
    return (0, [(0, shape[0])])
""",
    "torch cuts numbers": """
import torch

def runs(kept):
    kept = kept.tolist()
    return [(kept[0], kept[-1] + 1)]


def holds(name, layers, at, sizes):
    pp, last = at["pp"], sizes["pp"] - 1
    if name.startswith("embedding."):
        return pp == 0
    if name.startswith("head."):
        return pp == last
    blocks = torch.arange(layers).tensor_split(sizes["pp"])[pp]
    return int(name.split(".")[1]) in blocks
# %%
def shard_of(name, shape, layers, at, sizes):
    if not holds(name, layers, at, sizes):
        return None
    tp, t = at["tp"], sizes["tp"]
    dim = 1 if name.endswith(("attention.out.weight", "mlp.down.weight")) else 0
    numbers = torch.arange(shape[dim])
    if ".qkv." in name:
        return 0, [run for part in numbers.chunk(3) for run in runs(part.chunk(t)[tp])]
    if ".up." in name or dim == 1:
        return dim, runs(numbers.chunk(t)[tp])
    if name.endswith(("tokens.weight", "logits.weight")):
        padded = torch.arange((shape[0] + t - 1) // t * t)
        return 0, runs(padded.view(t, -1)[tp])
    return 0, runs(numbers)
""",
}

TABLE_B = {
    "a generator": """
def rows_of(parameters, gpus, tp, m, batch):
    pp, dp = 1, gpus // tp
    while True:
        bubbles = [(pp - 1) / (each + pp - 1) for each in (m, batch // dp)]
        names = ("dp", "pp", "state", "bubble_fixed", "bubble_batch")
        yield dict(zip(names, (dp, pp, 16 * parameters / gpus, *bubbles)))
        if dp % 2:
            return
        pp, dp = 2 * pp, dp // 2
# %%
def prove_b(parameters, gpus, tp, micro_batches, batch):
    return list(rows_of(parameters, gpus, tp, micro_batches, batch))
""",
}

TABLE_C = {
    "bits": """
def prove_c(gpus: int, tp: int, layers: int, batch: int, mbs: int):
    most = min(gpus // tp, layers)
    rows = []
    for power in reversed(range(most.bit_length())):
        pp = 1 << power
        dp = gpus // (tp * pp)
        if batch < dp * mbs:
            return rows, "batch"
        m = batch // dp // mbs
        rows.append(dict(bubble=(pp - 1) / (pp + m - 1), m=m, pp=pp, dp=dp))
    return rows, "pp = 1"
""",
}

WAYS = {
    "rank_to_coordinate": PLACES,
    "coordinate_to_rank": RANKS,
    "groups_of": GROUPS,
    "place_on_nodes": NODES,
    "shard_of": SHARDS,
    "prove_b": TABLE_B,
    "prove_c": TABLE_C,
}
