"""One attention of the sizes that somebody asks for: equal to one device, its bytes, its peak."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from labs import equality, unanswered
from labs import ranks as on_ranks
from labs.answers import Missing, references
from labs.context_parallel.attention import BLOCKS
from labs.context_parallel.jobs import CAUSAL, PLAIN, RING, ULYSSES, ZIGZAG, Job
from labs.context_parallel.on_rank import on_rank
from labs.formulas.sizes import need_whole
from labs.ranks import Run
from labs.result import Result
from labs.ring_attention import parity, refuse, traffic

NAMES = ("ring_forward", "ring_backward", "zigzag_positions")
_LIMIT = 120.0


def one(
    ranks: int = 4,
    *,
    length: int = 768,
    batch: int = 1,
    heads: int = 8,
    kv_heads: int = 8,
    head_dim: int = 8,
    dtype: torch.dtype = torch.float64,
    mask: str = CAUSAL,
    layout: str = PLAIN,
    way: str = RING,
    block: str = "tiled",
    seed: int = 0,
    mode: str | None = None,
    status: bool = True,
    **mine: Callable,
) -> Result:
    """Attention over `length` tokens that `ranks` ranks hold together, forward and backward.

    mask: "causal" or "full"; layout: "plain" or "zigzag"; way: "ring" or "ulysses"; block: a name
    of BLOCKS in labs.context_parallel.attention; mine: ring_forward, ring_backward,
    zigzag_positions of your own.

    Raises ValueError, with the numbers that clash, before anything is launched.
    """
    _refuse(ranks, length, batch, heads, kv_heads, head_dim, dtype, mask, layout, way, block, mine)
    refuse.seed(seed)
    told = f"T={length}, c={ranks}, {heads} heads, {kv_heads} of keys, {mask}, {layout}, {way}"
    job = Job(
        told, tuple(range(ranks)), length, batch, heads, kv_heads, head_dim, dtype, mask, layout,
        block, way, seed, memory=True, timeline=True,
    )  # fmt: skip
    refuse.fits(ranks, [job])
    result = Result("ring_attention", dict(ranks=ranks, length=length))
    try:
        parts = references(dict.fromkeys(NAMES, "ring_attention"), mine)
    except Missing as missing:
        return unanswered.told(result, missing)
    begun = time.monotonic()
    run = _launch(parts, job, mode, status)
    held = parity.hold(job, 0, run, parts, parity.Wholes())
    result.run, result.values["held"] = run, held
    result.checks += parity.checks([held], "this attention")
    result.checks += traffic.checks([job], run)
    peak = max(told["peak_bytes"] for told in run.memory if told["name"] == job.name)
    result.notes.append(f"peak a rank: {peak / 2**20:.2f} MiB, forward and backward")
    result.seconds = time.monotonic() - begun
    return result


def _launch(parts: dict[str, Callable], job: Job, mode: str | None, status: bool) -> Run:
    return on_ranks.launch(
        on_rank, job.ranks, args=(parts, [job]), limit=_LIMIT, mode=mode, status=status
    )


def _refuse(
    n: int, length: int, batch: int, heads: int, kv_heads: int, head_dim: int, dtype: torch.dtype,
    mask: str, layout: str, way: str, block: str, mine: dict[str, Callable],
) -> None:  # fmt: skip
    refuse.world(n)
    need_whole(length=length, batch=batch, heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    refuse.mask(mask)
    refuse.layout(layout)
    refuse.length(length, n, layout if layout == ZIGZAG else PLAIN)
    refuse.heads(heads, kv_heads)
    if way not in (RING, ULYSSES):
        raise ValueError(f"the way {way!r} was asked for; there are {RING!r} and {ULYSSES!r}")
    if way == ULYSSES:
        from labs.context_parallel.ulysses import check_heads

        check_heads(heads, kv_heads, n)
    if not isinstance(block, str) or block not in BLOCKS:
        raise ValueError(f"the block {block!r} was asked for; there are {', '.join(BLOCKS)}")
    known = (*equality.EPS, torch.bfloat16)
    if dtype not in known:
        names = ", ".join(str(one) for one in known)
        raise ValueError(f"dtype {dtype!r} was asked for; the lab holds {names} to a bound")
    if dtype == torch.bfloat16 and block == "flash":
        raise ValueError(
            "the block 'flash' was asked for in torch.bfloat16: the fused kernel rounds what it "
            "returns of each block to bf16, and the lab holds a ring to sums in fp32; 'tiled' and "
            "'matmul' keep them"
        )
    unknown = [name for name in mine if name not in NAMES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no part of it; there are {', '.join(NAMES)}")
    refuse.functions(mine)
