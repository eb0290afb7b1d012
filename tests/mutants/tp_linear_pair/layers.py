"""Wrong column-parallel and row-parallel layers, wrong cuts, and the order that costs a sum."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, adder

MUTANTS: list[Mutant] = []
_mutant = adder(MUTANTS)

_mutant(
    "column_parallel",
    "column_without_f",
    "f is left out at the entry: the output is right, dX is one rank's part",
    "copy_to_ranks",
    "gradient traffic",
    """
    def column_parallel(x, w_shard, b_shard):
        return x @ w_shard + b_shard
    """,
)
_mutant(
    "column_parallel",
    "column_bias_forgotten",
    "the bias is left out",
    "bias",
    "value gradient",
    """
    def column_parallel(x, w_shard, b_shard):
        return copy_to_ranks(x) @ w_shard
    """,
)
_mutant(
    "column_parallel",
    "column_shards_swapped",
    "a rank returns its neighbour's columns: the right values in the wrong order",
    "order",
    "value gradient traffic",
    """
    def column_parallel(x, w_shard, b_shard):
        ranks, rank = dist.get_world_size(), dist.get_rank()
        w, b = w_shard.detach().contiguous(), b_shard.detach().contiguous()
        all_w = [torch.empty_like(w) for _ in range(ranks)]
        all_b = [torch.empty_like(b) for _ in range(ranks)]
        dist.all_gather(all_w, w)
        dist.all_gather(all_b, b)
        other = (rank + 1) % ranks
        zero = (w_shard.sum() + b_shard.sum()) * 0
        return copy_to_ranks(x) @ all_w[other] + all_b[other] + zero
    """,
)
_mutant(
    "column_parallel",
    "column_own_weights",
    "the rank draws its own weights, each from another seed, and ignores the shard it was given",
    "w_shard",
    "value gradient",
    """
    def column_parallel(x, w_shard, b_shard):
        torch.manual_seed(dist.get_rank())
        drawn = torch.randn_like(w_shard) * w_shard.shape[0] ** -0.5
        return copy_to_ranks(x) @ (drawn + 0 * w_shard) + b_shard
    """,
)
_mutant(
    "column_parallel",
    "column_gathered",
    "the whole layer is gathered in the forward pass, where nothing need be sent",
    "forward",
    "traffic",
    """
    def column_parallel(x, w_shard, b_shard):
        mine = copy_to_ranks(x) @ w_shard + b_shard
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine.detach().contiguous())
        parts[dist.get_rank()] = mine
        width = mine.shape[-1]
        start = dist.get_rank() * width
        return torch.cat(parts, dim=-1)[..., start : start + width]
    """,
)
_mutant(
    "row_parallel",
    "bias_on_every_rank",
    "the bias is added before the sum, on every rank: t times too much of it",
    "bias, once",
    "value",
    """
    def row_parallel(x_shard, w_shard, bias):
        return reduce_from_ranks(x_shard @ w_shard + bias)
    """,
)
_mutant(
    "row_parallel",
    "bias_over_t",
    "each rank adds bias/t: the output is right, the bias's gradient is t times too small",
    "bias, gradient",
    "gradient",
    """
    def row_parallel(x_shard, w_shard, bias):
        return reduce_from_ranks(x_shard @ w_shard + bias / dist.get_world_size())
    """,
)
_mutant(
    "row_parallel",
    "bias_on_rank_0",
    "only rank 0 adds the bias: the output is right, the other ranks' bias gets no gradient",
    "bias, gradient",
    "gradient",
    """
    def row_parallel(x_shard, w_shard, bias):
        part = x_shard @ w_shard
        if dist.get_rank() == 0:
            part = part + bias
        return reduce_from_ranks(part)
    """,
)
_mutant(
    "row_parallel",
    "row_without_g",
    "no communication at all: each rank returns its own partial sum",
    "all-reduce",
    "value traffic",
    """
    def row_parallel(x_shard, w_shard, bias):
        return x_shard @ w_shard + bias
    """,
)
_mutant(
    "row_parallel",
    "row_gathers_weights",
    "the whole matmul on every rank, from gathered inputs and weights: right output, wrong traffic",
    "traffic",
    "traffic",
    """
    def gathered(shard, dim):
        parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, shard.detach().contiguous())
        parts[dist.get_rank()] = shard
        return torch.cat(parts, dim=dim)

    def row_parallel(x_shard, w_shard, bias):
        return gathered(x_shard, -1) @ gathered(w_shard, 0) + bias
    """,
)
_mutant(
    "row_parallel",
    "row_copies_in_backward",
    "f stands at the entry, where x is already a shard: its gradient is summed over other shards",
    "x_shard",
    "gradient traffic",
    """
    def row_parallel(x_shard, w_shard, bias):
        return reduce_from_ranks(copy_to_ranks(x_shard) @ w_shard) + bias
    """,
)
_mutant(
    "cut_fused",
    "fused_cut_plain",
    "the fused matrix is cut into equal runs of columns, not each part by itself",
    "part",
    "value",
    """
    def cut_fused(w, widths, rank, ranks):
        return w.chunk(ranks, dim=-1)[rank]
    """,
)
_mutant(
    "cut_fused",
    "fused_cut_in_thirds",
    "the parts are taken to be equally wide, which [Q | K | V] with fewer KV heads is not",
    "widths",
    "value",
    """
    def cut_fused(w, widths, rank, ranks):
        parts = w.tensor_split(len(widths), dim=-1)
        return torch.cat([part.tensor_split(ranks, dim=-1)[rank] for part in parts], dim=-1)
    """,
)
_mutant(
    "cut_fused",
    "fused_shards_swapped",
    "ranks get each other's shards: the right columns in the wrong order",
    "order",
    "value",
    """
    def cut_fused(w, widths, rank, ranks):
        parts = w.split(list(widths), dim=-1)
        return torch.cat([part.chunk(ranks, dim=-1)[ranks - 1 - rank] for part in parts], dim=-1)
    """,
)
_mutant(
    "column_parallel",
    "column_f_on_weights",
    "f stands before the weights as well: their gradients are summed over other columns",
    "w_shard, other columns",
    "gradient traffic",
    """
    def column_parallel(x, w_shard, b_shard):
        return copy_to_ranks(x) @ copy_to_ranks(w_shard) + b_shard
    """,
)
_mutant(
    "column_parallel",
    "column_f_after",
    "f stands behind the product instead of before it",
    "before the product",
    "gradient traffic",
    """
    def column_parallel(x, w_shard, b_shard):
        return copy_to_ranks(x @ w_shard + b_shard)
    """,
)
_mutant(
    "column_parallel",
    "column_in_single_precision",
    "the layer computes in fp32, whatever comes in",
    "float32",
    "value gradient traffic",
    """
    def column_parallel(x, w_shard, b_shard):
        return copy_to_ranks(x.float()) @ w_shard.float() + b_shard.float()
    """,
)
_mutant(
    "row_parallel",
    "row_averages",
    "the partial products are averaged",
    "averaged, factor",
    "value gradient",
    """
    def row_parallel(x_shard, w_shard, bias):
        return reduce_from_ranks(x_shard @ w_shard) / dist.get_world_size() + bias
    """,
)
_mutant(
    "row_parallel",
    "row_f_behind",
    "f stands behind g: gradients t times too large",
    "factor",
    "gradient traffic",
    """
    def row_parallel(x_shard, w_shard, bias):
        return copy_to_ranks(reduce_from_ranks(x_shard @ w_shard)) + bias
    """,
)
_mutant(
    "row_parallel",
    "row_bias_over_t_with_f",
    "bias/t on every rank, its gradient repaired with one more message",
    "nothing backward",
    "traffic",
    """
    def row_parallel(x_shard, w_shard, bias):
        share = copy_to_ranks(bias) / dist.get_world_size()
        return reduce_from_ranks(x_shard @ w_shard + share)
    """,
)
_mutant(
    "row_parallel",
    "row_sums_bias_gradient",
    "the bias's gradient, whole on every rank, is summed once more",
    "bias gradient, too large",
    "gradient traffic",
    """
    def row_parallel(x_shard, w_shard, bias):
        return reduce_from_ranks(x_shard @ w_shard) + copy_to_ranks(bias)
    """,
)
_mutant(
    "cut_fused",
    "fused_checks_the_total",
    "the sum of the widths is checked, not each: half a [gate | up] pair passes",
    "each width",
    "refusal",
    """
    def cut_fused(w, widths, rank, ranks):
        if sum(widths) % ranks:
            raise ValueError(f"{sum(widths)} columns, {ranks} ranks")
        parts = w.split(list(widths), dim=-1)
        return torch.cat([part.chunk(ranks, dim=-1)[rank] for part in parts], dim=-1)
    """,
)
_mutant(
    "cut_fused",
    "fused_cut_by_rows",
    "the matrix is cut by rows: every rank has a share of the inputs",
    "rows",
    "value",
    """
    def cut_fused(w, widths, rank, ranks):
        return w.tensor_split(ranks)[rank]
    """,
)
_mutant(
    "mlp",
    "gelu_before_the_sum",
    "row-first, with GELU on the partial sums: GELU(a + b) is not GELU(a) + GELU(b)",
    "GELU",
    "value gradient",
    """
    def mlp(x_shard, a_rows, a_bias, b, b_bias):
        # x_shard (B, T, d/t), a_rows (d/t, f); a_bias (f,), b (f, d), b_bias (d,) whole
        partial = x_shard @ a_rows + a_bias / dist.get_world_size()
        return reduce_from_ranks(F.gelu(partial)) @ b + b_bias
    """,
)
