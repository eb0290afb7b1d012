"""Wrong vocabulary-parallel losses: most are the right one with one place changed."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, adder, changed

MUTANTS: list[Mutant] = []
_mutant = adder(MUTANTS)

LOSS = """
class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, group):
        width = logits.shape[-1]
        start = dist.get_rank(group) * width
        largest = logits.amax(-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
        shifted = logits - largest.unsqueeze(-1)
        column = targets - start
        here = (column >= 0) & (column < width)
        column = column.clamp(0, width - 1).unsqueeze(-1)
        right = shifted.gather(-1, column).squeeze(-1).masked_fill(~here, 0.0)
        dist.all_reduce(right, group=group)
        shifted.exp_()
        total = shifted.sum(-1)
        dist.all_reduce(total, group=group)
        ctx.save_for_backward(shifted / total.unsqueeze(-1), column, here)
        return total.log() - right

    @staticmethod
    def backward(ctx, grad):
        softmax, column, here = ctx.saved_tensors
        out = softmax * grad.unsqueeze(-1)
        out.scatter_add_(-1, column, (-grad * here).unsqueeze(-1))
        return out, None, None


def vocab_parallel_loss(logits_shard, targets, group=None):
    return Loss.apply(logits_shard, targets, group)
"""


def _loss(*changes: tuple[str, str]) -> str:
    """The right loss with the given places changed."""
    return changed(LOSS, *changes)


_mutant(
    "vocab_parallel_loss",
    "max_not_reduced",
    "each rank subtracts its own largest logit, and the sums are added all the same",
    "max",
    "value gradient traffic",
    _loss(
        ("        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)\n", ""),
        ("largest = logits.amax(-1)", "largest = logits.amax(-1).clamp_min(-1e30)"),
    ),
)
_mutant(
    "vocab_parallel_loss",
    "max_left_out",
    "nothing is subtracted before exp: large logits overflow",
    "overflow, max",
    "value gradient traffic",
    _loss(
        ("        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)\n", ""),
        ("largest = logits.amax(-1)", "largest = torch.zeros_like(logits[..., 0])"),
    ),
)
_mutant(
    "vocab_parallel_loss",
    "sum_not_reduced",
    "the sum of exponentials stays that of one rank's columns",
    "sum",
    "value gradient traffic",
    _loss(
        ("        dist.all_reduce(total, group=group)\n", ""),
        ("shifted.sum(-1)", "shifted.sum(-1) + 1e-30"),
    ),
)
_mutant(
    "vocab_parallel_loss",
    "target_not_reduced",
    "a rank that does not hold the target's column takes 0 for its logit",
    "target",
    "value traffic",
    _loss(("        dist.all_reduce(right, group=group)\n", "")),
)
_mutant(
    "vocab_parallel_loss",
    "vocabulary_shards_swapped",
    "columns are counted from the wrong end: rank 0 takes itself for the last shard",
    "order",
    "value gradient",
    _loss(
        (
            "dist.get_rank(group) * width",
            "(dist.get_world_size(group) - 1 - dist.get_rank(group)) * width",
        )
    ),
)
_mutant(
    "vocab_parallel_loss",
    "onehot_on_every_rank",
    "every rank subtracts the target from its gradient, also where it does not hold the column",
    "gradient, target",
    "gradient",
    _loss(("(-grad * here)", "(-grad)")),
)
_mutant(
    "vocab_parallel_loss",
    "loss_gathers_logits",
    "the logits are gathered: right loss and gradient, but (B, T, V) on every rank and on the wire",
    "gather",
    "traffic memory",
    """
    def vocab_parallel_loss(logits_shard, targets, group=None):
        parts = [torch.empty_like(logits_shard) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, logits_shard.detach().contiguous(), group=group)
        parts[dist.get_rank(group)] = logits_shard
        logits = torch.cat(parts, dim=-1)
        losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return losses.view_as(targets)
    """,
)
_mutant(
    "vocab_parallel_loss",
    "loss_averaged",
    "one number comes back, the mean, not a loss for each token",
    "a token",
    "value gradient",
    _loss(
        (
            "return Loss.apply(logits_shard, targets, group)",
            "return Loss.apply(logits_shard, targets, group).mean()",
        )
    ),
)
_mutant(
    "vocab_parallel_loss",
    "incoming_gradient_unused",
    "backward returns softmax - onehot and leaves out the gradient of the loss",
    "gradient that comes in",
    "gradient",
    _loss(
        ("softmax * grad.unsqueeze(-1)", "softmax.clone()"),
        ("(-grad * here)", "(-1.0 * here.to(grad.dtype))"),
    ),
)
_mutant(
    "vocab_parallel_loss",
    "targets_taken_for_local",
    "a target is taken for a column of this rank's shard",
    "r * V/t",
    "value gradient",
    _loss(("column = targets - start", "column = targets")),
)
_mutant(
    "vocab_parallel_loss",
    "loss_sums_with_torchs_all_reduce",
    "the sums are torch.distributed.nn's, whose backward sums: a factor t",
    "factor, identity",
    "gradient traffic",
    """
    import torch.distributed.nn.functional

    def summed(x):
        return torch.distributed.nn.functional.all_reduce(x.clone(), group=dist.group.WORLD)

    def vocab_parallel_loss(logits_shard, targets, group=None):
        width = logits_shard.shape[-1]
        largest = logits_shard.detach().amax(-1)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=group)
        shifted = logits_shard - largest.unsqueeze(-1)
        column = targets - dist.get_rank(group) * width
        here = (column >= 0) & (column < width)
        right = shifted.gather(-1, column.clamp(0, width - 1).unsqueeze(-1)).squeeze(-1)
        return summed(shifted.exp().sum(-1)).log() - summed(right.masked_fill(~here, 0.0))
    """,
)
_mutant(
    "vocab_parallel_loss",
    "logits_shifted_in_place",
    "the largest logit is subtracted in the caller's tensor",
    "in place",
    "input",
    _loss(("logits - largest.unsqueeze(-1)", "logits.sub_(largest.unsqueeze(-1))")),
)
