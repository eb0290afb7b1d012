"""Hidden cases of notebook 06: other clusters, other models, sizes that are no powers of two."""

from __future__ import annotations

import random

from labs import judging_alone as pure
from labs.grading.hidden import Hidden
from labs.grading.hidden.points import alone, formula
from labs.judging_alone import Asked, of_sizes
from labs.planner_widget.judging import best, colour, state, tables, valid


def _state(draw: random.Random) -> list[tuple]:
    return [
        (draw.randrange(10**8, 10**13), draw.choice((1, 3, 48, 96)), draw.choice((1, 5, 12)),
         draw.choice((1, 6, 16)), zero)
        for zero in range(4) for _ in range(3)
    ]  # fmt: skip


def _layout(draw: random.Random, sizes: tuple[int, ...]) -> dict[str, int]:
    layout = {axis: draw.choice(sizes) for axis in ("dp", "pp", "tp")}
    return layout | dict(mbs=draw.choice((1, 2, 5)))


def _valid(draw: random.Random) -> list[Asked]:
    """As many that can be as drawing gives, each also with one number spoilt."""
    found = []
    for _ in range(20):
        layout = _layout(draw, (1, 2, 5, 6, 10))
        kv = draw.choice((1, 5, 10, 30))
        model = dict(layers=draw.randrange(5, 61), heads=60, kv_heads=kv, d_ff=60 * 128)
        gpus = layout["dp"] * layout["pp"] * layout["tp"]
        batch = layout["dp"] * layout["mbs"] * draw.randrange(1, 9)
        found += [(model, gpus, batch, layout), (model, gpus + draw.choice((0, 1)), batch, layout),
                  (model, gpus, batch + draw.choice((0, 1)), layout)]  # fmt: skip
    labelled = [(f"{of_sizes(one[0])}, {one[1]}, {one[2]}, {of_sizes(one[3])}", one)
                for one in found]  # fmt: skip
    return labelled


def _colours(draw: random.Random) -> list[Asked]:
    found = []
    for _ in range(40):
        layout = _layout(draw, (1, 2, 3, 5, 6, 9, 10))
        batch = layout["dp"] * layout["mbs"] * draw.randrange(1, 99)
        found.append((draw.choice((2, 6, 10, 18, 72)), layout, batch))
    return [(f"{n} a node, {of_sizes(at)}, batch {b}", (n, at, b)) for n, at, b in found]


def _table_b(draw: random.Random) -> list[Asked]:
    found = []
    for _ in range(6):
        tp, rest = draw.choice((1, 3, 5, 12)), draw.choice((1, 6, 24, 96, 512))
        found.append((draw.uniform(1e8, 1e13), tp * rest, tp, draw.randrange(1, 200), 5 * rest))
    return [(f"{one}", one) for one in found]


def _table_c(draw: random.Random) -> list[Asked]:
    """Powers of 2, as the exercise says; any number of layers; more GPUs than the check shows."""
    found = []
    for most in (4, 6, 8, 10, 12, 12, 12):
        tp, rest = 2 ** draw.randrange(5), 2 ** draw.randrange(most - 4, most + 1)
        found.append((tp * rest, tp, draw.choice((1, 7, 48, 126)), 2 ** draw.randrange(13),
                      2 ** draw.randrange(5)))  # fmt: skip
    found.append((4096, 8, 96, 1024, 1))
    return [(f"{one}", one) for one in found]


CLUSTERS = ((36, 6, "A100-80GB", 10e9, 36, 144), (40, 8, "H100-80GB", 20e9, 50, 240),
            (96, 8, "H100-80GB", 13e9, 40, 192), (10, 2, "A100-80GB", 3e9, 20, 60))  # fmt: skip


def _best(draw: random.Random) -> list[Asked]:
    """Two of the clusters, and of each what fits in half of the memory too."""
    found = []
    for sizes in draw.sample(CLUSTERS, 2):
        costs = best.Costs(*sizes)
        by_bytes = [(held, s, at) for at, s, held in best.every(costs)]
        every = sorted(by_bytes, key=lambda one: one[:2])
        for memory in (every[len(every) // 2][0], every[-1][0]):
            fitting = [at for held, _, at in every if held <= memory]
            given = draw.choice(fitting)
            found.append((f"{sizes}, {memory:.3g} bytes", (sizes[0], memory, costs, given)))
    return found


CASES: dict[str, list[Hidden]] = {
    "state_bytes_per_gpu": [formula("other axes", state.expected, _state)],
    "is_valid": [
        alone("other models", _valid, valid.plain, valid.PROPERTIES, valid.judged)
    ],
    "regime": [
        alone("other nodes", _colours, colour.plain, colour.PROPERTIES, colour.judged)
    ],
    "prove_b": [
        alone("other clusters", _table_b, tables.plain_rows, tables.B_PROPERTIES, tables.judged_b)
    ],
    "prove_c": [
        alone("other clusters", _table_c, tables.plain_c, tables.C_PROPERTIES, tables.judged_c)
    ],
    "best_layout": [
        alone("other clusters", _best, pure.by_axis, best.PROPERTIES, best.judged)
    ],
}  # fmt: skip
