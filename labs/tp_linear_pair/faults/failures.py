"""Answers that do not run to their end: from a rank's error to what probably lies behind it."""

from __future__ import annotations

import re
from collections.abc import Callable

from labs.ranks.ship import Source
from labs.tp_linear_pair.faults import reading

_KNOWN: tuple[tuple[str, str], ...] = (
    (r"the limit of .* was reached",
     "a rank never ends, or others wait for it: every rank must make the same calls in the same "
     "order, also where a rank has nothing to add"),
    (r"deadlock: |do not fit",
     "every rank must make the same calls in the same order, with tensors of one shape, also "
     "where a rank has nothing to add"),
    (r"(closed|reset) by peer",
     "a rank waited for another one that had already left: every rank must make the same calls in "
     "the same order"),
    (r"returned None(Type)?, not a",
     "the function ends without a `return`, or what it returns is None already"),
    (r"returned (list|tuple), not a tensor", "return the tensor itself"),
    (r"returned an incorrect number of gradients",
     "backward returns one gradient for each argument of forward; None for what is no tensor, like "
     "the group"),
    (r"leaf Variable that requires grad is being used in an in-place|"
     r"modified by an inplace operation|view was created inside a custom Function",
     "all_reduce works in place: clone the tensor, sum into the clone, and hand that on"),
    (r"is not contiguous|must be contiguous",
     "a collective wants contiguous memory: send `tensor.contiguous()`"),
    (r"autograd function with non-static",
     "forward and backward of a torch.autograd.Function are static methods"),
    (r"mat1 and mat2 shapes cannot be multiplied",
     "weights are stored as (in, out), so a layer is x @ w; and each rank has a shard of it"),
    (r"NoneType", "something that the function calls returned None: is that function written yet?"),
)  # fmt: skip

_OF: dict[str, tuple[tuple[str, str], ...]] = {
    "attention_heads": (
        (r"split_with_sizes|shape '.*' is invalid for input|not enough values to unpack",
         "q_heads and kv_heads are what THIS rank holds, and hd = w_o.shape[0] // q_heads; Q, K "
         "and V lie side by side in the last dimension"),
        (r"must match the size of tensor b .* at non-singleton dimension",
         "K and V have fewer heads than Q: each of them serves q_heads // kv_heads query heads "
         "(repeat_interleave along the heads)"),
    ),
    "cut_fused": (
        (r"split_with_sizes",
         "the parts lie side by side in the columns: `split` cuts along the first dimension unless "
         "you pass dim=-1"),
        (r"too many indices for tensor of dimension 1",
         "a bias has one dimension: index the last one, as in w[..., a:b]"),
    ),
    "vocab_parallel_loss": (
        (r"Target -?\d+ is out of bounds",
         "F.cross_entropy of a shard knows this rank's columns only, and neither the other "
         "targets nor the other ranks' sum of exponentials: build the loss of max, sum and "
         "target's logit, each all-reduced"),
        (r"out of bounds",
         "targets count columns of the whole vocabulary: take rank * V/t off, note which are left "
         "between 0 and V/t, and clamp the others before gather"),
        (r"modified by an inplace operation|leaf Variable .* in-place",
         "all_reduce works in place, and autograd still needs what was there. Detach the max: it "
         "needs no gradient; sum the others in a torch.autograd.Function, as g does"),
    ),
}  # fmt: skip
"""Of one exercise alone: the same error means something else in another."""


def explain(failure: str, exercise: str = "", function: Callable | Source | None = None) -> str:
    """A hint for the text of a failed run; empty where none is known."""
    if function is not None and re.search(r"None(Type)?\b", failure):
        if reading.lost_all_reduce(function):
            return reading.LOST_RESULT
        if not reading.returns(function):
            return "the function ends without a `return`"
    known = [*_OF.get(exercise, ()), *_KNOWN]
    hint = next((hint for pattern, hint in known if re.search(pattern, failure)), "")
    in_thirds = function is not None and reading.says(function, ".chunk(3")
    if exercise == "attention_heads" and in_thirds and "side by side" in hint:
        return "Q is wider than K and V: split the last dimension by its widths, not in thirds"
    return hint
