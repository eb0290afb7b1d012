"""Ring attention inside a graph, and what torch warns of. Used by test_cases_ring.py.

Allocations are traced so that each call passes the dispatcher, where torch looks for a gradient.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping

import torch
import torch.distributed as dist

from labs import ranks
from labs.context_parallel.attention import ring_attention
from labs.context_parallel.places import plain


@contextlib.contextmanager
def _warned() -> Iterator[list[str]]:
    """Every warning of this block."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as seen, ranks.allocations("warned"):
        warnings.simplefilter("always")
        yield found
    found += [str(one.message) for one in seen]


def ring(parts: Mapping[str, Callable]) -> tuple[list[str], bool]:
    """Warnings of a forward and a backward pass; and whether all gradients are there."""
    rank, c = dist.get_rank(), dist.get_world_size()
    draw = torch.Generator().manual_seed(rank)
    q, k, v = (
        torch.randn(1, 2, 4, 4, generator=draw, dtype=torch.float64).requires_grad_()
        for _ in range(3)
    )
    places = plain(c, 4 * c)
    with _warned() as told:
        ring_attention(q, k, v, places[rank], places, parts).square().sum().backward()
    return told, all(x.grad is not None and bool(x.grad.isfinite().all()) for x in (q, k, v))


def collective_in_the_graph() -> list[str]:
    """The control: what torch warns of where autograd is led through a collective."""
    x = torch.ones(4, requires_grad=True)
    with _warned() as told:
        y = x * 2
        dist.all_reduce(y)
        y.sum().backward()
    return told
