"""Wrong rings, forward: masks, sources, merges, messages."""

from tests.mutants.mutant import changed
from tests.mutants.ring.wrong import Wrong

OUT, LSE, BLOCKS, TRAFFIC, OVERLAP, FLIGHT, MEMORY = (
    "out", "lse", "blocks attended to", "traffic", "overlap", "messages on their way",
    "largest tensor",
)  # fmt: skip
ANSWER = """
    def ring_forward(q, k, v, q_places, k_places, attend, group=None):
        rank, c = dist.get_rank(group), dist.get_world_size(group)
        block, out, lse = torch.stack([k, v]), None, None
        for step in range(c):
            source = (rank - step) % c
            if step + 1 < c:
                arriving, works = _pass_on(block, group)
            if k_places[source].min() <= q_places.max():
                part = attend(q, block[0], block[1], q_places, k_places[source])
                out, lse = part if out is None else merge_partials(out, lse, *part)
            if step + 1 < c:
                for work in works:
                    work.wait()
                block = arriving
        if out is None:
            return torch.zeros_like(q), torch.full(q.shape[:-1], -torch.inf)
        return out.to(q.dtype), lse
    """
MERGE = "merge_partials(out, lse, *part)"
PASS = "arriving, works = _pass_on(block, group)"
SKIP = "k_places[source].min() <= q_places.max()"
WAIT = "for work in works:\n                    work.wait()"
PLACES = "q_places, k_places[source])"
PAIR = """
    def _pass_on(mine, group):
        group = group or dist.group.WORLD
        rank, c = dist.get_rank(group), dist.get_world_size(group)
        right, left = (dist.get_global_rank(group, (rank + s) % c) for s in (1, -1))
        arriving = torch.empty_like(mine)
        works = [dist.isend(mine, right, group=group), dist.irecv(arriving, left, group=group)]
        return arriving, works
    """
BOTH = "works = [dist.isend(mine, right, group=group), dist.irecv(arriving, left, group=group)]"
BLOCKING = PAIR.replace(
    BOTH, "dist.send(mine, right, group=group)\n        dist.recv(arriving, left, group=group)"
).replace("arriving, works", "arriving, []")
BY_PARITY = PAIR.replace(
    BOTH,
    """if rank % 2 == 0:
            dist.send(mine, right, group=group)
        else:
            dist.recv(arriving, left, group=group)
        dist.barrier(group)
        if rank % 2 == 0:
            dist.recv(arriving, left, group=group)
        else:
            dist.send(mine, right, group=group)
        works = []""",
)
GROUP_RANKS = PAIR.replace("dist.get_global_rank(group, (rank + s) % c)", "(rank + s) % c")
TO_THE_LEFT = PAIR.replace("(1, -1)", "(-1, 1)")


def wrong(
    name: str, fails: tuple, hint: tuple, *changes: tuple, holds: tuple = (), before: str = "",
    breaks: bool = False,
) -> Wrong:  # fmt: skip
    return Wrong(
        "ring_forward", name, fails, hint, before + changed(ANSWER, *changes), holds, breaks
    )


def merged(name: str, fails: tuple, hint: tuple, text: str, holds: tuple = ()) -> Wrong:
    """`text` puts `part` into out and lse."""
    before = f"""
    def join(out_a, lse_a, out_b, lse_b):
        {text}
    """
    change = (MERGE, "join(out, lse, *part)")
    return wrong(name, fails, hint, change, holds=holds, before=before)


_RIGHT_LSE = "torch.logaddexp(lse_a, lse_b)"
MUTANTS = [
    wrong("local_mask", (OUT, BLOCKS), ("local causal mask", "global positions"),
          (PLACES, "*[torch.arange(q.shape[2])] * 2)")),
    wrong("own_places_for_all", (OUT, BLOCKS), ("local causal mask", "global positions"),
          (PLACES, "q_places, k_places[rank])"), (SKIP, "True")),
    wrong("no_mask", (OUT, BLOCKS), ("no mask",),
          (PLACES, "q_places * 0 + k_places.max() + 1, k_places[source])")),
    wrong("later_blocks_not_skipped", (BLOCKS,), ("passed on, not worked on",), (SKIP, "True"),
          holds=(OUT, LSE, TRAFFIC)),
    wrong("skips_by_rank", (OUT, BLOCKS), ("by places",), (SKIP, "source <= rank")),
    wrong("plain_average", (OUT,), ("out is off", "plain average"),
          (MERGE, "((out + part[0]) / 2, torch.logaddexp(lse, part[1]))"),
          holds=(LSE, BLOCKS, TRAFFIC, OVERLAP)),
    merged("weights_swapped", (OUT,), ("weights are swapped",), f"""lse = {_RIGHT_LSE}
        a, b = ((x - lse).exp().unsqueeze(-1) for x in (lse_a, lse_b))
        return b * out_a + a * out_b, lse""", holds=(LSE, BLOCKS)),
    merged("lse_of_the_last", (OUT, LSE), ("lse is off", "that of the last block"),
           "return merge_partials(out_a, lse_a, out_b, lse_b)[0], lse_b", holds=(BLOCKS,)),
    merged("lse_added", (LSE,), ("lse is off", "are added"),
           "return merge_partials(out_a, lse_a, out_b, lse_b)[0], lse_a + lse_b"),
    merged("last_block_only", (OUT,), ("that of the last block",), f"return out_b, {_RIGHT_LSE}",
           holds=(LSE,)),
    merged("not_rescaled", (OUT,), ("large scores overflow",), """a, b = lse_a.exp(), lse_b.exp()
        total = (a + b).clamp(min=1e-300)
        out = out_a * (a / total).unsqueeze(-1) + out_b * (b / total).unsqueeze(-1)
        return out, (a + b).log()""", holds=(BLOCKS,)),
    merged("nan_where_nothing_is_seen", (OUT,), ("-inf - -inf",), """m = torch.maximum(lse_a, lse_b)
        a, b = (lse_a - m).exp(), (lse_b - m).exp()
        out = (out_a * a.unsqueeze(-1) + out_b * b.unsqueeze(-1)) / (a + b).unsqueeze(-1)
        return out, m + (a + b).log()""", holds=(BLOCKS, TRAFFIC)),
    wrong("to_the_left", (OUT, BLOCKS), ("after s hops to the right",), before=TO_THE_LEFT),
    wrong("source_off_by_one", (OUT, BLOCKS), ("after s hops to the right",),
          ("(rank - step) % c", "(rank - step - 1) % c")),
    wrong("own_block_skipped", (OUT, BLOCKS), ("your own block",), (SKIP, f"step and {SKIP}")),
    wrong("last_block_skipped", (OUT, BLOCKS), ("the last block that arrives",),
          (SKIP, f"step + 1 < max(c, 2) and {SKIP}")),
    wrong("c_blocks_sent", (TRAFFIC,), ("c-1 are enough",),
          (PASS, PASS + "\n            elif c > 1:\n                arriving, works = "
           "_pass_on(block, group)"),
          ("if step + 1 < c:\n                for", "if c > 1:\n                for"),
          holds=(OUT, LSE, BLOCKS)),
    wrong("blocking_send", (OUT,), ("every rank of the ring sends first",), before=BLOCKING,
          breaks=True),
    wrong("waits_at_once", (OVERLAP,), ("before attend", "wait for both after"),
          (PASS, f"{PASS}\n                [work.wait() for work in works]"), (WAIT, "pass"),
          holds=(OUT, LSE, BLOCKS, TRAFFIC, FLIGHT)),
    wrong("posts_after", (OVERLAP,), ("before attend",),
          (PASS, "pass"), (WAIT, f"{PASS}\n                {WAIT}"),
          holds=(OUT, LSE, BLOCKS, TRAFFIC, FLIGHT)),
    wrong("by_parity", (OUT,), ("by even and odd ranks",), before=BY_PARITY, breaks=True),
    wrong("group_ranks", (OUT,), ("dist.get_global_rank",), before=GROUP_RANKS, breaks=True),
    wrong("group_not_used", (OUT,), ("group",), ("dist.get_rank(group), dist.get_world_size(group)",
          "dist.get_rank(), dist.get_world_size()"), ("_pass_on(block, group)",
          "_pass_on(block, None)"), breaks=True),
    wrong("overwrites_what_is_sent", (FLIGHT,), ("tensor of its own",),
          (WAIT, "works[1].wait()"), ("block = arriving",
          "block.copy_(arriving)\n                works[0].wait()")),
    wrong("overwrites_unseen_by_torch", (FLIGHT,), ("tensor of its own",),
          (WAIT, "works[1].wait()"), ("block = arriving",
          "block.data.copy_(arriving)\n                works[0].wait()")),
    wrong("skips_where_places_are_equal", (OUT, BLOCKS), ("a token sees itself",),
          (SKIP, SKIP.replace("<=", "<"))),
    wrong("own_block_to_everybody", (TRAFFIC,), ("each rank sends to its right neighbour only",),
          (PASS, "to, come = ((rank + s * (step + 1)) % c for s in (1, -1))\n"
           "                to, come = (dist.get_global_rank(group or dist.group.WORLD, r) "
           "for r in (to, come))\n"
           "                arriving, mine = torch.empty_like(block), torch.stack([k, v])\n"
           "                works = [dist.isend(mine, to, group=group), "
           "dist.irecv(arriving, come, group=group)]"),
          holds=(OUT, LSE, BLOCKS)),
    wrong("blocking_receive", (OUT,), ("every rank receives first",), before=PAIR.replace(BOTH,
          "dist.recv(arriving, left, group=group)\n        dist.send(mine, right, group=group)\n"
          "        works = []"), breaks=True),
    wrong("receives_into_what_is_sent", (FLIGHT,), ("tensor of its own",),
          before=PAIR.replace("torch.empty_like(mine)", "mine")),
    wrong("never_waits_for_sends", (FLIGHT,), ("keep every handle",),
          (WAIT, "works[1].wait()"), holds=(OUT, LSE)),
    wrong("reads_before_the_wait", (OUT, BLOCKS), ("nobody's block",),
          (PASS, f"{PASS}\n                arriving, late = torch.zeros_like(block), arriving")),
    wrong("gathers_everything", (TRAFFIC, MEMORY), ("the whole of k and v",),
          (PASS, "pass"), (WAIT, "pass"), ("block = arriving", "pass"),
          ("for step", "every = block.new_empty(c, *block.shape)\n        "
           "dist.all_gather_into_tensor(every.flatten(0, 1), block, group=group)\n        "
           "for step"),
          ("if k_places[source]", "block = every[source]\n            if k_places[source]"),
          holds=(OUT, LSE, BLOCKS)),
    wrong("query_heads_sent", (TRAFFIC,), ("repeated for the query heads",),
          ("torch.stack([k, v])",
           "torch.stack([k, v]).repeat_interleave(q.shape[1] // k.shape[1], 2)"),
          holds=(OUT, LSE, BLOCKS)),
    wrong("keys_only_go_round", (OUT, BLOCKS), ("k and v of a block travel together",),
          ("block[1], q_places", "v, q_places")),
    wrong("barrier", (TRAFFIC,), ("no barrier",),
          (PASS, f"dist.barrier(group)\n                {PASS}"), holds=(OUT, LSE)),
    wrong("in_pieces", (TRAFFIC,), ("each message more costs",),
          (PASS, "pairs = [_pass_on(head.contiguous(), group) for head in block.unbind(3)]\n"
           "                works = [work for _, some in pairs for work in some]"),
          ("block = arriving", "block = torch.stack([new for new, _ in pairs], 3)"),
          holds=(OUT, LSE)),
    wrong("rounded_at_each_merge", (OUT,), ("nearly right", "round once, at the end"),
          (MERGE, "merge_partials(out.to(q.dtype).to(out.dtype), lse, *part)"),
          holds=(LSE, BLOCKS, TRAFFIC, OVERLAP)),
    wrong("blocks_rounded", (OUT,), ("nearly right", "round once, at the end"),
          ("out, lse = part", "part = (part[0].to(q.dtype).to(part[0].dtype), part[1])\n"
           "                out, lse = part"), holds=(LSE, BLOCKS)),
    wrong("lse_in_fp32", (LSE,), ("nearly right", "fp32 or better"),
          ("return out.to(q.dtype), lse", "return out.to(q.dtype), lse.float()"), holds=(OUT,)),
    wrong("a_mask_of_all_keys", (MEMORY,), ("as long as the whole sequence",),
          ("block, out, lse =", "every = k_places.flatten() <= q_places.unsqueeze(-1)\n"
           "        block, out, lse ="), holds=(OUT, LSE, BLOCKS, TRAFFIC, OVERLAP, FLIGHT)),
    wrong("scores_of_all_keys", (MEMORY,), ("as long as the whole sequence",),
          ("block, out, lse =", "every = torch.zeros(q.shape[2] * c, q.shape[2] * c, "
           "dtype=torch.bool)\n        block, out, lse ="), holds=(OUT, LSE)),
    wrong("works_on_what_arrives", (FLIGHT,), ("there after its wait",),
          (WAIT, "for work in late:\n                    work.wait()\n"
           "                late = works"),
          ("block, out, lse =", "late = []\n        block, out, lse ="),
          ("if out is None:", "for work in late:\n            work.wait()\n"
           "        if out is None:")),
    wrong("a_head_at_a_time", (BLOCKS,), ("hand on all heads",),
          ("part = attend(q, block[0], block[1], q_places, k_places[source])",
           "each = q.shape[1] // k.shape[1]\n"
           "                part = [attend(q[:, each * i : each * i + each], "
           "*block[:, :, i : i + 1], q_places, k_places[source]) for i in range(k.shape[1])]\n"
           "                part = tuple(torch.cat(x, 1) for x in zip(*part))")),
    wrong("batch_in_another_order", (OUT, BLOCKS), ("nobody's block",),
          ("q, block[0], block[1],", "q, block[0].flip(0), block[1].flip(0),")),
    wrong("travels_in_fp64", (TRAFFIC,), ("cast where you compute",),
          ("torch.stack([k, v])", "torch.stack([k, v]).double()"),
          ("q, block[0], block[1],", "q, block[0].to(q.dtype), block[1].to(q.dtype),"),
          holds=(OUT, LSE, BLOCKS)),
    wrong("wide_out", (OUT,), ("has the type that came in",), ("out.to(q.dtype)", "out.double()")),
    wrong("nothing_seen_is_none", (OUT,), ("nonetype",), ("if out is None:", "if False:"),
          breaks=True),
    wrong("changes_k", (OUT,), ("tensors of your own",),
          ("block = arriving", "block = arriving\n                k.copy_(block[0])"),
          holds=(LSE, BLOCKS)),
    wrong("one_result", (OUT,), ("as a tuple",), ("return out.to(q.dtype), lse", "return out"),
          breaks=True),
    wrong("sys_exit", (OUT,), ("ends its process",), ("block = arriving", "exit()"), breaks=True),
]  # fmt: skip
