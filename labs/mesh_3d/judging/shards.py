"""The check of shard_of: every parameter of some models, at every place of some meshes.

What must come back is found index by index: layers are dealt out one after the other, and of each
number of the cut dimension it is asked whose it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product

import torch

from labs import judging_alone as pure
from labs.exercise import Verdict
from labs.gpt import GPT, Shape
from labs.judging_alone import Asked, Made, of_sizes
from labs.mesh_3d.judging import hints_shards
from labs.ranks.ship import Source

STAGES, CUT, VOCABULARY = "stages", "rows and columns", "vocabulary"
PROPERTIES = (STAGES, CUT, VOCABULARY)
COLUMN = ("attention.qkv.weight", "attention.qkv.bias", "mlp.up.weight", "mlp.up.bias")
ROW = ("attention.out.weight", "mlp.down.weight")
VOCAB = ("embedding.tokens.weight", "head.logits.weight")
_MOST = 100_000  # numbers of one shard, however wrong
_PASSED = {
    STAGES: "neighbouring layers, the first stages with one more",
    CUT: "every number once over tp: Q, K, V and mlp.up by outputs, out and down by inputs",
    VOCABULARY: "equal runs, also where tp does not divide it",
}


@cache
def parameters(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter of a whole model."""
    with torch.device("meta"):
        return {name: tuple(p.shape) for name, p in GPT(shape).named_parameters()}


def models(seed: int) -> list[tuple[Shape, dict[str, int]]]:
    """Models and meshes: sizes of one, odd ones, layers and vocabularies that do not divide."""
    draw = random.Random(seed)
    pp, tp = draw.randrange(3, 5), draw.choice((2, 3, 4))
    heads = tp * draw.randrange(1, 3)
    drawn = Shape(
        layers=pp + draw.randrange(1, pp), d=heads * draw.choice((2, 3, 5)), heads=heads, length=6,
        vocab=draw.randrange(17, 40), d_ff=tp * draw.randrange(7, 15),
    )  # fmt: skip
    return [
        (Shape(layers=4, d=8, heads=4, length=6, vocab=24), dict(dp=2, pp=2, tp=2)),
        (Shape(layers=4, d=8, heads=4, length=6, vocab=27), dict(dp=1, pp=1, tp=4)),
        (Shape(layers=13, d=6, heads=3, length=5, vocab=31, d_ff=15), dict(dp=1, pp=3, tp=3)),
        (Shape(layers=7, d=4, heads=2, length=5, vocab=12), dict(dp=2, pp=4, tp=1)),
        (Shape(layers=2, d=8, heads=8, length=4, vocab=9), dict(tp=8, cp=2, pp=2, dp=1)),
        (drawn, dict(dp=1, pp=pp, tp=tp)),
    ]


def asked_shards(seed: int, chosen: Sequence[tuple[Shape, dict[str, int]]] = ()) -> list[Asked]:
    """(name, shape, layers, at, sizes): every parameter on each tensor-parallel rank of its stage.

    chosen: models and meshes; without them those of the check.

    On the stages that lack a layer, one of its parameters and the first rank. The place on the
    other axes is drawn: it changes nothing.
    """
    draw = random.Random(seed + 4)
    found = []
    for model, sizes in chosen or models(seed):
        for (name, shape), pp, tp in product(
            parameters(model).items(), range(sizes["pp"]), range(sizes["tp"])
        ):
            of_layer = name.startswith("blocks.") and not name.endswith("attention.qkv.weight")
            place = dict(pp=pp, tp=tp)
            if (tp or of_layer) and right(name, shape, model.layers, place, sizes) is None:
                continue
            at = {axis: draw.randrange(size) for axis, size in sizes.items()} | place
            label = f"{of_sizes(sizes)}, {model.layers} layers, pp={pp} tp={tp}: {name} {shape}"
            found.append((label, (name, shape, model.layers, at, sizes)))
    return found


def plain(value: object) -> object:
    """None, or (dimension, [(first, end), …]); of anything else what type it has."""
    if value is None:
        return None
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return type(value).__name__
    dim, runs = value
    pairs = isinstance(runs, (tuple, list)) and all(
        isinstance(run, (tuple, list)) and len(run) == 2 for run in runs
    )
    if not pairs:
        return f"{type(value).__name__} of {type(dim).__name__} and {type(runs).__name__}"
    return pure.number(dim), [tuple(pure.number(end) for end in run) for run in runs]


def stage_of(layers: int, stages: int) -> list[int]:
    """The stage of each layer: dealt out in turn, then put in order."""
    return sorted(layer % stages for layer in range(layers))


def right(
    name: str, shape: Sequence[int], layers: int, at: Mapping[str, int], sizes: Mapping[str, int]
) -> tuple[int, list[int]] | None:
    """The dimension that is cut and the numbers that a rank holds of it; None: not on its stage."""
    first, last = 0, sizes["pp"] - 1
    if name.startswith("blocks."):
        stage = stage_of(layers, sizes["pp"])[int(name.split(".")[1])]
    else:
        stage = first if name.startswith("embedding.") else last
    if stage != at["pp"]:
        return None
    t, mine = sizes["tp"], at["tp"]
    if name in VOCAB:
        rows = -(-shape[0] // t)
        return 0, [row for row in range(rows * t) if row // rows == mine]
    dim = 1 if name.endswith(ROW) else 0
    size = shape[dim]
    if not name.endswith(COLUMN + ROW):
        return 0, list(range(size))
    part = size // 3 if ".qkv." in name else size
    return dim, [i for i in range(size) if i % part * t // part == mine]


def judge(function: Callable | Source, seed: int) -> list[Verdict]:
    """shard_of."""
    return pure.judge(
        function, asked_shards(seed), plain, PROPERTIES, judged, hints_shards.of_failure
    )


def judged(asked: Sequence[Asked], made: Sequence[Made], output: str) -> list[Verdict]:
    """The verdicts on the shards that came back."""
    return pure.first_faults(PROPERTIES, _PASSED, asked, made, _wrong, output, _shows)


def _shows(args: tuple, got: object, fault: str) -> Sequence[str]:
    """None for what the stage lacks is right, and speaks for nothing."""
    return () if fault or right(*args) is None else PROPERTIES


def numbers(runs: Sequence[tuple[int, int]]) -> list[int]:
    """All numbers of some runs, in their order."""
    return [i for first, end in runs for i in range(first, end)]


def _wrong(args: tuple, got: object) -> tuple[str, str, str] | None:
    name, shape, layers, at, sizes = args
    want = right(*args)
    judged_as = VOCABULARY if name in VOCAB else CUT
    if isinstance(got, str):
        hint = "(dimension, [(first, end), …]), with one run also where a list seems too much"
        return judged_as, f"the function returned {got}", hint
    if got is None or want is None:
        if got == want:
            return None
        told = "got None, but the stage holds it" if got is None else (
            f"got {got}, but stage {at['pp']} lacks it: expected None")  # fmt: skip
        return STAGES, told, hints_shards.of_stage(name, layers, sizes)
    dim, runs = got
    if type(dim) is not int or any(type(end) is not int for run in runs for end in run):
        return judged_as, f"got {got}", "indices are whole numbers: // gives them, / does not"
    if not all(0 <= first <= end for first, end in runs) or _many(runs):
        told = f"got dimension {dim}, {_shown(runs[:8])}; the shape is {tuple(shape)}"
        return judged_as, told, "(first, end) are numbers of one dimension, first to end - 1"
    whole = want[1] == list(range(shape[want[0]]))
    # What is held whole may be cut along any dimension, into all of it.
    right_dim = dim == want[0] or whole and 0 <= dim < len(shape)
    held = list(range(shape[dim])) if whole and right_dim else want[1]
    if right_dim and numbers(runs) == held:
        return None
    told = f"got dimension {dim}, {_shown(runs)}; expected dimension {want[0]}, "
    told += _shown(_runs(want[1]))
    return judged_as, told, hints_shards.of_cut(args, got, want)


def _many(runs: Sequence[tuple[int, int]]) -> bool:
    """Whether they are more numbers than any shard here has: too many to write down."""
    return len(runs) > _MOST or sum(end - first for first, end in runs) > _MOST


def _runs(held: Sequence[int]) -> list[tuple[int, int]]:
    """The fewest runs of some numbers."""
    found: list[tuple[int, int]] = []
    for i in held:
        if found and found[-1][1] == i:
            found[-1] = (found[-1][0], i + 1)
        else:
            found.append((i, i + 1))
    return found


def _shown(runs: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{first} to {end}" for first, end in runs) or "nothing"
