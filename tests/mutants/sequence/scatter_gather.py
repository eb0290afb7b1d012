"""Wrong answers that run to their end: wrong values, gradients, or traffic."""

from __future__ import annotations

from tests.mutants.sequence.wrong import GRADIENTS, REFUSAL, TRAFFIC, VALUES, Wrong, pair

_MINE = """
ranks, rank = dist.get_world_size({group}), dist.get_rank({group})
"""
_SLICE = _MINE.format(group="ctx.group") + "return grad.chunk(ranks, 1)[rank].contiguous(), None"
_PAD = (
    _MINE.format(group="ctx.group")
    + """
whole = grad.new_zeros(grad.shape[0], grad.shape[1] * ranks, grad.shape[2])
whole[:, rank * grad.shape[1] : (rank + 1) * grad.shape[1]] = grad
return whole, None
"""
)
_REFUSE = """
if y.shape[1] % dist.get_world_size(group):
    raise ValueError(f"{y.shape[1]} tokens, {dist.get_world_size(group)} ranks")
"""
_ALL_REDUCE = """
total = {y}.clone()
dist.all_reduce(total, group={group})
return total.chunk(dist.get_world_size({group}), 1)[dist.get_rank({group})].contiguous()"""
_OWN = (
    _REFUSE
    + """
return y.chunk(dist.get_world_size(group), 1)[dist.get_rank(group)].contiguous()
"""
)
_GATHER_FLAT = """
x = x.contiguous()
whole = x.new_empty(x.shape[0], x.shape[1] * dist.get_world_size(group), x.shape[2])
dist.all_gather_single(whole.view(-1), x.view(-1), group=group)
return whole
"""
_SCATTER_FLAT = (
    _REFUSE
    + """
ranks = dist.get_world_size(group)
piece = y.new_empty(y.shape[0], y.shape[1] // ranks, y.shape[2])
dist.reduce_scatter_single(piece.view(-1), y.contiguous().view(-1), group=group)
return piece
"""
)
_GATHER_BATCH = """
whole = {x}.new_empty({x}.shape[0] * dist.get_world_size({group}), *{x}.shape[1:])
dist.all_gather_single(whole, {x}.contiguous(), group={group})
return whole"""
_SCATTER_BATCH = """
piece = {y}.new_empty({y}.shape[0] // dist.get_world_size({group}), *{y}.shape[1:])
dist.reduce_scatter_single(piece, {y}.contiguous(), group={group})
return piece"""
_AVERAGE = "return _scatter_sum({x}, {group}) / dist.get_world_size({group})"

MUTANTS = [
    Wrong("gather_only_slices_back", (GRADIENTS, TRAFFIC), ("backward", "gather only slices"),
          pair(gather_back=_SLICE)),
    Wrong("scatter_does_not_gather_back", (GRADIENTS, TRAFFIC), ("does not gather",),
          pair(scatter_back=_PAD)),
    Wrong("own_gradient_for_all_tokens", (GRADIENTS, TRAFFIC), ("does not gather",),
          pair(scatter_back="return grad.repeat(1, dist.get_world_size(ctx.group), 1), None")),
    Wrong("region_in_a_forward", (GRADIENTS, TRAFFIC), ("autograd looks away",), """
        class Whole(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, region, group):
                return _scatter_sum(region(_gather_tokens(x, group)), group)

            @staticmethod
            def backward(ctx, grad):
                return grad, None, None

        def sequence_scatter_gather(x_shard, region, group=None):
            return Whole.apply(x_shard, region, group)
        """),
    Wrong("neither_sends_backward", (GRADIENTS, TRAFFIC), ("does not gather",),
          pair(gather_back=_SLICE, scatter_back=_PAD)),
    Wrong("all_reduce_and_a_slice", (TRAFFIC,), ("all-reduce forward", "twice"),
          pair(scatter=_REFUSE + _ALL_REDUCE.format(y="y", group="group"))),
    Wrong("all_reduce_backward", (TRAFFIC,), ("all-reduce backward", "twice"),
          pair(gather_back=_ALL_REDUCE.format(y="grad", group="ctx.group") + ", None")),
    Wrong("gathered_flat", (VALUES, GRADIENTS), ("wrong order", "where they are gathered"),
          pair(gather=_GATHER_FLAT)),
    Wrong("scattered_flat", (VALUES,), ("wrong order", "where they are scattered"),
          pair(scatter=_SCATTER_FLAT)),
    Wrong("flat_both_ways", (VALUES, GRADIENTS), ("wrong order", "both"),
          pair(gather=_GATHER_FLAT, scatter=_SCATTER_FLAT)),
    Wrong("along_the_batch", (VALUES, GRADIENTS), ("along the batch",),
          pair(_GATHER_BATCH.format(x="x", group="group"),
               _SCATTER_BATCH.format(y="grad", group="ctx.group") + ", None",
               _SCATTER_BATCH.format(y="y", group="group"),
               _GATHER_BATCH.format(x="grad", group="ctx.group") + ", None")),
    Wrong("averaged", (VALUES,), ("factor", "not averaged"),
          pair(scatter=_AVERAGE.format(x="y", group="group"))),
    Wrong("right_for_two_ranks", (VALUES,), ("off by a factor 0.667 on 3 ranks",),
          pair(scatter="return _scatter_sum(y, group) * 2 / dist.get_world_size(group)")),
    Wrong("gradient_right_for_two_ranks", (GRADIENTS,), ("that of x_shard is not",),
          pair(gather_back="return _scatter_sum(grad, ctx.group) * 2 / "
               "dist.get_world_size(ctx.group), None")),
    Wrong("changes_the_region_s_gradient", (VALUES,), ("came from the region", "changed in place"),
          pair(gather_back="back = _scatter_sum(grad, ctx.group)\ngrad.zero_()\n"
               "return back, None")),
    Wrong("gradient_averaged", (GRADIENTS,), ("factor", "not averaged"),
          pair(gather_back=_AVERAGE.format(x="grad", group="ctx.group") + ", None")),
    Wrong("gradient_times_t", (GRADIENTS,), ("too large by a factor",),
          pair(scatter_back="return _gather_tokens(grad, ctx.group) * "
               "dist.get_world_size(ctx.group), None")),
    Wrong("not_summed", (VALUES, TRAFFIC), ("sum over the ranks is missing",),
          pair(scatter=_OWN)),
    Wrong("region_called_twice", (TRAFFIC,), ("called 2 times",),
          pair(call="""
          whole = Gather.apply(x_shard, group)
          assert region(whole).dim() == 3
          return Scatter.apply(region(whole), group)
          """)),
    Wrong("gathered_twice", (TRAFFIC,), ("calls of all_gather",),
          pair(gather="_gather_tokens(x, group)\nreturn _gather_tokens(x, group)")),
    Wrong("left_the_graph", (GRADIENTS, TRAFFIC), ("left the graph",),
          pair(call="return _scatter_sum(region(_gather_tokens(x_shard.detach(), group)).detach(), "
               "group)")),
    Wrong("gather_left_the_graph", (GRADIENTS, TRAFFIC), ("x_shard gets no gradient",),
          pair(call="whole = _gather_tokens(x_shard.detach(), group)\n"
               "return Scatter.apply(region(whole), group)")),
    Wrong("in_place", (VALUES,), ("changed in place",),
          pair(gather="whole = _gather_tokens(x, group)\nx.data.zero_()\nreturn whole")),
    Wrong("not_refused", (REFUSAL,), ("no multiple", "both numbers"),
          pair(call="""
          ranks = dist.get_world_size(group)
          y = region(Gather.apply(x_shard, group))
          return Scatter.apply(y[:, : y.shape[1] // ranks * ranks], group)
          """)),
    Wrong("refused_without_numbers", (REFUSAL,), ("both numbers",),
          pair(call="""
          y = region(Gather.apply(x_shard, group))
          if y.shape[1] % dist.get_world_size(group):
              raise ValueError("cannot be shared")
          return Scatter.apply(y, group)
          """)),
    Wrong("world_used", (VALUES, GRADIENTS, TRAFFIC), ("`group` is not used",),
          pair(call="return Scatter.apply(region(Gather.apply(x_shard, None)), None)"), four=True),
]  # fmt: skip
