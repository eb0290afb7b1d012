"""The exercises of notebook 01: what is asked, how it is checked, the hint ladder.

Every answer runs on 2 and on 4 real ranks, in fp64, on inputs drawn for this one check. What is
judged is not the output alone: gradients and traffic too, and for the loss the largest tensor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from labs import formulas, ranks
from labs.exercise import FAILED, PASSED, Exercise, Verdict
from labs.judging import broke, judge_formula, not_reached
from labs.ranks.ship import Source
from labs.tp_linear_pair import trial
from labs.tp_linear_pair.cases import cases
from labs.tp_linear_pair.faults import diagnose
from labs.tp_linear_pair.faults.failures import explain
from labs.tp_linear_pair.properties import (
    GRADIENTS,
    MEMORY,
    PROPERTIES,
    REFUSAL,
    TRAFFIC,
    VALUES,
)
from labs.tp_linear_pair.trial import Case


def judge_on_ranks(name: str, properties: tuple[str, ...]) -> Callable[..., list[Verdict]]:
    """A judge that runs the answer on each case of a seed."""

    def judge(function: Callable | Source, seed: int) -> list[Verdict]:
        return judge_on_cases(name, properties, function, cases(name, seed))

    return judge


def judge_on_cases(
    name: str, properties: tuple[str, ...], function: Callable | Source, asked: Sequence[Case]
) -> list[Verdict]:
    """The verdicts of an answer on these cases; of each property the first failure is shown."""
    told: dict[str, Verdict] = {}
    widest = 0
    for case in asked:
        try:
            seen = trial.run(function, case)
        except ranks.RunFailed as failed:
            return _broke(properties, failed, name, function, case.label)
        except ValueError as refused:  # it cannot be sent to a rank
            return not_reached(properties, Verdict(properties[0], FAILED, str(refused)))
        now = [replace(PROPERTIES[p](seen), output=seen.output) for p in properties]
        if any(verdict.state == FAILED for verdict in now):
            now = _explained(now, diagnose(name, seen))
        elif seen.in_graph:
            now[0] = replace(now[0], hint=_IN_GRAPH)
        wider, widest = case.ranks > widest, max(widest, case.ranks)
        for verdict in now:  # of what passed, that on most ranks is shown
            new = wider or verdict.state == FAILED
            if verdict.name not in told or (told[verdict.name].state == PASSED and new):
                told[verdict.name] = verdict
    return list(told.values())


_IN_GRAPH = (
    "torch warns of this: dist.all_reduce inside the graph may be silently wrong, and its support "
    "by autograd is deprecated. It is right here; a torch.autograd.Function says what you mean"
)


def _broke(
    properties: tuple[str, ...], failed: ranks.RunFailed, name: str, function: Callable | Source,
    where: str,
) -> list[Verdict]:  # fmt: skip
    return broke(properties, failed, explain(str(failed), name, function), where)


def _explained(verdicts: list[Verdict], hints: list[str]) -> list[Verdict]:
    """Give the hints to the first property that failed."""
    first = next(verdict for verdict in verdicts if verdict.state == FAILED)
    text = "; also: ".join(hints)
    return [replace(v, hint=text) if v is first else v for v in verdicts]


_ROUNDED = "the formula does not round: divide with /, without // or int()"


def _judge_allreduce_bytes(function: Callable | Source, seed: int) -> list[Verdict]:
    draw = random.Random(seed)
    asked = [(4096, 1), (4096, 2), (960, 3), (draw.randrange(1, 10**6) * 8, 4), (10, 3), (2.5, 4)]

    def inputs(payload: float, size: int) -> str:
        return f"payload {payload:,} bytes, {size} rank{'s' * (size > 1)}"

    def rounded(point: tuple, got: float) -> str:
        payload, size = point
        near = abs(got - formulas.ring_all_reduce_bytes(payload, size)) < 2 * size
        return _ROUNDED if payload in (10, 2.5) and near else ""

    return judge_formula(
        function, asked, formulas.ring_all_reduce_bytes, inputs, "bytes", hint=rounded
    )


def _graded(
    name: str, objective: str, difficulty: int, minutes: int, hints: tuple[str, ...],
    *more: str,
) -> Exercise:  # fmt: skip
    properties = (VALUES, GRADIENTS, TRAFFIC, *more)
    return Exercise(
        name, "tp_linear_pair", "graded", objective, difficulty, minutes, hints, properties,
        judge_on_ranks(name, properties),
    )  # fmt: skip


_ALL = (
    Exercise(
        "allreduce_bytes", "tp_linear_pair", "practice",
        "Count the bytes that a ring all-reduce makes each rank send.", 1, 5,
        ("A ring all-reduce is a reduce-scatter followed by an all-gather.",
         "Each of the two takes t-1 steps, and in each step a rank sends one t-th of the tensor."),
        ("values",), _judge_allreduce_bytes,
    ),
    _graded(
        "copy_to_ranks", "Write f: identity forward, all-reduce backward.", 2, 10,
        ("Two directions that differ: that is what torch.autograd.Function is for.",
         "forward(ctx, x, group) stores group in ctx and returns x as a new view.",
         "backward(ctx, grad) sums grad over ctx.group; all_reduce works in place, so clone first.")
    ),
    _graded(
        "reduce_from_ranks", "Write g: all-reduce forward, identity backward.", 2, 10,
        ("The mirror image of f.",
         "The output is one tensor that all ranks hold; all of them compute the same loss from it.",
         "So the gradient that arrives is already the gradient of your summand: pass it on."),
    ),
    _graded(
        "column_parallel", "A linear layer whose columns are shared out.", 1, 5,
        ("Each rank can work out its own columns of y without hearing from anybody.",
         "x is replicated: which of f and g makes its gradient whole?"),
    ),
    _graded(
        "row_parallel", "A linear layer whose rows are shared out.", 2, 10,
        ("A product of columns of x with rows of w is a summand of the whole product.",
         "One of f and g turns summands into the sum.",
         "How often is the bias in your sum? Its gradient must come out right as well."),
    ),
    _graded(
        "cut_fused", "Cut [gate | up] and [Q | K | V] so that each rank gets some of each.", 2, 10,
        ("Cut the matrix into its parts first.", "Then give each rank its share of every part.",
         "Each part must divide by itself; `...` in an index lets a bias pass as well."),
        REFUSAL,
    ),
    _graded(
        "attention_heads", "Attention over this rank's heads, grouped queries included.", 4, 30,
        ("Column-parallel in, heads apart, row-parallel out: you have both layers.",
         "(B, T, heads*hd) → view (B, T, heads, hd) → transpose (B, heads, T, hd), then back.",
         "The columns of w_qkv and b_qkv that make a copied KV head are replicated tensors: each "
         "of their ranks does a part of the work with them. What stands where such tensors enter?",
         "That is on the columns of K and V only, over the group `copies`, and only where there "
         "are copies; the activations k and v stay as they are."),
    ),
    _graded(
        "vocab_parallel_loss", "Cross-entropy without ever holding all logits (extension).", 5, 45,
        ("loss = log(sum of exp(logit)) - target's logit; subtract the largest logit first.",
         "Largest, sum, and target's logit each need one all-reduce of (B, T).",
         "Subtract rank * V/t from the target; a rank that does not hold it contributes 0 "
         "(torch.where, not times 0); clamp before gather.",
         "Backward is softmax minus one at the target's column: no message, if you write it "
         "yourself."),
        MEMORY,
    ),
)  # fmt: skip
EXERCISES: dict[str, Exercise] = {exercise.name: exercise for exercise in _ALL}
