"""Wrong global norms of gradients."""

from tests.mutants.mesh.wrong import Wrong, body, changed

VALUES, RANGE, TRAFFIC = "each number once", "types and sizes", "traffic"
_NORM = body("global_grad_norm(grads, holders, group=None)")
ANSWER = _NORM("""
    total = torch.zeros((), dtype=torch.float64)
    for grad, times in zip(grads, holders, strict=True):
        total = total + grad.double().square().sum() / times
    dist.all_reduce(total, group=group)
    return total.sqrt()
""")
ADD = "total = total + grad.double().square().sum() / times"
REDUCE = "dist.all_reduce(total, group=group)"
ROOT = "return total.sqrt()"


def norm(
    name: str, fails: tuple, hint: tuple, *changes: tuple, holds: tuple = (), breaks: bool = False
) -> Wrong:
    return Wrong("global_grad_norm", name, fails, hint, changed(ANSWER, *changes), holds, breaks)


_EMPTY = "if not grads: return torch.zeros((), dtype=torch.float64)\n    "
MUTANTS = [
    norm("this_rank_alone", (VALUES, TRAFFIC), ("this rank's gradients alone",), (REDUCE, "pass")),
    norm("copies_counted", (VALUES,), ("replicated parameters are counted on each rank",),
         (" / times", ""), holds=(TRAFFIC,)),
    norm("copies_multiplied", (VALUES,), ("divided by `holders`, not multiplied",),
         (" / times", " * times"), holds=(TRAFFIC,)),
    norm("gradients_divided", (VALUES,), ("not its norm or the gradient",),
         (ADD, "total = total + (grad.double() / times).square().sum()"), holds=(TRAFFIC,)),
    norm("copies_left_out", (VALUES,), ("left out",),
         (" / times", " * (times == 1)"), holds=(TRAFFIC,)),
    norm("all_divided", (VALUES,), ("by its own `holders`",),
         (" / times", " / dist.get_world_size(group)"), holds=(TRAFFIC,)),
    norm("squares", (VALUES, RANGE), ("square root",), (ROOT, "return total"), holds=(TRAFFIC,)),
    norm("root_too_early", (VALUES,), ("norms of ranks do not add up",),
         (REDUCE, f"total = total.sqrt()\n    {REDUCE}"), (ROOT, "return total"),
         holds=(TRAFFIC,)),
    norm("norms_of_gradients", (VALUES,), ("norms of gradients do not add up",),
         (ADD, "total = total + grad.double().norm() / times"), (ROOT, "return total"),
         holds=(TRAFFIC,)),
    norm("largest_rank", (VALUES,), ("largest of the ranks' norms",),
         (REDUCE, "dist.all_reduce(total, op=dist.ReduceOp.MAX, group=group)"), holds=(TRAFFIC,)),
    norm("mean_of_ranks", (VALUES,), ("no mean", "by its own `holders`"),
         (ROOT, "return (total / dist.get_world_size(group)).sqrt()"), holds=(TRAFFIC,)),
    norm("squares_in_fp32", (RANGE,), ("1e20 squared",),
         (ADD, "total = total + (grad if grad.dtype == torch.float64 else grad.float())"
          ".square().sum() / times"), holds=(VALUES, TRAFFIC)),
    norm("own_type", (RANGE,), ("bf16 has three digits",),
         (ADD, "total = total + (grad.double().square() if grad.dtype == torch.float32 else "
          "grad.square()).sum() / times"), holds=(VALUES, TRAFFIC)),
    norm("small_ones_dropped", (RANGE,), ("1e-30 squared",),
         (ADD, "total = total + grad.double().square().sum() / times * (grad.abs().max() > 1e-20)"),
         holds=(VALUES, TRAFFIC)),
    norm("sum_in_fp32", (VALUES,), ("summed up in fp64",),
         (ADD, "total = total + grad.float().double().square().sum() / times"), holds=(TRAFFIC,)),
    norm("told_in_bf16", (VALUES, RANGE), ("keep the norm",),
         (ROOT, "return total.sqrt().bfloat16()"), holds=(TRAFFIC,)),
    norm("a_list_of_one", (VALUES,), ("shape ()",), (ROOT, "return total.sqrt().view(1)"),
         holds=(TRAFFIC,)),
    norm("changed_in_place", (VALUES,), ("optimizer still needs",),
         (ADD, "total = total + grad.square_().double().sum() / times"), holds=(TRAFFIC,)),
    norm("takes_holders_away", (VALUES,), ("list still belongs to the caller",),
         ("for grad, times in zip(grads, holders, strict=True):",
          "for grad in grads:\n        times = holders.pop(0)"), holds=(TRAFFIC,)),
    norm("other_gradients_in_the_list", (RANGE,), ("optimizer still needs",),
         (ROOT, f"grads[:] = [grad.double() for grad in grads]\n    {ROOT}"), holds=(TRAFFIC,)),
    norm("nan_for_nothing", (VALUES,), ("0 is 0",),
         (ROOT, "return total / total.sqrt()"), holds=(TRAFFIC,)),
    norm("nan_left_out", (VALUES,), ("clipping by a norm that leaves it out",),
         ("grad.double().square().sum()", "grad.double().square().nansum()"),
         holds=(RANGE, TRAFFIC)),
    norm("nan_made_zero", (VALUES,), ("clipping by a norm that leaves it out",),
         ("grad.double()", "grad.double().nan_to_num()"), holds=(RANGE, TRAFFIC)),
    norm("nan_on_its_rank_only", (VALUES,), ("on every rank",),
         (REDUCE, "mine = total.clone()\n    total = total.nan_to_num()\n    "
          f"{REDUCE}\n    total = total if mine.isfinite() else mine"), holds=(RANGE, TRAFFIC)),
    norm("sums_gathered", (TRAFFIC,), ("all_gather: one all_reduce",),
         (REDUCE, "found = [torch.zeros_like(total) for _ in range(dist.get_world_size(group))]\n"
          "    dist.all_gather(found, total, group=group)\n    total = torch.stack(found).sum()"),
         holds=(VALUES, RANGE)),
    norm("in_two_steps", (TRAFFIC,), ("several all-reduces",),
         (REDUCE, "half = total / 2\n    dist.all_reduce(half, group=group)\n    "
          "total = total - total / 2\n    dist.all_reduce(total, group=group)\n    total += half"),
         holds=(VALUES, RANGE)),
    norm("a_number_for_each", (TRAFFIC,), ("a number for each",),
         (REDUCE, "every = torch.zeros(16, dtype=torch.float64)\n    every[0] = total\n"
          "    dist.all_reduce(every, group=group)\n    total = every.sum()"),
         holds=(VALUES, RANGE)),
    norm("over_the_world", (VALUES,), ("group=group",), (REDUCE, "dist.all_reduce(total)"),
         breaks=True),
    norm("one_for_each_gradient", (VALUES,), ("one all-reduce a rank",),
         (ADD, "one = grad.double().square().sum() / times\n"
          "        dist.all_reduce(one, group=group)\n        total = total + one"),
         (REDUCE, "pass"), breaks=True),
    norm("nothing_of_a_rank_without", (VALUES,), ("rank without gradients takes part",),
         ("total = torch.zeros((), dtype=torch.float64)",
          _EMPTY + "total = torch.zeros((), dtype=torch.float64)"), breaks=True),
    norm("zero_of_another_type", (VALUES,), ("on every rank",),
         ("torch.zeros((), dtype=torch.float64)", "torch.zeros(())"), breaks=True),
]  # fmt: skip
