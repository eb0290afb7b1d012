"""Wrong answers that break off on a rank: each with words that its card's advice must hold."""

from __future__ import annotations

from tests.mutants.sequence.wrong import VALUES, Wrong, pair

BROKEN = [
    Wrong("along_the_hidden_dimension", (VALUES,), ("along the hidden dimension",),
          pair(gather="""
          parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
          dist.all_gather(parts, x.contiguous(), group=group)
          return torch.cat(parts, -1)
          """)),
    Wrong("collectives_in_the_graph", (VALUES,), ("does not follow a collective",),
          pair(call="return _scatter_sum(region(_gather_tokens(x_shard, group)), group)")),
    Wrong("sizes_do_not_fit", (VALUES,), ("a t-th",),
          pair(scatter="""
          piece = torch.empty_like(y.contiguous())
          dist.reduce_scatter_single(piece, y.contiguous(), group=group)
          return piece
          """)),
    Wrong("the_shard_alone", (VALUES,), ("other ranks are missing",),
          pair(call="return Scatter.apply(region(x_shard), group)")),
    Wrong("backward_not_mirrored", (VALUES,), ("other's forward",),
          pair(gather_back="return _gather_tokens(grad, ctx.group), None",
               scatter_back="return _scatter_sum(grad, ctx.group), None")),
    Wrong("backward_is_the_identity", (VALUES,), ("other's forward",),
          pair(scatter_back="return grad, None")),
    Wrong("the_world_s_gradients", (VALUES,), ("`group` is not used",),
          pair(gather_back="return _scatter_sum(grad, None), None")),
    Wrong("refuses_odd_lengths", (VALUES,), ("9 tokens",),
          pair(scatter="""
          if y.shape[1] % 2:
              raise ValueError(f"{y.shape[1]} tokens, 2 ranks")
          return _scatter_sum(y, group)
          """)),
    Wrong("no_return", (VALUES,), ("without a `return`",),
          pair(call="Scatter.apply(region(Gather.apply(x_shard, group)), group)")),
]  # fmt: skip
