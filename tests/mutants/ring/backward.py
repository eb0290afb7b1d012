"""Wrong rings, backward: whose softmax, where sums go, what they are added up in."""

from tests.mutants.mutant import changed
from tests.mutants.ring.forward import (
    BLOCKING,
    BLOCKS,
    FLIGHT,
    GROUP_RANKS,
    MEMORY,
    OVERLAP,
    TRAFFIC,
)
from tests.mutants.ring.wrong import Wrong

DQ, DK, DV = "dq", "dk", "dv"
ANSWER = """
    def ring_backward(d_out, q, k, v, out, lse, q_places, k_places, attend_backward, group=None):
        rank, c = dist.get_rank(group), dist.get_world_size(group)
        exact = torch.promote_types(q.dtype, torch.float32)
        dq, block = torch.zeros_like(q, dtype=exact), torch.stack([k, v])
        sums, leaving = torch.zeros_like(block, dtype=exact), []
        for step in range(c):
            source = (rank - step) % c
            if step + 1 < c:
                arriving, works = _pass_on(block, group)
            visible = k_places[source].min() <= q_places.max()
            if visible:
                more = attend_backward(
                    d_out, q, block[0], block[1], out, lse, q_places, k_places[source]
                )
            for work in leaving:
                work.wait()
            if visible:
                dq += more[0]
                sums[0] += more[1]
                sums[1] += more[2]
            if c > 1:
                sums, leaving = _pass_on(sums, group)
            if step + 1 < c:
                for work in works:
                    work.wait()
                block = arriving
        for work in leaving:
            work.wait()
        dk, dv = sums
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
    """
VISIBLE = "k_places[source].min() <= q_places.max()"
HANDED_ON = "d_out, q, block[0], block[1], out, lse, q_places, k_places[source]"
CALL = f"more = attend_backward(\n                    {HANDED_ON}\n                )"
PASS_KV = "arriving, works = _pass_on(block, group)"
PASS_SUMS = "if c > 1:\n                sums, leaving = _pass_on(sums, group)"
WAIT = "for work in works:\n                    work.wait()"
END = "dk, dv = sums"
RETURN = "return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)"
ONE_BLOCK = """
    def one_block(q, k, v, q_places, k_places):
        each = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(each, 1) for x in (k, v))
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(k_places > q_places.unsqueeze(-1), -torch.inf)
        lse = scores.logsumexp(-1)
        shift = lse.masked_fill(lse == -torch.inf, 0.0).unsqueeze(-1)
        return (scores - shift).exp() @ v, lse
    """
OWN = "own = one_block(q, block[0], block[1], q_places, k_places[source])\n                "


def wrong(
    name: str, fails: tuple, hint: tuple, *changes: tuple, holds: tuple = (), before: str = "",
    breaks: bool = False,
) -> Wrong:  # fmt: skip
    return Wrong(
        "ring_backward", name, fails, hint, before + changed(ANSWER, *changes), holds, breaks
    )


MUTANTS = [
    wrong("lse_of_the_block", (DQ, DK, DV, BLOCKS), ("dq, dk and dv are off", "a block's own lse"),
          (CALL, OWN + CALL.replace("lse,", "own[1],")), before=ONE_BLOCK),
    wrong("out_of_the_block", (DQ, DK, BLOCKS),
          ("dq and dk are off", "a block's own out", "dv does without"),
          (CALL, OWN + CALL.replace("out, lse,", "own[0], lse,")), before=ONE_BLOCK, holds=(DV,)),
    wrong("not_sent_home", (DK, DV), ("not sent home",),
          (PASS_SUMS, "leaving = []\n            " + PASS_SUMS.replace("c > 1", "step + 1 < c")),
          holds=(DQ, BLOCKS, TRAFFIC)),
    wrong("one_hop_too_many", (DK, DV, TRAFFIC),
          ("dk and dv are off", "hops off", "one hop too many"),
          (END, "if c > 1:\n            sums, leaving = _pass_on(sums, group)\n"
           "            [work.wait() for work in leaving]\n        dk, dv = sums"), holds=(DQ,)),
    wrong("left_on_the_wrong_rank", (DK, DV, TRAFFIC), ("dk and dv were not sent",),
          (PASS_SUMS, "pass"), holds=(DQ,)),
    wrong("own_queries_only", (DK, DV), ("this rank's own queries",),
          ("sums[0] += more[1]\n                sums[1] += more[2]",
           "if step == 0: mine = torch.stack(more[1:])"),
          (END, "dk, dv = mine if k_places[rank].min() <= q_places.max() else sums"), holds=(DQ,)),
    wrong("sums_replaced", (DK, DV), ("do not replace it",), ("sums[0] += more[1]",
          "sums[0] = more[1]"), ("sums[1] += more[2]", "sums[1] = more[2]"), holds=(DQ,)),
    wrong("sums_in_bf16", (TRAFFIC,), ("sums of dk and dv travel in bfloat16",),
          ("exact = torch.promote_types(q.dtype, torch.float32)", "exact = q.dtype"),
          holds=(BLOCKS,)),
    wrong("dq_in_bf16", (DQ,), ("dq is off", "nearly right", "round once, at the end"),
          ("dq, block = torch.zeros_like(q, dtype=exact)", "dq, block = torch.zeros_like(q)"),
          holds=(DK, DV, BLOCKS, TRAFFIC, OVERLAP, FLIGHT)),
    wrong("parts_rounded", (DQ, DK, DV), ("dq, dk and dv are off: nearly right",),
          ("dq += more[0]", "more = [x.to(q.dtype) for x in more]\n                dq += more[0]"),
          holds=(BLOCKS, TRAFFIC, OVERLAP, FLIGHT)),
    wrong("sums_rounded_at_each_rank", (DK, DV), ("dk and dv are off: nearly right",),
          ("sums[1] += more[2]", "sums[1] += more[2]\n"
           "                sums.copy_(sums.to(q.dtype))"),
          holds=(DQ, BLOCKS, TRAFFIC, OVERLAP, FLIGHT)),
    wrong("adds_before_the_wait", (FLIGHT,), ("there after its wait",),
          ("for work in leaving:\n                work.wait()\n            if visible:\n"
           "                dq", "if visible:\n                dq"),
          ("if c > 1:\n                sums, leaving", "for work in leaving:\n"
           "                work.wait()\n            if c > 1:\n                sums, leaving"),
          holds=(DQ, BLOCKS, TRAFFIC)),
    wrong("sums_waited_for_at_once", (OVERLAP,), ("sums leave when your part is added",),
          (PASS_SUMS, PASS_SUMS + "\n                [work.wait() for work in leaving]\n"
           "                leaving = []"), holds=(DQ, DK, DV, BLOCKS, TRAFFIC, FLIGHT)),
    wrong("sums_waited_for_before_the_work", (OVERLAP,), ("sums leave when your part is added",),
          ("visible = k_places", "[work.wait() for work in leaving]\n            leaving = []\n"
           "            visible = k_places"), holds=(DQ, DK, DV, BLOCKS, TRAFFIC, FLIGHT)),
    wrong("scores_of_all_keys", (MEMORY,), ("as long as the whole sequence",),
          (END, END + "\n        every = torch.zeros(q.shape[2] * c, q.shape[2] * c, "
           "dtype=torch.bool)"),
          holds=(DQ, DK, DV, BLOCKS, TRAFFIC, OVERLAP, FLIGHT)),
    wrong("dq_of_the_last", (DQ,), ("dq is off", "what the last block adds"),
          ("dq += more[0]", "dq = more[0]"), holds=(DK, DV, BLOCKS)),
    wrong("dq_summed_over_ranks", (DQ, TRAFFIC), ("dq is off", "each rank's queries are its own"),
          (END, END + "\n        dist.all_reduce(dq, group=group)"), holds=(DK, DV)),
    wrong("query_heads_not_summed", (DK, DV), ("dk has the shape of k", "query heads"),
          (RETURN, "each = q.shape[1] // k.shape[1]\n"
           "        dk, dv = (x.repeat_interleave(each, 1) for x in (dk, dv))\n        " + RETURN),
          holds=(DQ,)),
    wrong("scale_twice", (DQ,), ("dq is off", "sqrt(d_h) once too often"),
          (END, END + "\n        dq = dq * q.shape[-1] ** -0.5"), holds=(DK, DV)),
    wrong("scale_of_dk_twice", (DK,), ("dk is off", "sqrt(d_h) once too often"),
          (END, END + "\n        dk = dk * q.shape[-1] ** -0.5"), holds=(DQ, DV)),
    wrong("averaged", (DK, DV), ("dk and dv are off", "averaged over the 4 ranks"),
          (END, "dk, dv = sums / c"), holds=(DQ,)),
    wrong("swapped", (DK, DV), ("dk is off", "that of dv"), (END, "dv, dk = sums"), holds=(DQ,)),
    wrong("local_mask", (DQ, BLOCKS), ("local causal mask",),
          (HANDED_ON, HANDED_ON.replace("k_places[source]", "k_places[rank]")), (VISIBLE, "True")),
    wrong("source_off_by_one", (DQ, BLOCKS), ("after s hops to the right",),
          ("(rank - step) % c", "(rank - step + 1) % c")),
    wrong("later_blocks_not_skipped", (BLOCKS,), ("passed on, not worked on",), (VISIBLE, "True"),
          holds=(DQ, DK, DV, TRAFFIC)),
    wrong("own_block_skipped", (DQ, BLOCKS), ("your own block",),
          (VISIBLE, f"step > 0 and {VISIBLE}")),
    wrong("keys_go_c_hops", (TRAFFIC,), ("k, v make c-1 of them",),
          ("if step + 1 < c:\n                arriving", "if c > 1:\n                arriving"),
          ("if step + 1 < c:\n                for", "if c > 1:\n                for"),
          holds=(DQ, DK, DV)),
    wrong("blocking_send", (DQ,), ("every rank of the ring sends first",), before=BLOCKING,
          breaks=True),
    wrong("waits_at_once", (OVERLAP,), ("before attend",),
          (PASS_KV, f"{PASS_KV}\n                [work.wait() for work in works]"),
          (WAIT, "pass"), holds=(DQ, DK, DV, BLOCKS, TRAFFIC, FLIGHT)),
    wrong("group_ranks", (DQ,), ("dist.get_global_rank",), before=GROUP_RANKS, breaks=True),
    wrong("adds_to_what_is_sent", (FLIGHT,), ("a send reads its buffer",),
          ("if c > 1:\n                sums, leaving = _pass_on(sums, group)",
           "if c > 1:\n                old = sums\n"
           "                sums, leaving = _pass_on(sums, group)\n                old += 0"),
          holds=(DQ,)),
    wrong("gathers_everything", (TRAFFIC, MEMORY), ("the whole of k and v",),
          (PASS_KV, "pass"), (WAIT, "pass"), ("block = arriving", "pass"),
          ("for step", "every = block.new_empty(c, *block.shape)\n        "
           "dist.all_gather_into_tensor(every.flatten(0, 1), block, group=group)\n        "
           "for step"),
          ("visible = k_places", "block = every[source]\n            visible = k_places"),
          holds=(DQ, DK, DV, BLOCKS)),
    wrong("changes_d_out", (DQ, BLOCKS), ("handed on as it came",),
          ("dq += more[0]", "dq += more[0]\n                d_out *= 2")),
    wrong("changes_out", (DQ,), ("out was changed in place", "tensors of your own"),
          (END, END + "\n        out.zero_()"), holds=(DK, DV)),
    wrong("types_stay_wide", (DQ,), ("has the type that came in",), (RETURN, "return dq, dk, dv")),
    wrong("dq_only", (DQ,), ("as a tuple",), (RETURN, "return dq"), breaks=True),
    wrong("sys_exit", (DQ,), ("ends its process",), (END, "exit()"), breaks=True),
]  # fmt: skip
