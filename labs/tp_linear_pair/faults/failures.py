"""Answers that do not run to their end: from a rank's error to what probably lies behind it."""

from __future__ import annotations

import re

_KNOWN: tuple[tuple[str, str], ...] = (
    (r"the limit of .* was reached",
     "ranks wait for each other, or one never ends: every rank must make the same calls in the "
     "same order, also where a rank has nothing to add"),
    (r"(closed|reset) by peer",
     "a rank waited for another one that had already left: every rank must make the same calls in "
     "the same order"),
    (r"returned None(Type)?, not a", "the function ends without a `return`"),
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
    (r"split_with_sizes|shape '.*' is invalid for input",
     "q_heads and kv_heads are what THIS rank holds, and hd = w_o.shape[0] // q_heads"),
    (r"too many indices for tensor of dimension 1",
     "a bias has one dimension: index the last one, as in w[..., a:b]"),
    (r"NoneType", "something that the function calls returned None: is that function written yet?"),
)  # fmt: skip


def explain(failure: str) -> str:
    """A hint for the text of a failed run; empty where none is known."""
    return next((hint for pattern, hint in _KNOWN if re.search(pattern, failure)), "")
