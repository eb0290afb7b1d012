"""Bytes in words. GB is 10^9 bytes and GiB is 2^30: no number is written without its unit."""

from __future__ import annotations

GB = 10**9
GIB = 2**30


def gb(count: float) -> str:
    """Bytes in GB, powers of ten, as links and published tables count: "80.0 GB"."""
    return f"{count / GB:,.1f} GB"


def gib(count: float) -> str:
    """Bytes in GiB, powers of two, as an allocator counts: "74.5 GiB"."""
    return f"{count / GIB:,.1f} GiB"


def both(count: float) -> str:
    """Both, so that neither is taken for the other: "80.0 GB (74.5 GiB)"."""
    return f"{gb(count)} ({gib(count)})"
