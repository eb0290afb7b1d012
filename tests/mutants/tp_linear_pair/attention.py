"""Wrong attention: the right one with one place changed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, adder, changed

MUTANTS: list[Mutant] = []
_mutant = adder(MUTANTS)

_ATTENTION = """
def attention_heads(x, w_qkv, b_qkv, w_o, b_o, q_heads, kv_heads, copies=None):
    batch, sequence, d = x.shape
    hd = w_o.shape[0] // q_heads
    each = q_heads // kv_heads
    if copies is not None:
        w_qkv = _sum_gradients_of_copies(w_qkv, q_heads * hd, copies)
        b_qkv = _sum_gradients_of_copies(b_qkv, q_heads * hd, copies)
    qkv = column_parallel(x, w_qkv, b_qkv)
    q, k, v = qkv.split([q_heads * hd, kv_heads * hd, kv_heads * hd], dim=-1)
    q = q.view(batch, sequence, q_heads, hd).transpose(1, 2)
    k = k.view(batch, sequence, kv_heads, hd).transpose(1, 2)
    v = v.view(batch, sequence, kv_heads, hd).transpose(1, 2)
    k, v = k.repeat_interleave(each, dim=1), v.repeat_interleave(each, dim=1)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    y = y.transpose(1, 2).reshape(batch, sequence, q_heads * hd)
    return row_parallel(y, w_o, b_o)
"""


def attention_with(*changes: tuple[str, str]) -> str:
    """The right attention with the given places changed."""
    return changed(_ATTENTION, *changes)


_mutant(
    "attention_heads",
    "heads_permuted",
    "the result is reshaped without moving the heads back beside hd: heads and tokens mix",
    "heads, order",
    "value gradient",
    attention_with(("y = y.transpose(1, 2).reshape(", "y = y.reshape(")),
)
_mutant(
    "attention_heads",
    "heads_reversed",
    "the heads are put together in the opposite order",
    "heads, order",
    "value gradient",
    attention_with(("y = y.transpose(1, 2).reshape(", "y = y.flip(1).transpose(1, 2).reshape(")),
)
_mutant(
    "attention_heads",
    "wrong_kv_head",
    "query head i uses KV head i % kv instead of i // (q/kv)",
    "kv head",
    "value gradient",
    attention_with(
        (
            "k, v = k.repeat_interleave(each, dim=1), v.repeat_interleave(each, dim=1)",
            "k, v = k.repeat(1, each, 1, 1), v.repeat(1, each, 1, 1)",
        )
    ),
)
_mutant(
    "attention_heads",
    "qkv_read_by_groups",
    "the columns are read as [q k v] a KV head, not as [Q | K | V]",
    "part",
    "value gradient",
    attention_with(
        (
            "q, k, v = qkv.split([q_heads * hd, kv_heads * hd, kv_heads * hd], dim=-1)",
            "q, k, v = qkv.view(batch, sequence, kv_heads, -1).split([each * hd, hd, hd], dim=-1)",
        ),
        ("= q.view(", "= q.reshape("),
        ("= k.view(", "= k.reshape("),
        ("= v.view(", "= v.reshape("),
    ),
)
_mutant(
    "attention_heads",
    "not_causal",
    "a token sees those after it",
    "causal",
    "value gradient",
    attention_with(("is_causal=True", "is_causal=False")),
)
_mutant(
    "attention_heads",
    "attention_without_g",
    "no sum over the ranks after the output projection",
    "all-reduce",
    "value traffic",
    attention_with(("return row_parallel(y, w_o, b_o)", "return y @ w_o + b_o")),
)
_mutant(
    "attention_heads",
    "attention_bias_on_every_rank",
    "the output bias is added on every rank before the sum",
    "bias, once",
    "value",
    attention_with(("return row_parallel(y, w_o, b_o)", "return reduce_from_ranks(y @ w_o + b_o)")),
)
_mutant(
    "attention_heads",
    "copies_not_summed",
    "the gradients of copied KV heads are not summed over their copies",
    "copies",
    "gradient traffic",
    attention_with(("if copies is not None:", "if False:")),
    copies=True,
)
_mutant(
    "attention_heads",
    "copies_sum_queries_too",
    "the whole fused gradient is summed over the copies, that of the queries too",
    "copies, quer",
    "gradient traffic",
    attention_with(
        (
            "w_qkv = _sum_gradients_of_copies(w_qkv, q_heads * hd, copies)",
            "w_qkv = copy_to_ranks(w_qkv, copies)",
        )
    ),
    copies=True,
)
_mutant(
    "attention_heads",
    "copies_forget_bias",
    "the K and V weights' gradients are summed over the copies, their biases' are not",
    "copies, bias",
    "gradient traffic",
    attention_with(("        b_qkv = _sum_gradients_of_copies(b_qkv, q_heads * hd, copies)\n", "")),
    copies=True,
)
_mutant(
    "attention_heads",
    "attention_without_f",
    "x enters without f: its gradient is one rank's part",
    "f is missing",
    "gradient traffic",
    attention_with(("qkv = column_parallel(x, w_qkv, b_qkv)", "qkv = x @ w_qkv + b_qkv")),
)
_mutant(
    "attention_heads",
    "scores_not_scaled",
    "the scores are not multiplied by hd ** -0.5",
    "scaled",
    "value gradient",
    attention_with(("is_causal=True", "is_causal=True, scale=1.0")),
)
_mutant(
    "attention_heads",
    "scores_scaled_by_d",
    "the scores are scaled by the whole d, not by one head's size",
    "scaled, head",
    "value gradient",
    attention_with(("is_causal=True", "is_causal=True, scale=d**-0.5")),
)
_mutant(
    "attention_heads",
    "k_and_v_swapped",
    "the columns are read as [Q | V | K]",
    "K and V",
    "value gradient",
    attention_with(("q, k, v = qkv.split(", "q, v, k = qkv.split(")),
)
_mutant(
    "attention_heads",
    "heads_not_moved",
    "(B, heads, T, hd) by a view, without the transpose: heads and tokens mix on the way in",
    "heads, tokens",
    "value gradient",
    attention_with(
        (
            "q.view(batch, sequence, q_heads, hd).transpose(1, 2)",
            "q.reshape(batch, q_heads, -1, hd)",
        ),
        (
            "k.view(batch, sequence, kv_heads, hd).transpose(1, 2)",
            "k.reshape(batch, kv_heads, -1, hd)",
        ),
        (
            "v.view(batch, sequence, kv_heads, hd).transpose(1, 2)",
            "v.reshape(batch, kv_heads, -1, hd)",
        ),
    ),
)
