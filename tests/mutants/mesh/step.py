"""Wrong optimizer steps under ZeRO-1."""

from tests.mutants.mesh.wrong import Wrong, body, changed

SHARE, VALUES, TRAFFIC, MEMORY = (
    "what update is given", "new weights", "traffic", "held at a time",
)  # fmt: skip
_STEP = body("zero1_step(weights, grads, update, group=None)")
ANSWER = _STEP("""
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    share = weights.chunk(n)[rank].clone()
    grad = torch.empty_like(share)
    dist.reduce_scatter_single(grad, grads, group=group)
    update(share, grad)
    dist.all_gather_single(weights, share, group=group)
""")
SUM = "dist.reduce_scatter_single(grad, grads, group=group)"
GATHER = "dist.all_gather_single(weights, share, group=group)"
MINE = "share = weights.chunk(n)[rank].clone()"
UPDATE = "update(share, grad)"


def step(
    name: str, fails: tuple, hint: tuple, *changes: tuple, holds: tuple = (), breaks: bool = False
) -> Wrong:
    return Wrong("zero1_step", name, fails, hint, changed(ANSWER, *changes), holds, breaks)


_REST = (TRAFFIC, MEMORY)
_STACK = "found = [torch.empty_like(grads) for _ in range(n)]\n    "
MUTANTS = [
    step("mean_again", (SHARE, VALUES), ("off by exactly", "mean was taken again"),
         (SUM, f"{SUM}\n    grad /= n"), holds=_REST),
    step("mean_before_the_sum", (SHARE, VALUES), ("SUM, not AVG",),
         (SUM, f"grads /= n\n    {SUM}"), holds=_REST),
    step("own_gradients", (SHARE, VALUES), ("this rank's gradients alone",),
         (SUM, "grad.copy_(grads.chunk(n)[rank])"), holds=_REST),
    step("summed_twice", (SHARE, TRAFFIC), ("summed up twice",),
         (SUM, f"dist.all_reduce(grads, group=group)\n    {SUM}")),
    step("largest_gradient", (SHARE,), ("gradients are added",),
         (SUM, SUM.replace("grads,", "grads, op=dist.ReduceOp.MAX,")), holds=_REST),
    step("all_reduce_and_cut", (TRAFFIC,), ("reduce-scatter", "9/4 of N", "reduce_scatter_single"),
         (SUM, "dist.all_reduce(grads, group=group)\n    grad = grads.chunk(n)[rank]"),
         holds=(SHARE, VALUES, MEMORY)),
    step("all_gradients_everywhere", (TRAFFIC, MEMORY), ("adds them up on their way",),
         (SUM, f"{_STACK}dist.all_gather(found, grads, group=group)\n"
          "    grad = torch.stack(found).sum(0).chunk(n)[rank]"), holds=(SHARE, VALUES)),
    step("all_weights_updated", (SHARE,), ("these are all N numbers",),
         (SUM, "dist.all_reduce(grads, group=group)"), (UPDATE, "update(weights, grads)"),
         (GATHER, "pass")),
    step("every_share_here", (SHARE,), ("others hold the optimizer's state",),
         (SUM, "dist.all_reduce(grads, group=group)"),
         (UPDATE, "for pair in zip(weights.chunk(n), grads.chunk(n)): update(*pair)"),
         (GATHER, "pass")),
    step("updated_twice", (SHARE,), ("once a step",),
         (UPDATE, f"{UPDATE}\n    {UPDATE}")),
    step("never_updated", (SHARE,), ("no rank is left out",), (UPDATE, "share -= grad")),
    step("rank_of_the_world", (SHARE,), ("dist.get_rank(group)",),
         ("dist.get_rank(group)", "dist.get_rank() % dist.get_world_size(group)")),
    step("every_nth_weight", (SHARE,), ("every n-th weight",),
         (MINE, "share = weights[rank::n].clone()")),
    step("every_nth_gradient", (SHARE,), ("every n-th gradient",),
         (SUM, "dist.all_reduce(grads, group=group)\n    grad = grads[rank::n].clone()")),
    step("other_share_of_gradients", (SHARE,), ("belong to the same weights",),
         (SUM, SUM.replace("grads,", "grads.roll(grads.numel() // n),"))),
    step("gradient_first", (SHARE,), ("share of the weights comes first",),
         (UPDATE, "update(grad, share)")),
    step("a_row", (SHARE,), ("one dimension",),
         (UPDATE, "update(share.view(1, -1), grad.view(1, -1))")),
    step("world_for_the_sum", (SHARE,), ("group was not handed on",),
         (SUM, "if n == 2: dist.all_reduce(grads); grad = grads.chunk(n)[rank]\n    "
          f"else: {SUM}")),
    step("not_gathered", (VALUES,), ("only this rank's own share is new",),
         (GATHER, "weights.chunk(n)[rank].copy_(share)"), holds=(SHARE, *_REST)),
    step("a_new_tensor", (VALUES, MEMORY), ("in place",),
         (GATHER, "found = [torch.empty_like(share) for _ in range(n)]\n"
          "    dist.all_gather(found, share, group=group)\n    weights = torch.cat(found)"),
         holds=(SHARE, TRAFFIC)),
    step("gathered_too_early", (VALUES,), ("weights are as they were",),
         (UPDATE, "pass"), (GATHER, f"{GATHER}\n    {UPDATE}"), holds=(SHARE, *_REST)),
    step("old_share_gathered", (VALUES,), ("old share",),
         (UPDATE, "update(share.clone(), grad)"), holds=(SHARE, *_REST)),
    step("own_share_everywhere", (VALUES,), ("in the place of every share",),
         (GATHER, "for part in weights.chunk(n): part.copy_(share)"), holds=(SHARE, *_REST)),
    step("gathered_backwards", (VALUES,), ("not in order",),
         (GATHER, "dist.all_gather(list(weights.chunk(n))[::-1], share, group=group)"),
         holds=(SHARE, *_REST)),
    step("shares_averaged", (VALUES,), ("off by exactly",),
         (GATHER, f"share /= n\n    {GATHER}"), holds=(SHARE, *_REST)),
    step("new_list_to_gather_into", (MEMORY,), ("no list of new tensors",),
         (GATHER, "found = [torch.empty_like(share) for _ in range(n)]\n"
          "    dist.all_gather(found, share, group=group)\n"
          "    for part, new in zip(weights.chunk(n), found): part.copy_(new)"),
         holds=(SHARE, VALUES, TRAFFIC)),
    step("a_buffer_that_grows", (MEMORY,), ("no list of new tensors",),
         (GATHER, "every = weights.new_empty(0).resize_(weights.shape)\n"
          f"    {GATHER.replace('weights', 'every')}\n    weights.copy_(every)"),
         holds=(SHARE, VALUES, TRAFFIC)),
    step("a_buffer_of_bytes", (MEMORY,), ("no list of new tensors",),
         (GATHER, "every = torch.frombuffer(bytearray(weights.nbytes), dtype=weights.dtype)\n"
          f"    {GATHER.replace('weights', 'every')}\n    weights.copy_(every)"),
         holds=(SHARE, VALUES, TRAFFIC)),
    step("all_gradients_copied", (MEMORY,), ("copy of its share",),
         (SUM, SUM.replace("grads,", "grads.clone(),")), holds=(SHARE, VALUES, TRAFFIC)),
    step("gathered_twice", (TRAFFIC,), ("more often than needed",),
         (GATHER, f"{GATHER}\n    {GATHER}"), holds=(SHARE, VALUES, MEMORY)),
    step("summed_in_fp32", (SHARE,), ("seven digits",),
         (SUM, "grad = grad.float()\n    "
          "dist.reduce_scatter_single(grad, grads.float(), group=group)\n    "
          "grad = grad.to(weights.dtype)")),
    step("no_group_in_the_gather", (SHARE,), ("group=group",),
         (GATHER, "dist.all_gather_single(weights, share)"), breaks=True),
    step("one_rank_after_the_other", (SHARE,), ("same point",),
         (UPDATE, "for owner in range(n):\n        if owner == rank: update(share, grad)\n"
          "        dist.barrier(group=group)"), breaks=True),
    step("ends_the_process", (SHARE,), ("ends its process",),
         (UPDATE, "raise SystemExit"), breaks=True),
]  # fmt: skip
