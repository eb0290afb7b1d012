"""First mistakes of learners: most do not run to their end, or are right for a part of the inputs.

They have no `shows`: the exercise's own check must catch and name them, nothing else runs them.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant, adder, changed
from tests.mutants.tp_linear_pair.attention import attention_with

SLIPS: list[Mutant] = []
_slip = adder(SLIPS)

_slip(
    "reduce_from_ranks",
    "g_returns_all_reduce",
    "the function returns what dist.all_reduce returns",
    "all_reduce returns None",
    "",
    """
    def reduce_from_ranks(x, group=None):
        y = x.clone()
        return dist.all_reduce(y, group=group)
    """,
)
_slip(
    "copy_to_ranks",
    "f_backward_returns_all_reduce",
    "backward returns what dist.all_reduce returns",
    "all_reduce returns None",
    "",
    """
    class F_(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, group):
            ctx.group = group
            return x.view_as(x)

        @staticmethod
        def backward(ctx, grad):
            return dist.all_reduce(grad.clone(), group=ctx.group), None

    def copy_to_ranks(x, group=None):
        return F_.apply(x, group)
    """,
)
_slip(
    "column_parallel",
    "column_with_a_wrong_f",
    "the learner's own f does nothing",
    "although, check(copy_to_ranks)",
    "",
    """
    def copy_to_ranks(x, group=None):
        return x.view_as(x)

    def column_parallel(x, w_shard, b_shard):
        return copy_to_ranks(x) @ w_shard + b_shard
    """,
)
_slip(
    "row_parallel",
    "row_with_a_wrong_g",
    "the learner's own g does nothing",
    "although, check(reduce_from_ranks)",
    "",
    """
    def reduce_from_ranks(x, group=None):
        return x.view_as(x)

    def row_parallel(x_shard, w_shard, bias):
        return reduce_from_ranks(x_shard @ w_shard) + bias
    """,
)

_CUT = """
def cut_fused(w, widths, rank, ranks):
    if any(width % ranks for width in widths):
        raise ValueError("no")
    parts = w.split(widths, dim=-1)
    return torch.cat([p.chunk(ranks, dim=-1)[rank] for p in parts], dim=-1)
"""
for name, fault, hint, change in (
    ("cut_own_rank", "the argument rank is not used", "`rank` is not used",
     ("[rank]", "[dist.get_rank()]")),
    ("cut_own_world", "the argument ranks is not used", "`ranks` is not used",
     ("p.chunk(ranks, dim=-1)[rank]",
      "p.chunk(dist.get_world_size(), dim=-1)[rank % dist.get_world_size()]")),
    ("cut_rank_and_world", "neither is used", "neither `rank` nor `ranks`",
     ("p.chunk(ranks, dim=-1)[rank]",
      "p.chunk(dist.get_world_size(), dim=-1)[dist.get_rank()]")),
    ("cut_dim_0", "split along the first dimension", "dim=-1, columns",
     ("w.split(widths, dim=-1)", "w.split(widths)")),
    ("cut_strided", "every n-th column", "rank::ranks, strides",
     ("p.chunk(ranks, dim=-1)[rank]", "p[..., rank::ranks]")),
    ("cut_equal_chunks", "the parts are taken to be equally wide", "widths",
     ("w.split(widths, dim=-1)", "w.chunk(len(widths), dim=-1)")),
    ("cut_below", "the shares are put below each other", "torch.cat, dim=-1",
     ("for p in parts], dim=-1)", "for p in parts])")),
):  # fmt: skip
    _slip("cut_fused", name, fault, hint, "", changed(_CUT, change))

_SUMMED = (
    "        w_qkv = _sum_gradients_of_copies(w_qkv, q_heads * hd, copies)\n",
    "        b_qkv = _sum_gradients_of_copies(b_qkv, q_heads * hd, copies)\n",
)
_BEFORE = "    k, v = k.repeat_interleave("


def _only(*parts: str) -> str:
    """f over the copies on some of the columns of `w_qkv` and `b_qkv` alone."""
    lines = "        at, kv = q_heads * hd, kv_heads * hd\n"
    for name in ("w_qkv", "b_qkv"):
        q, k, v = f"{name}[..., :at]", f"{name}[..., at:at + kv]", f"{name}[..., at + kv:]"
        k = f"copy_to_ranks({k}, copies)" if "K" in parts else k
        v = f"copy_to_ranks({v}, copies)" if "V" in parts else v
        lines += f"        {name} = torch.cat([{q}, {k}, {v}], -1)\n"
    return lines


for name, fault, hint, changes in (
    ("f_on_k_and_v", "f on the activations", "way of k and v, columns",
     ((_SUMMED[0] + _SUMMED[1], "        pass\n"),
      (_BEFORE, "    if copies is not None:\n        k, v = copy_to_ranks(k, copies), "
                "copy_to_ranks(v, copies)\n" + _BEFORE))),
    ("f_on_v", "f on the activation v", "way of v, columns",
     ((_SUMMED[0] + _SUMMED[1], _only("K")),
      (_BEFORE, "    if copies is not None:\n        v = copy_to_ranks(v, copies)\n" + _BEFORE))),
    ("copies_none", "f over None where there are no copies", "copies is None",
     (("if copies is not None:", "if True:"),)),
    ("only_k", "V is not summed over the copies", "V's weights and V's bias",
     ((_SUMMED[0] + _SUMMED[1], _only("K")),)),
    ("only_v", "K is not summed over the copies", "of K's weights.",
     ((_SUMMED[0] + _SUMMED[1], _only("V")),)),
    ("heads_never_moved", "a reshape instead of the transpose, both ways", "transpose, alone",
     tuple((f"{p}.view(batch, sequence, {h}, hd).transpose(1, 2)",
            f"{p}.reshape(batch, {h}, sequence, hd)")
           for p, h in (("q", "q_heads"), ("k", "kv_heads"), ("v", "kv_heads")))
     + (("y.transpose(1, 2).reshape(", "y.reshape("),)),
    ("heads_attend", "no transpose at all", "heads of one token",
     tuple((f"{p}.view(batch, sequence, {h}, hd).transpose(1, 2)",
            f"{p}.view(batch, sequence, {h}, hd)")
           for p, h in (("q", "q_heads"), ("k", "kv_heads"), ("v", "kv_heads")))
     + (("k.repeat_interleave(each, dim=1), v.repeat_interleave(each, dim=1)",
         "k.repeat_interleave(each, dim=2), v.repeat_interleave(each, dim=2)"),
        ("y.transpose(1, 2).reshape(", "y.reshape("))),
    ("thirds", "the columns in three equal parts", "wider, thirds",
     (("qkv.split([q_heads * hd, kv_heads * hd, kv_heads * hd], dim=-1)", "qkv.chunk(3, -1)"),)),
    ("thirds_of_the_batch", "chunk along the batch", "wider, thirds",
     (("qkv.split([q_heads * hd, kv_heads * hd, kv_heads * hd], dim=-1)", "qkv.chunk(3)"),)),
    ("kv_not_repeated", "K and V keep their own number of heads", "repeat_interleave",
     (("k, v = k.repeat_interleave(each, dim=1), v.repeat_interleave(each, dim=1)", "pass"),)),
    ("attention_f_wrong", "the learner's own f does nothing", "although, check(copy_to_ranks)",
     (("\ndef attention_heads", "\ndef copy_to_ranks(x, group=None):\n    return x.view_as(x)\n\n"
       "def column_parallel(x, w, b):\n    return copy_to_ranks(x) @ w + b\n\n"
       "def attention_heads"),)),
):  # fmt: skip
    _slip("attention_heads", name, fault, hint, "", attention_with(*changes))

# A right loss as most first attempts are built: no backward of its own, g for the sums.
PLAIN = """
def vocab_parallel_loss(logits_shard, targets, group=None):
    width = logits_shard.shape[-1]
    m = logits_shard.detach().amax(-1)
    dist.all_reduce(m, op=dist.ReduceOp.MAX, group=group)
    shifted = logits_shard - m.unsqueeze(-1)
    total = reduce_from_ranks(shifted.exp().sum(-1), group)
    column = targets - dist.get_rank(group) * width
    here = (column >= 0) & (column < width)
    at = column.clamp(0, width - 1)
    right = shifted.gather(-1, at.unsqueeze(-1)).squeeze(-1)
    right = torch.where(here, right, 0.0)
    return total.log() - reduce_from_ranks(right, group)
"""
_WHERE = "right = torch.where(here, right, 0.0)"
_MAX = "    dist.all_reduce(m, op=dist.ReduceOp.MAX, group=group)\n"

for name, fault, hint, changes in (
    ("max_summed", "SUM in place of MAX", "op=dist.ReduceOp.MAX",
     ((", op=dist.ReduceOp.MAX", ""),)),
    ("max_in_graph", "the max is not detached", "detach the max",
     (("m = logits_shard.detach().amax(-1)", "m = logits_shard.max(-1).values"),)),
    ("max_in_graph_saved", "the max is not detached, and amax keeps it for backward",
     "detach the max", (("m = logits_shard.detach().amax(-1)", "m = logits_shard.amax(-1)"),)),
    ("own_max", "each rank takes its own max", "own max", ((_MAX, ""),)),
    ("own_max_added", "each rank subtracts and adds its own max", "own max",
     ((_MAX, ""), ("right = shifted.gather", "right = logits_shard.gather"),
      ("total.log() -", "total.log() + m -"))),
    ("no_mask", "every rank adds a logit", "contributes 0", ((_WHERE, "pass"),)),
    ("no_mask_unshifted", "every rank adds a logit", "contributes 0",
     ((_WHERE, "pass"), ("right = shifted.gather", "right = logits_shard.gather"),
      ("total.log() -", "total.log() + m -"))),
    ("edge", "<= in the range test", "edge of a shard", (("column < width", "column <= width"),)),
    ("edge_below", "> in the range test", "edge of a shard", (("column >= 0", "column > 0"),)),
    ("no_clamp", "negative indices in gather", "clamp",
     (("column.clamp(0, width - 1)", "column"),)),
    ("times_mask", "the mask is multiplied", "nan, torch.where",
     ((_WHERE, "right = right * here"),)),
    ("max_forgotten", "the max is not added again", "add it again",
     (("right = shifted.gather", "right = logits_shard.gather"),)),
    ("group_unused", "the argument group is not used", "`group` is not used",
     ((", group=group", ""), (".sum(-1), group)", ".sum(-1))"), ("(right, group)", "(right)"),
      ("get_rank(group)", "get_rank()"))),
    ("max_over_the_world", "one sum of three goes over the world", "`group` is not used",
     ((", group=group", ""),)),
    ("rank_of_the_world", "columns are counted by the rank in the world", "place in the group",
     (("get_rank(group)", "get_rank()"),)),
):  # fmt: skip
    _slip("vocab_parallel_loss", name, fault, hint, "", changed(PLAIN, *changes))

_slip(
    "vocab_parallel_loss",
    "cross_entropy_of_the_shard",
    "torch's cross-entropy of the shard, with the targets of the whole vocabulary",
    "F.cross_entropy, columns only",
    "",
    """
    def vocab_parallel_loss(logits_shard, targets, group=None):
        loss = F.cross_entropy(logits_shard.flatten(0, 1), targets.flatten(), reduction="none")
        return reduce_from_ranks(loss.view_as(targets), group)
    """,
)
_slip(
    "vocab_parallel_loss",
    "cross_entropy_of_the_holder",
    "torch's cross-entropy of the shard that holds the target",
    "F.cross_entropy, columns only",
    "",
    """
    def vocab_parallel_loss(logits_shard, targets, group=None):
        width = logits_shard.shape[-1]
        column = targets - dist.get_rank(group) * width
        here = (column >= 0) & (column < width)
        at = column.clamp(0, width - 1).flatten()
        loss = F.cross_entropy(logits_shard.flatten(0, 1), at, reduction="none")
        return reduce_from_ranks(torch.where(here, loss.view_as(targets), 0.0), group)
    """,
)
