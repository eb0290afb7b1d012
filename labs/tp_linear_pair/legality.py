"""Which shapes can be shared out over which ranks, and what to say when they cannot.

Pure Python, so that a lab can refuse before anything is launched. The rules:
    q heads    a multiple of the ranks
    kv heads   a multiple of the ranks, or a divisor of them: then each is copied t/kv times
    MLP width  a multiple of the ranks; of a fused [gate | up] it is d_ff that counts, not 2·d_ff
    vocabulary any: it is padded to a multiple of the ranks (unless padding is turned off)
"""

from __future__ import annotations

from collections.abc import Iterable

from labs.formulas import legal_kv


def legal_ranks(heads: int, kv_heads: int, d_ff: int | None = None) -> list[int]:
    """Every number of ranks that these heads (and this MLP width, if given) allow."""
    return [
        ranks
        for ranks in range(1, heads + 1)
        if heads % ranks == 0 and legal_kv(kv_heads, ranks) and (d_ff is None or d_ff % ranks == 0)
    ]


def held_query_heads(heads: int, rank: int, ranks: int) -> range:
    """The query heads that a rank holds: its run of heads/t."""
    mine = heads // ranks
    return range(rank * mine, (rank + 1) * mine)


def held_kv_heads(kv_heads: int, rank: int, ranks: int) -> range:
    """The KV heads that a rank holds: its run of kv/t, or the one head that it holds a copy of.

    They are those that its query heads use: query head i uses KV head i // (heads/kv).
    """
    if kv_heads >= ranks:
        mine = kv_heads // ranks
        return range(rank * mine, (rank + 1) * mine)
    head = rank // (ranks // kv_heads)
    return range(head, head + 1)


def kv_copies(kv_heads: int, ranks: int) -> list[list[int]]:
    """Groups of ranks that hold the same KV heads, in rank order; every rank is in one group.

    8 heads on 4 ranks: [[0], [1], [2], [3]]. 2 heads on 4 ranks: [[0, 1], [2, 3]].
    """
    groups: dict[int, list[int]] = {}
    for rank in range(ranks):
        groups.setdefault(held_kv_heads(kv_heads, rank, ranks).start, []).append(rank)
    return list(groups.values())


def check_shape(
    d: int,
    heads: int,
    kv_heads: int,
    d_ff: int,
    vocab: int | None,
    ranks: int,
    *,
    pad_vocab: bool = True,
) -> None:
    """Refuse a block that `ranks` ranks cannot share, in a sentence with the nearest that work.

    d, heads, kv_heads, d_ff, vocab   the whole model's; vocab None: no embedding and no head
    pad_vocab   False: an indivisible vocabulary is refused too

    Raises ValueError; None is returned when all is well.
    """
    named = {"d": d, "heads": heads, "kv_heads": kv_heads, "d_ff": d_ff, "ranks": ranks}
    if vocab is not None:
        named["vocab"] = vocab
    for name, number in named.items():
        if number < 1:
            raise ValueError(f"{name}={number} was asked for; it must be 1 or more.")
    check_heads(d, heads, kv_heads)
    _check_query_heads(heads, kv_heads, d_ff, ranks)
    _check_kv_heads(heads, kv_heads, d_ff, ranks)
    check_width(d_ff, ranks)
    if vocab is not None and not pad_vocab and vocab % ranks:
        raise ValueError(
            f"A vocabulary of {vocab} columns cannot be shared by {ranks} ranks without padding: "
            f"{vocab} % {ranks} = {vocab % ranks}. With {ranks} ranks, "
            f"{_multiples(vocab, ranks)} columns work; {vocab} can be padded to the larger."
        )


def check_heads(d: int, heads: int, kv_heads: int) -> None:
    """Refuse heads that do not fit d, or KV heads that do not fit the heads. Raises ValueError."""
    if d % heads:
        near = _nearest(heads, (h for h in range(1, d + 1) if d % h == 0))
        raise ValueError(
            f"d = {d} cannot be divided into {heads} heads: {d} % {heads} = {d % heads}. "
            f"With d = {d}, {near} heads work; with {heads} heads, d = {_multiples(d, heads)}."
        )
    if heads % kv_heads:
        near = _nearest(kv_heads, (k for k in range(1, heads + 1) if heads % k == 0))
        raise ValueError(
            f"{heads} query heads cannot be grouped over {kv_heads} kv heads: "
            f"{heads} % {kv_heads} = {heads % kv_heads}. With {heads} query heads, {near} kv heads "
            "work."
        )


def check_width(d_ff: int, ranks: int, *, gated: bool = False) -> None:
    """Refuse an MLP width that `ranks` ranks cannot share. Raises ValueError.

    d_ff is the width of one part. For a fused [gate | up] of 2·d_ff columns that is what must
    divide: with d_ff = 3 and 2 ranks, 2·d_ff = 6 divides, yet a rank would hold a gate without its
    up.
    """
    if d_ff % ranks == 0:
        return
    fused = (
        f" (of the fused width {2 * d_ff} each rank needs a share of gate and the same share of up)"
        if gated
        else ""
    )
    some = _words(r for r in range(1, min(d_ff, 64) + 1) if d_ff % r == 0)
    raise ValueError(
        f"An MLP of width d_ff = {d_ff} cannot be shared by {ranks} ranks: "
        f"{d_ff} % {ranks} = {d_ff % ranks}{fused}. With d_ff = {d_ff}, {some} ranks work; "
        f"with {ranks} ranks, d_ff = {_multiples(d_ff, ranks)}."
    )


def _check_query_heads(heads: int, kv_heads: int, d_ff: int, ranks: int) -> None:
    if heads % ranks == 0:
        return

    def legal(h: int) -> bool:
        return h % ranks == 0 and h % kv_heads == 0 and legal_kv(kv_heads, ranks)

    near = _nearest(heads, filter(legal, range(1, 2 * max(heads, ranks * kv_heads) + 1)))
    if near:
        instead = f"with {ranks} ranks and {kv_heads} kv heads, {near} query heads"
    else:
        instead = f"with {ranks} ranks, {_multiples(heads, ranks)} query heads and as many kv heads"
    raise ValueError(
        f"{heads} query heads cannot be shared by {ranks} ranks: "
        f"{heads} % {ranks} = {heads % ranks}. "
        f"{_ranks_that_work(heads, kv_heads, d_ff)}; {instead}."
    )


def _check_kv_heads(heads: int, kv_heads: int, d_ff: int, ranks: int) -> None:
    if legal_kv(kv_heads, ranks):
        return
    clash = f"{kv_heads} % {ranks} = {kv_heads % ranks}"
    if ranks > kv_heads:
        clash += f", and they cannot be copied evenly: {ranks} % {kv_heads} = {ranks % kv_heads}"

    def legal(k: int) -> bool:
        return heads % k == 0 and legal_kv(k, ranks)

    near = _nearest(kv_heads, filter(legal, range(1, heads + 1)))
    raise ValueError(
        f"{kv_heads} kv heads cannot be shared by {ranks} ranks: {clash}. "
        f"{_ranks_that_work(heads, kv_heads, d_ff)}; with {ranks} ranks and {heads} query heads, "
        f"{near} kv heads."
    )


def _ranks_that_work(heads: int, kv_heads: int, d_ff: int) -> str:
    """Rank counts for these heads, and for the MLP width too unless that leaves 1 rank only."""
    both = legal_ranks(heads, kv_heads, d_ff)
    if len(both) > 1:
        return f"With these heads and d_ff = {d_ff}, {_words(both)} ranks work"
    return f"With these heads {_words(legal_ranks(heads, kv_heads))} ranks work"


def _multiples(number: int, of: int) -> str:
    """The multiples of `of` on either side of `number`, in words."""
    below = number // of * of
    return _words([below] * (below > 0) + [below + of])


def _nearest(number: int, candidates: Iterable[int]) -> str:
    """The candidates on either side of `number`, in words."""
    known = sorted(candidates)
    lower = [c for c in known if c < number][-1:]
    upper = [c for c in known if c > number][:1]
    return _words(lower + upper)


def _words(numbers: Iterable[int]) -> str:
    """1, 2 or 4."""
    texts = [str(n) for n in numbers]
    return " or ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
