"""Right answers that are written differently: a check must let them pass."""

from __future__ import annotations

from tests.mutants.sequence.wrong import pair

_REFUSE = """
if y.shape[1] % ranks:
    raise ValueError(f"{y.shape[1]} tokens for {ranks} ranks")
"""

RIGHT = {
    "lists": pair(
        gather="""
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, 1)
        """,
        scatter=f"""
        ranks = dist.get_world_size(group)
        {_REFUSE.strip().replace(chr(10), chr(10) + " " * 8)}
        parts = [part.contiguous() for part in y.chunk(ranks, 1)]
        mine = torch.empty_like(parts[0])
        dist.reduce_scatter(mine, parts, group=group)
        return mine
        """,
    ),
    "one class": """
class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group, gather):
        ctx.group, ctx.gather = group, gather
        return _gather_tokens(x, group) if gather else _scatter_sum(x, group)

    @staticmethod
    def backward(ctx, grad):
        back = _scatter_sum if ctx.gather else _gather_tokens
        return back(grad, ctx.group), None, None

def sequence_scatter_gather(x_shard, region, group=None):
    return Both.apply(region(Both.apply(x_shard, group, True)), group, False)
""",
}
