"""Answers to notebook 00: two ranks that swap tensors, a ring that shifts them, ring or tree.

The picture to hold in mind: a send ends when its receiver takes the message. Where everybody sends
first, nobody receives. So a rank posts its send and its receive together, and then waits for both.
"""

from __future__ import annotations

import math

import torch
import torch.distributed as dist


def exchange(x: torch.Tensor, peer: int) -> torch.Tensor:
    """Swap a tensor with another rank, which calls this at the same time.

    x       any shape and type, contiguous; shape and type are the same on both ranks
    peer    the other rank; its own `peer` is this rank
    returns the tensor that `peer` passed in: a new tensor of x's shape and type

    Leave x unchanged. Each rank sends x once, whichever two ranks these are, at any size.
    """
    received = torch.empty_like(x)
    posted = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, received, peer)]
    )
    for work in posted:
        work.wait()
    return received


def ring_shift(x: torch.Tensor) -> torch.Tensor:
    """Pass a tensor on to the right: rank r gets the tensor of rank r-1, rank 0 that of the last.

    x       any shape and type, contiguous; shape and type are the same on every rank
    returns the tensor that the left neighbour passed in: a new tensor of x's shape and type

    Works on any number of ranks: even, odd, and one, which is its own neighbour and sends nothing.
    Leave x unchanged. Each rank sends x once, and touches nothing that is still on its way.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if ranks == 1:
        return x.clone()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    received = torch.empty_like(x)
    posted = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, received, left)]
    )
    for work in posted:
        work.wait()
    return received


def ring_pays_from(ranks: int, alpha: float, beta: float) -> float:
    """Bytes of the tensor from which on a ring all-reduce is as fast as a tree, or faster.

    ranks    size of the group, 2 or more; each rank has a link of its own
    alpha    seconds that each message takes, however small
    beta     seconds for each byte of it
    """
    ring, tree = 2 * (ranks - 1), 2 * math.ceil(math.log2(ranks))  # steps
    # ring·(α + β·n/t) = tree·(α + β·n), solved for n
    return (ring - tree) * alpha / ((tree - ring / ranks) * beta)
