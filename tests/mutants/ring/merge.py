"""Wrong merges of two partial results."""

from tests.mutants.mutant import changed
from tests.mutants.ring.wrong import Wrong

VALUES, ORDER, NOTHING, LARGE, GRADIENTS = (
    "values", "any order", "nothing seen", "large scores", "gradients",
)  # fmt: skip
ANSWER = """
    def merge_partials(out_a, lse_a, out_b, lse_b):
        largest = torch.maximum(lse_a, lse_b)
        largest = largest.masked_fill(largest == -torch.inf, 0.0)
        weight_a, weight_b = (lse_a - largest).exp(), (lse_b - largest).exp()
        total = weight_a + weight_b
        nothing = total == 0
        total = total.masked_fill(nothing, 1.0)
        share_a, share_b = (weight_a / total).unsqueeze(-1), (weight_b / total).unsqueeze(-1)
        out = out_a * share_a + out_b * share_b
        return out, (largest + total.log()).masked_fill(nothing, -torch.inf)
    """
OUT, RETURN = "out_a * share_a + out_b * share_b", "(largest + total.log())"
FILLED = "largest = largest.masked_fill(largest == -torch.inf, 0.0)"


def wrong(
    name: str, fails: tuple, hint: tuple, *changes: tuple, holds: tuple = (), breaks: bool = False
) -> Wrong:
    return Wrong("merge_partials", name, fails, hint, changed(ANSWER, *changes), holds, breaks)


MUTANTS = [
    wrong("plain_average", (VALUES, ORDER), ("plain average",), (OUT, "(out_a + out_b) / 2")),
    wrong("added", (VALUES,), ("divide by the sum",), (OUT, "out_a + out_b")),
    wrong("weights_swapped", (VALUES,), ("weights are swapped",),
          (OUT, "out_a * share_b + out_b * share_a")),
    wrong("not_divided", (VALUES,), ("not divided by the sum",),
          (OUT, "out_a * weight_a.unsqueeze(-1) + out_b * weight_b.unsqueeze(-1)")),
    wrong("second_not_rescaled", (VALUES,), ("second block is not rescaled",),
          ("(lse_b - largest).exp()", "(lse_b - lse_b.clamp(min=-1e30)).exp()")),
    wrong("lse_added", (VALUES,), ("lse: the two are added",), (RETURN, "(lse_a + lse_b)"),
          holds=(GRADIENTS,) * 0),
    wrong("lse_of_the_last", (VALUES,), ("second block alone",), (RETURN, "lse_b")),
    wrong("lse_is_the_largest", (VALUES,), ("log of the summed weights",), (RETURN, "largest")),
    wrong("largest_not_added", (VALUES,), ("added again after the log",), (RETURN, "total.log()")),
    wrong("overflow", (LARGE,), ("overflow", "subtract the larger"),
          (FILLED, "largest = largest * 0.0\n        largest = largest.nan_to_num()"),
          holds=(VALUES, ORDER)),
    wrong("one_largest_for_all_queries", (LARGE,), ("each query for itself",),
          ("torch.maximum(lse_a, lse_b)", "torch.maximum(lse_a.max(), lse_b.max())"),
          holds=(VALUES, ORDER, NOTHING)),
    wrong("one_largest_a_head", (LARGE,), ("each query for itself",),
          ("torch.maximum(lse_a, lse_b)", "torch.maximum(lse_a, lse_b).amax(-1, keepdim=True)"),
          holds=(VALUES, ORDER, NOTHING)),
    wrong("one_largest_for_a_batch", (LARGE,), ("each query for itself",),
          (FILLED, FILLED + """
        largest = largest.amax(0, keepdim=True) if largest.dim() > 1 else largest"""),
          holds=(VALUES, ORDER, NOTHING)),
    wrong("the_mean_in_place_of_the_largest", (LARGE,), ("subtract the larger",),
          ("torch.maximum(lse_a, lse_b)", "(lse_a + lse_b) / 2"), holds=(VALUES, ORDER)),
    wrong("a_small_number_added", (VALUES,), ("nearly right", "a small number is added"),
          ("weight_a + weight_b", "weight_a + weight_b + 1e-10")),
    wrong("rounded_to_fp32", (VALUES,), ("nearly right", "rounded on the way"),
          (OUT, "(out_a.float() * share_a + out_b.float() * share_b).to(out_a.dtype)")),
    wrong("base_two", (VALUES,), ("base 2",), (RETURN, "(largest + total.log2())")),
    wrong("max_starts_at_minus_inf", (NOTHING,), ("-inf - -inf",), (FILLED, "pass"),
          holds=(VALUES, LARGE)),
    wrong("divided_by_zero", (NOTHING,), ("nor is 0/0",),
          ("total = total.masked_fill(nothing, 1.0)", "pass"), holds=(VALUES, LARGE)),
    wrong("nothing_is_zero", (NOTHING,), ("weight exp(-inf) = 0",),
          ("masked_fill(nothing, -torch.inf)", "masked_fill(nothing, 0.0)"), holds=(VALUES,)),
    wrong("hidden_forward_only", (GRADIENTS,), ("hides it forward only",),
          (FILLED, "pass"),
          ("(lse_a - largest).exp(), (lse_b - largest).exp()",
           "(lse_a - largest).exp().nan_to_num(0.0), (lse_b - largest).exp().nan_to_num(0.0)"),
          ("nothing = total == 0", "nothing = largest == -torch.inf"),
          holds=(VALUES, NOTHING, LARGE)),
    wrong("detached", (GRADIENTS,), ("left the graph",),
          ("total = weight_a + weight_b", "total = (weight_a + weight_b).detach()"),
          holds=(VALUES, NOTHING, LARGE)),
    wrong("one_out_is_cut_off", (GRADIENTS,), ("left the graph",),
          (OUT, "out_a * share_a + out_b.detach() * share_b"), holds=(VALUES, NOTHING, LARGE)),
    wrong("cut_off", (GRADIENTS,), ("no .detach()",),
          ("return out,", "out, lse_a, lse_b = out.detach(), lse_a.detach(), lse_b.detach()\n"
           "        total, largest = total.detach(), largest.detach()\n        return out,"),
          holds=(VALUES,)),
    wrong("in_place", (VALUES,), ("make new tensors",),
          (OUT, "out_a.detach().mul_(share_a.detach()) + out_b * share_b")),
    wrong("in_fp32", (VALUES,), ("keep shape and type",), ("return out,", "return out.float(),")),
    wrong("one_result", (VALUES,), ("return both",),
          ("return out,", "return out\n        lse ="), breaks=True),
    wrong("no_unsqueeze", (VALUES,), ("lse.unsqueeze(-1)",),
          ("(weight_a / total).unsqueeze(-1)", "weight_a / total"), breaks=True),
    wrong("sys_exit", (VALUES,), ("ends its process",), ("total = weight_a + weight_b", "exit()"),
          breaks=True),
]  # fmt: skip
