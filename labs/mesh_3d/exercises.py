"""The exercises of notebook 05: what is asked, how it is checked, the hint ladder."""

from __future__ import annotations

import random
from collections.abc import Callable

from labs.exercise import Exercise, Verdict
from labs.formulas.zero import state_bytes
from labs.judging import FORMULA, judge_formula
from labs.mesh_3d.judging import coordinates, groups, judge_norm, judge_step, nodes, shards
from labs.ranks.ship import Source

TOPIC = "mesh_3d"


def state_points(seed: int) -> list[tuple[int, int, int, bool]]:
    """(parameters, n, zero, mixed): every stage in both kinds, and drawn ones; n = 1, 3 too."""
    draw = random.Random(seed)
    found = [(7_500_000_000, 64, zero, True) for zero in (0, 1, 2, 3)]
    found += [(1000, 8, zero, False) for zero in (0, 1, 2, 3)]
    found += [(1000, 1, 3, True), (1000, 3, 1, True), (1001, 3, 2, False)]
    for zero in (1, 2, 3):
        found += [
            (draw.randrange(10**3, 10**7), draw.randrange(2, 33), zero, mixed)
            for mixed in (True, False)
        ]
    return found


def state_inputs(parameters: int, n: int, zero: int, mixed: bool) -> str:
    """A point in words."""
    kind = "bf16 and fp32" if mixed else "fp32 alone"
    return f"{parameters:,} parameters, n = {n}, ZeRO-{zero}, {kind}"


def state_hint(point: tuple, got: float) -> str:
    """What a wrong number of bytes probably forgot."""
    p, n, zero, mixed = point
    right = state_bytes(*point)
    weights, grads, optimizer = (2, 2, 12) if mixed else (4, 4, 8)
    slips = [
        (state_bytes(p, n, zero, not mixed), "mixed was taken for its opposite, or not looked at"),
        (16 * p, "nothing is shared out here: from ZeRO-1 on the optimizer's state is divided by "
         "n, from ZeRO-2 on gradients, under ZeRO-3 weights"),
        (16 * p / n, "everything is divided by n here: ZeRO-1 shares out the optimizer's state "
         "alone, ZeRO-2 gradients as well, ZeRO-3 weights as well"),
        (right * n, "that is what all n ranks hold together"),
        (right - _shared(p, n, zero >= 1, 4 if mixed else 0), "the fp32 master copy is missing: "
         "it is part of the optimizer's state, 4 bytes beside 8 of m and v"),
        (right + _shared(p, n, zero >= 1, 4), "m and v make 8 bytes; without bf16 weights there is "
         "no master copy"),
        (right + _shared(p, n, zero >= 2, 2), "fp32 gradients beside bf16 weights make 18 bytes a "
         "parameter, which others count; here gradients are bf16, 2 bytes"),
        (right / p, "that is bytes a parameter"),
        (p * (weights + _share(n, zero >= 2) * grads + _share(n, zero >= 3) * optimizer),
         "the optimizer's state is shared out first, by ZeRO-1: it is the largest part"),
        (p * (_share(n, zero >= 2) * weights + _share(n, zero >= 3) * grads
              + _share(n, zero >= 1) * optimizer),
         "ZeRO-2 shares out gradients, ZeRO-3 weights: weights are the last, because all passes "
         "need them"),
        (p * (weights + grads + _share(n, zero >= 1) * optimizer), "from ZeRO-2 on gradients are "
         "shared out as well, and under ZeRO-3 weights"),
    ]  # fmt: skip
    for zeros in {zero - 1, zero + 1} & {0, 1, 2, 3}:
        slips.append((state_bytes(p, n, zeros, mixed), f"that is ZeRO-{zeros}, not ZeRO-{zero}"))
    near = (why for slip, why in slips if slip != right and abs(got - slip) <= 1e-9 * abs(slip))
    return next(near, "")


def _share(n: int, shared: bool) -> float:
    return 1 / n if shared else 1


def _shared(parameters: int, n: int, shared: bool, each: int) -> float:
    return parameters * each * _share(n, shared)


def _judge_state(function: Callable | Source, seed: int) -> list[Verdict]:
    return judge_formula(
        function, state_points(seed), state_bytes, state_inputs, "bytes", hint=state_hint
    )


_ALL = (
    Exercise(
        "rank_to_coordinate", TOPIC, "graded", "Say where a rank stands on the mesh.", 1, 10,
        ("On which axis does rank 1 stand one place further than rank 0? On which one does rank "
         "TP?",
         "divmod(rank, size) of the last axis gives the place on it, and what is left for the "
         "others.",
         "Go through reversed(sizes), and keep what is left over for the next axis."),
        coordinates.PROPERTIES, coordinates.judge_places,
    ),
    Exercise(
        "coordinate_to_rank", TOPIC, "graded", "Say which rank stands at a place.", 1, 5,
        ("How many ranks further is one step on pp? On dp?",
         "rank = (dp·PP + pp)·TP + tp, for any axes: start with 0, and go through sizes from the "
         "slowest on.",
         "In each round rank = rank * size + at[axis]."),
        coordinates.PROPERTIES, coordinates.judge_ranks,
    ),
    Exercise(
        "groups_of", TOPIC, "graded", "List the process groups along an axis.", 2, 15,
        ("A tensor-parallel group: which of its ranks' places are alike, and which differ?",
         "For each choice of places on all other axes there is one group.",
         "itertools.product over the other axes' ranges gives the choices in the order asked for; "
         "coordinate_to_rank gives the ranks."),
        groups.GROUPS, groups.judge_groups,
    ),
    Exercise(
        "place_on_nodes", TOPIC, "graded",
        "Extension: say which axis' traffic stays inside a node.", 2, 15,
        ("On which node is rank r, if 0 to per_node - 1 are on the first?",
         "groups_of lists an axis' groups: of each, how many different nodes are its ranks on?",
         "A set has each node once. max() of the groups, as some may lie across a border."),
        nodes.PROPERTIES, nodes.judge,
    ),
    Exercise(
        "shard_of", TOPIC, "graded", "Say which part of which parameter a rank holds.", 3, 30,
        ("First the stage: is the parameter on it? Then tensor parallelism: which dimension is cut?",
         "Column-parallel layers (qkv, up) cut outputs, dimension 0, their biases with them. "
         "Row-parallel ones (out, down) cut inputs, dimension 1, and their biases are whole.",
         "qkv is three matrices in one: a third each, and of each third the rank's run.",
         "math.ceil(V / tp) rows of the vocabulary on each rank, the last run past the end if need "
         "be. divmod(layers, pp): the first `more` stages have one layer more."),
        shards.PROPERTIES, shards.judge,
    ),
    Exercise(
        "state_bytes", TOPIC, "practice", "Count the bytes of state that ZeRO leaves a rank.", 1, 5,
        ("16 bytes a parameter in both kinds: which of them are weights, gradients, optimizer?",
         "bf16 2 + 2 + 12 (master, m, v), fp32 4 + 4 + 8. Which of the three does each stage "
         "divide by n?",
         "The optimizer's from stage 1 on, gradients' from stage 2, weights' from stage 3."),
        (FORMULA,), _judge_state,
    ),
    Exercise(
        "zero1_step", TOPIC, "graded",
        "Update a share of the weights on each rank, and put the shares together.", 3, 25,
        ("An all-reduce is a reduce-scatter and an all-gather. What can happen between the two?",
         "reduce-scatter brings each rank the sum of its share of gradients; update changes its "
         "share of the weights; all-gather brings everyone the new shares.",
         "weights.chunk(n)[rank] is this rank's share, a view. torch.empty_like of it is where "
         "dist.reduce_scatter_single(out, grads, group=group) writes.",
         "dist.all_gather_single(weights, share, group=group) writes into weights itself. n and "
         "rank are those of the group: dist.get_world_size(group), dist.get_rank(group)."),
        judge_step.PROPERTIES, judge_step.judge,
    ),
    Exercise(
        "global_grad_norm", TOPIC, "graded",
        "The norm of gradients that no rank holds whole.", 2, 20,
        ("Norms do not add up. What does?",
         "Each rank: the sum of its squares. Then one all-reduce of that number, then the root.",
         "Where two ranks hold the same numbers, both add their squares to the sum: what must each "
         "of them be divided by to count once?",
         "torch.zeros((), dtype=torch.float64) to begin with, so that nothing overflows, and a "
         "rank without gradients sends a 0; grad.double().square().sum() / times of each."),
        judge_norm.PROPERTIES, judge_norm.judge,
    ),
)  # fmt: skip
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
