"""The exercises of notebook 05: what is asked, how it is checked, the hint ladder."""

from __future__ import annotations

from labs.exercise import Exercise
from labs.judging import FORMULA
from labs.mesh_3d.judging import coordinates, groups, judge_norm, judge_step, nodes, shards, state

TOPIC = "mesh_3d"


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
        ("First the stage: is the parameter on it? Then the tensor-parallel rank: which dimension "
         "is cut?",
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
        (FORMULA,), state.judge,
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
