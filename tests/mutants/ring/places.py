"""Wrong masks, wrong shares of a sequence, wrong bytes."""

from tests.mutants.ring.wrong import Wrong

VALUES, PLACES, REFUSAL = "values", "places", "refuses what cannot be shared"
CHECK = "if length % (2 * ranks): raise ValueError(f'{length} tokens, 2*{ranks} chunks')"
SIZE = "size = length // (2 * ranks)"
BOTH = "torch.cat([torch.arange(size) + rank * size, torch.arange(size) + {} * size])"
BYTES = "batch, length, kv_heads, head_dim, element_bytes, ranks"


def mask(name: str, hint: tuple, returned: str, breaks: bool = False) -> Wrong:
    text = f"def causal_block_mask(q_places, k_places):\n    return {returned}"
    return Wrong("causal_block_mask", name, (VALUES,), hint, text, breaks=breaks)


def zigzag(
    name: str, fails: tuple, hint: tuple, returned: str, check: str = CHECK, holds: tuple = ()
) -> Wrong:
    lines = ("def zigzag_positions(rank, ranks, length):", check, SIZE, f"return {returned}")
    return Wrong("zigzag_positions", name, fails, hint, "\n    ".join(lines), holds)


def ring_bytes(name: str, hint: tuple, returned: str) -> Wrong:
    text = f"def ring_bytes({BYTES}):\n    return {returned}"
    return Wrong("ring_bytes", name, (VALUES,), hint, text, breaks=True)  # a launch of its own


_ONES = "torch.ones(len(q_places), len(k_places), dtype=torch.bool)"
_WHOLE = "2 * batch * length * kv_heads * head_dim * element_bytes"
MUTANTS = [
    mask("local_triangle", ("local mask", "global positions"), f"{_ONES}.tril()"),
    mask("none", ("no mask at all",), _ONES),
    mask("strict", ("a token sees itself",), "k_places < q_places.unsqueeze(-1)"),
    mask("later_ones", ("not what comes after",), "k_places >= q_places.unsqueeze(-1)"),
    mask("hidden_ones", ("other way round",), "k_places > q_places.unsqueeze(-1)"),
    mask("transposed", ("one row a query",), "q_places >= k_places.unsqueeze(-1)"),
    mask("not_broadcast", ("one row a query",), "k_places <= q_places", breaks=True),
    mask("numbers", ("of type bool",), "(k_places <= q_places.unsqueeze(-1)).float()"),
    mask("as_floats", ("whole numbers",), "k_places.float() <= q_places.float().unsqueeze(-1)"),
    mask("by_search", ("ascend",), "torch.arange(len(k_places)) < torch.searchsorted(k_places, "
         "q_places, right=True).unsqueeze(-1)"),
    mask("queries_sorted", ("ascend",), "k_places <= q_places.sort().values.unsqueeze(-1)"),
    mask("within_the_block", ("local mask",),
         "(k_places - k_places[0]) <= (q_places - q_places[0]).unsqueeze(-1)"),
    zigzag("as_far_apart", (PLACES,), ("last rank still works most",),
           BOTH.format("(rank + ranks)"), holds=(REFUSAL,)),
    zigzag("stripes", (PLACES,), ("stripes",), "torch.arange(rank, length, ranks)"),
    zigzag("consecutive", (PLACES,), ("consecutive",),
           "torch.arange(2 * size) + rank * 2 * size"),
    zigzag("not_sorted", (PLACES,), ("ascending",),
           "torch.cat([torch.arange(size) + (2 * ranks - 1 - rank) * size, "
           "torch.arange(size) + rank * size])"),
    zigzag("mirrored_token_by_token", (PLACES,), ("ascending",),
           "torch.cat([torch.arange(size) + rank * size, "
           "length - 1 - torch.arange(size) - rank * size])"),
    zigzag("one_chunk_too_far", (PLACES,), ("last chunk is",), BOTH.format("(2 * ranks - rank)")),
    zigzag("odd_numbers_of_ranks", (PLACES,), ("odd and even",),
           BOTH.format("(2 * ranks - 1 - (rank if ranks % 2 == 0 else rank ^ 1))"),
           holds=(REFUSAL,)),
    zigzag("accepts_all", (REFUSAL,), ("multiple of 4, but not of 8",),
           BOTH.format("(2 * ranks - 1 - rank)"), "pass", holds=(PLACES,)),
    zigzag("multiples_of_the_ranks", (REFUSAL,), ("2*ranks chunks",),
           BOTH.format("(2 * ranks - 1 - rank)"),
           "if length % ranks: raise ValueError(length, ranks)", holds=(PLACES,)),
    zigzag("an_even_share", (REFUSAL,), ("is even, but 9 is no multiple of 4",),
           BOTH.format("(2 * ranks - 1 - rank)"), CHECK.replace("length % (2 * ranks)",
           "length // ranks % 2"), holds=(PLACES,)),
    zigzag("multiples_of_neither", (REFUSAL,), ("multiple",),
           BOTH.format("(2 * ranks - 1 - rank)"), CHECK.replace("if ",
           "if length % ranks == 0 and "), holds=(PLACES,)),
    zigzag("unequal_chunks_of_its_own", (REFUSAL,), ("whichever rank is asked for",),
           "torch.cat(mine)",
           "chunks = torch.arange(length).tensor_split(2 * ranks)\n"
           "    mine = [chunks[rank], chunks[-1 - rank]]\n"
           "    if len(mine[0]) != len(mine[1]): raise ValueError(f'{length} by 2*{ranks}')",
           holds=(PLACES,)),
    zigzag("rank_0_refuses", (REFUSAL,), ("whichever rank is asked for",),
           BOTH.format("(2 * ranks - 1 - rank)"), CHECK.replace("if ", "if rank == 0 and "),
           holds=(PLACES,)),
    zigzag("short_ones_refused", (REFUSAL,), ("1005 is a multiple of 5, but not of 10",),
           BOTH.format("(2 * ranks - 1 - rank)"), CHECK.replace("if ", "if length < 100 and "),
           holds=(PLACES,)),
    zigzag("mirrored_by_bits", (PLACES,), ("last chunk is",),
           BOTH.format("((2 * ranks - 1) ^ rank)"), holds=(REFUSAL,)),
    zigzag("asserts", (REFUSAL,), ("raise ValueError",), BOTH.format("(2 * ranks - 1 - rank)"),
           "assert length % (2 * ranks) == 0", holds=(PLACES,)),
    zigzag("says_no_number", (REFUSAL,), ("says the numbers",),
           BOTH.format("(2 * ranks - 1 - rank)"),
           "if length % (2 * ranks): raise ValueError('cannot be shared')", holds=(PLACES,)),
    zigzag("floats", (PLACES,), ("whole numbers",),
           BOTH.format("(2 * ranks - 1 - rank)") + ".double()"),
    ring_bytes("its_own_too", ("c-1 are sent",), _WHOLE),
    ring_bytes("keys_only", ("keys and values",), f"(ranks - 1) * {_WHOLE} // ranks // 2"),
    ring_bytes("all_tokens", ("T/c of them",), f"(ranks - 1) * {_WHOLE}"),
    ring_bytes("one_block", ("passed on c-1 times",), f"{_WHOLE} / ranks"),
    ring_bytes("share_rounded_down", ("divide with /",), f"(ranks - 1) // ranks * {_WHOLE}"),
    ring_bytes("always_fp32", ("4 bytes for any number",),
               f"(ranks - 1) / ranks * {_WHOLE} / element_bytes * 4"),
    ring_bytes("received_too", ("not sent and received",), f"2 * (ranks - 1) / ranks * {_WHOLE}"),
    ring_bytes("batch_squared", ("counts once",), f"(ranks - 1) / ranks * {_WHOLE} * batch"),
    ring_bytes("numbers_not_bytes", ("element_bytes",),
               f"(ranks - 1) / ranks * {_WHOLE} / element_bytes"),
]  # fmt: skip
