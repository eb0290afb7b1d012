"""A reduce-scatter by hand, out of sends and receives: (t-1)/t of the tensor on the wire.

Chunk c starts at rank c+1 and goes round the ring to rank c; each rank on its way adds its own
part. gloo has no reduce-scatter of its own: it all-reduces, which is twice as much, and keeps a
slice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.distributed as dist


def reduce_scatter(
    output: torch.Tensor,
    input: torch.Tensor,
    op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
    async_op: bool = False,
) -> None:
    """Fill `output` with this rank's t-th of the sum of the ranks' `input`s.

    As dist.reduce_scatter_single is called. input (n·t, …), contiguous; output (n, …). t-1 steps,
    in each of which a rank sends and receives one chunk. Raises ValueError for another operation
    than the sum, for async_op, and for sizes that do not fit.
    """
    if op != dist.ReduceOp.SUM or async_op:
        raise ValueError("the ring by hand sums, and returns when it is done: op=SUM, not async_op")
    group = group or dist.group.WORLD
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    if input.numel() != ranks * output.numel():
        raise ValueError(
            f"{input.numel()} numbers cannot be scattered to {ranks} ranks of {output.numel()}: "
            f"{ranks} * {output.numel()} = {ranks * output.numel()}"
        )
    chunks = input.view(ranks, -1)
    right = dist.get_global_rank(group, (rank + 1) % ranks)
    left = dist.get_global_rank(group, (rank - 1) % ranks)
    partial = chunks[(rank - 1) % ranks]
    for step in range(ranks - 1):
        arriving = torch.empty_like(partial)
        ops = [dist.P2POp(dist.isend, partial.contiguous(), right, group),
               dist.P2POp(dist.irecv, arriving, left, group)]  # fmt: skip
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        partial = arriving.add_(chunks[(rank - 2 - step) % ranks])
    output.view(-1).copy_(partial)


@contextlib.contextmanager
def in_place_of_the_backends() -> Iterator[None]:
    """Within the block, torch.distributed's reduce-scatter of one tensor is the ring by hand.

    For code that calls it as `dist.reduce_scatter_single` or `dist.reduce_scatter_tensor`.
    """
    names = ("reduce_scatter_single", "reduce_scatter_tensor")
    backends = {name: getattr(dist, name) for name in names}
    for name in names:
        setattr(dist, name, reduce_scatter)
    try:
        yield
    finally:
        for name, function in backends.items():
            setattr(dist, name, function)
