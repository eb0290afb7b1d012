"""Which attentions are held against one device: the grid of small ones, and a few long ones."""

from __future__ import annotations

import itertools

import torch

from labs.context_parallel.jobs import CAUSAL, FULL, PLAIN, RING, TORCH, ULYSSES, ZIGZAG, Job

LENGTH, LONG_LENGTHS = 768, (6144, 8192)
LONG = dict(batch=1, heads=4, kv_heads=4, head_dim=32, dtype=torch.float32, block="flash")
KV_HEADS = (1, 2, 8)
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
_BLOCK = {PLAIN: "tiled", ZIGZAG: "flash"}  # each block against one device with every type but bf16


def worlds(n: int) -> list[int]:
    """Sizes of the rings: 1 to 4, and n."""
    return sorted({c for c in (1, 2, 3, 4, n) if c <= n})


def fitting(length: int, ranks: int) -> int:
    """The least multiple of 2·ranks from `length` on: zigzag cuts a sequence into that many."""
    return -(-length // (2 * ranks)) * 2 * ranks


def grid(n: int, length: int = LENGTH) -> list[Job]:
    """Every c, mask, layout, number of KV heads and type, by the ring."""
    found = []
    for c, mask, layout, kv, dtype in itertools.product(
        worlds(n), (CAUSAL, FULL), (PLAIN, ZIGZAG), KV_HEADS, DTYPES
    ):
        block = "tiled" if dtype == torch.bfloat16 else _BLOCK[layout]
        name = f"{mask}, {layout}, {kv} KV head{'s' * (kv > 1)}"
        found.append(
            Job(f"{name}, c={c}, {str(dtype)[6:]}", tuple(range(c)), fitting(length, c),
                kv_heads=kv, dtype=dtype, mask=mask, layout=layout, block=block)
        )  # fmt: skip
    return found


def others(n: int, length: int = LENGTH) -> list[Job]:
    """The other ways: on a part of the ranks, Ulysses, torch's own ring."""
    found = []
    if n >= 4:
        found.append(
            Job("causal, zigzag, 2 KV heads, on ranks 1 and 3", (1, 3), fitting(length, 2),
                kv_heads=2, layout=ZIGZAG)
        )  # fmt: skip
    for c in worlds(n)[1:]:
        members, long = tuple(range(c)), fitting(length, c)
        for layout in (PLAIN, ZIGZAG):
            if 8 % c == 0:
                found.append(Job(f"Ulysses, causal, {layout}, c={c}", members, long,
                                 layout=layout, way=ULYSSES))  # fmt: skip
            found.append(Job(f"torch's ring, causal, {layout}, c={c}", members, long,
                             layout=layout, way=TORCH))  # fmt: skip
    return found


def long_jobs(n: int, lengths: tuple[int, int] = LONG_LENGTHS) -> list[Job]:
    """The first length on 1 to n ranks, whose error is compared; the second on all of them."""
    first, second = lengths
    found = [
        Job(f"T={fitting(first, c)}, c={c}", tuple(range(c)), fitting(first, c), way=RING, **LONG)
        for c in worlds(n)
    ]
    long = fitting(second, n)
    return [*found, Job(f"T={long}, c={n}", tuple(range(n)), long, layout=ZIGZAG, **LONG)]
