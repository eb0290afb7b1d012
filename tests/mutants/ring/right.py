"""Other right ways to solve the exercises of notebook 04, which must pass."""

from tests.mutants.mutant import changed
from tests.mutants.ring.backward import ANSWER as BACKWARD
from tests.mutants.ring.backward import END, PASS_KV, PASS_SUMS
from tests.mutants.ring.forward import ANSWER as FORWARD
from tests.mutants.ring.forward import PAIR, PASS, SKIP, TO_THE_LEFT

_TWO = """
        pairs = [_pass_on(x.contiguous(), group) for x in block]
        arriving = torch.stack([new for new, _ in pairs])
        works = [work for _, some in pairs for work in some]
"""
RIGHT = {
    "a merge of sums": (
        "merge_partials",
        """
        def merge_partials(out_a, lse_a, out_b, lse_b):
            lse = torch.stack([lse_a, lse_b])
            top = lse.amax(0).clamp(min=-1e30)
            weights = (lse - top).exp()
            total = weights.sum(0)
            seen = total > 0
            out = (torch.stack([out_a, out_b]) * weights.unsqueeze(-1)).sum(0)
            safe = torch.where(seen, total, torch.ones_like(total))
            lse = torch.where(seen, top + safe.log(), torch.full_like(total, float("-inf")))
            return out / safe.unsqueeze(-1), lse
        """,
    ),
    "a merge by the sigmoid, some gradient where nothing is seen": (
        "merge_partials",
        """
        def merge_partials(out_a, lse_a, out_b, lse_b):
            none = (lse_a == -torch.inf) & (lse_b == -torch.inf)
            a, b = (x.masked_fill(none, 0.0) for x in (lse_a, lse_b))
            share = torch.sigmoid(b - a).unsqueeze(-1)
            lse = torch.maximum(a, b) + torch.log1p(torch.exp(-(a - b).abs()))
            return out_a + share * (out_b - out_a), lse.masked_fill(none, -torch.inf)
        """,
    ),
    "a mask by loops": (
        "causal_block_mask",
        """
        def causal_block_mask(q_places, k_places):
            return torch.tensor([[bool(k <= q) for k in k_places] for q in q_places])
        """,
    ),
    "zigzag by chunks of a view": (
        "zigzag_positions",
        """
        def zigzag_positions(rank, ranks, length):
            if length % (2 * ranks) != 0:
                raise ValueError(f"length {length} is no multiple of 2 * {ranks}")
            chunks = torch.arange(length).chunk(2 * ranks)
            return torch.cat([chunks[rank], chunks[-1 - rank]])
        """,
    ),
    "bytes by whole numbers": (
        "ring_bytes",
        """
        def ring_bytes(batch, length, kv_heads, head_dim, element_bytes, ranks):
            return (ranks - 1) * 2 * batch * length * kv_heads * head_dim * element_bytes // ranks
        """,
    ),
    "isend and irecv without a batch": ("ring_forward", PAIR + FORWARD),
    "K and V as two messages": (
        "ring_forward",
        changed(
            FORWARD,
            ("block, out, lse = torch.stack([k, v]), None, None",
             "block, out, lse = (k, v), None, None"),
            (PASS, "pairs = [_pass_on(x, group) for x in block]\n"
             "                works = [work for _, some in pairs for work in some]"),
            ("block = arriving", "block = [new for new, _ in pairs]"),
        ),
    ),
    "attend by keywords": (
        "ring_forward",
        changed(FORWARD, ("attend(q, block[0], block[1], q_places, k_places[source])",
                          "attend(v=block[1], k=block[0], q=q, k_places=k_places[source], "
                          "q_places=q_places)")),
    ),
    "queries that see nothing left out": (
        "ring_forward",
        changed(
            FORWARD,
            ("part = attend(q, block[0], block[1], q_places, k_places[source])",
             "some = q_places >= k_places[source].min()\n"
             "                new = attend(q[:, :, some], block[0], block[1], q_places[some], "
             "k_places[source])\n"
             "                part = (torch.zeros(q.shape, dtype=new[0].dtype),\n"
             "                        torch.full(q.shape[:-1], -torch.inf, dtype=new[1].dtype))\n"
             "                part[0][:, :, some], part[1][:, :, some] = new"),
        ),
    ),
    "to the left, sources told rightly": (
        "ring_forward",
        TO_THE_LEFT + changed(FORWARD, ("(rank - step) % c", "(rank + step) % c")),
    ),
    "a recursion by largest, sum and unscaled out": (
        "ring_forward",
        changed(
            FORWARD,
            ("block, out, lse = torch.stack([k, v]), None, None",
             "block = torch.stack([k, v])\n"
             "        exact = torch.promote_types(q.dtype, torch.float32)\n"
             "        top = torch.full(q.shape[:-1], -1e30, dtype=exact)\n"
             "        total, out = torch.zeros_like(top), torch.zeros_like(q, dtype=exact)"),
            ("out, lse = part if out is None else merge_partials(out, lse, *part)",
             "new = torch.maximum(top, part[1])\n"
             "                old, share = (top - new).exp(), (part[1] - new).exp()\n"
             "                total = total * old + share\n"
             "                out = out * old.unsqueeze(-1) + part[0] * share.unsqueeze(-1)\n"
             "                top = new"),
            ("if out is None:\n            return torch.zeros_like(q), "
             "torch.full(q.shape[:-1], -torch.inf)",
             "out = out / total.masked_fill(total == 0, 1.0).unsqueeze(-1)\n"
             "        lse = (top + total.log()).masked_fill(total == 0, -torch.inf)"),
        ),
    ),
    "half a block at a time": (
        "ring_forward",
        changed(
            FORWARD,
            (f"if {SKIP}:\n                part = attend(q, block[0], block[1], q_places, "
             "k_places[source])\n"
             "                out, lse = part if out is None else merge_partials(out, lse, *part)",
             "half = max(1, q.shape[2] // 2)\n"
             "            for at in (slice(0, half), slice(half, None)):\n"
             "                places = k_places[source][at]\n"
             "                if len(places) and places.min() <= q_places.max():\n"
             "                    part = attend(q, block[0, :, :, at], block[1, :, :, at], "
             "q_places, places)\n"
             "                    out, lse = part if out is None else "
             "merge_partials(out, lse, *part)"),
        ),
    ),
    "own sums stay at home": (
        "ring_backward",
        changed(
            BACKWARD,
            ("sums, leaving = torch.zeros_like(block, dtype=exact), []",
             "sums, leaving = torch.zeros_like(block, dtype=exact), []\n"
             "        mine = sums"),
            (PASS_SUMS,
             "if step == 0:\n                mine = sums.clone()\n"
             "                sums = torch.zeros_like(sums)\n"
             "            elif c > 1:\n                sums, leaving = _pass_on(sums, group)"),
            (END, "dk, dv = mine + sums if c > 1 else mine"),
        ),
    ),
    "isend and irecv without a batch, backward": ("ring_backward", PAIR + BACKWARD),
    "K, V as two messages, backward": (
        "ring_backward",
        changed(
            BACKWARD,
            (PASS_KV, "pairs = [_pass_on(x, group) for x in block]\n"
             "                works = [work for _, some in pairs for work in some]"),
            ("block = arriving", "block = torch.stack([new for new, _ in pairs])"),
        ),
    ),
    "sums in fp64": (
        "ring_backward",
        changed(BACKWARD, ("torch.promote_types(q.dtype, torch.float32)", "torch.float64")),
    ),
}  # fmt: skip
"""By what is special: the exercise and the text of its cell."""
