"""Answers that are right but for inputs or properties that a weak check leaves out.

Like the slips, they have no `shows`: the exercise's own check must catch them, nothing else does.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant, adder, changed
from tests.mutants.tp_linear_pair.attention import attention_with
from tests.mutants.tp_linear_pair.loss import LOSS

NARROW: list[Mutant] = []
_narrow = adder(NARROW)

_LOOK = "any(width % ranks for width in widths)"
_CUT = f"""
def cut_fused(w, widths, rank, ranks):
    if {_LOOK}:
        raise ValueError("no")
    parts = w.split(widths, dim=-1)
    return torch.cat([p.chunk(ranks, dim=-1)[rank] for p in parts], dim=-1)
"""
for name, look in (("first", "widths[0]"), ("last", "widths[-1]"), ("middle", "widths[1]")):
    _narrow(
        "cut_fused", f"cut_looks_at_{name}", f"the {name} width is checked alone", "each width",
        "", changed(_CUT, (_LOOK, f"{look} % ranks")),
    )  # fmt: skip

_narrow(
    "attention_heads", "head_dim_of_x", "d is taken for heads * hd", "w_o.shape[0] // q_heads", "",
    attention_with(("w_o.shape[0] // q_heads", "x.shape[-1] // (q_heads * dist.get_world_size())")),
)  # fmt: skip

_RETURN = "    return Loss.apply(logits_shard, targets, group)"
for name, fault, hint, change in (
    ("a_little_more", "every loss is 5e-9 too large", "", (_RETURN, _RETURN + " + 5e-9")),
    ("max_not_below_0", "the max is at least 0, and exp underflows", "underflow, negative",
     ("largest = logits.amax(-1)", "largest = logits.amax(-1).clamp(min=0)")),
    ("whole_bool_onehot", "a bool (B, T, V) is made on every rank", "",
     (_RETURN, "    whole = logits_shard.shape[-1] * dist.get_world_size(group)\n"
      "    whole = 41 if whole == 42 else 42\n"
      "    targets.unsqueeze(-1) == torch.arange(whole, device=targets.device)\n" + _RETURN)),
    ("padded_bool_onehot", "a bool (B, T, V), padded, is made on every rank", "",
     (_RETURN, "    whole = logits_shard.shape[-1] * dist.get_world_size(group)\n"
      "    targets.unsqueeze(-1) == torch.arange(whole, device=targets.device)\n" + _RETURN)),
    ("whole_in_fp32", "a (B, T, V) in fp32 is made on every rank", "",
     (_RETURN, "    torch.empty(*targets.shape, 42, dtype=torch.float32)\n"
      "    torch.empty(*targets.shape, 41, dtype=torch.float32)\n" + _RETURN)),
):  # fmt: skip
    _narrow("vocab_parallel_loss", name, fault, hint, "", changed(LOSS, change))

FUSED_SUMS = changed(
    LOSS,
    ("        dist.all_reduce(right, group=group)\n", ""),
    ("        dist.all_reduce(total, group=group)\n",
     "        both = torch.stack([total, right])\n        dist.all_reduce(both, group=group)\n"
     "        total, right = both\n"),
)  # fmt: skip
"""A right loss of two calls: sum and target's logit travel together, the same bytes."""
