"""Parts of a mesh's step with one fault each, run on ranks: what a lab's checks must catch."""

from __future__ import annotations

import torch
import torch.distributed as dist


def f_forgets(x: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
    """f without its all-reduce in the backward pass."""
    return x


def zero1_gathers_twice(weights, grads, update, group=None) -> None:
    """A ZeRO-1 step that all-gathers the weights once more than it must."""
    from solutions.mesh_3d import zero1_step

    zero1_step(weights, grads, update, group)
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    dist.all_gather_single(weights, weights.chunk(n)[rank].clone(), group=group)


def never_waits(jobs) -> list[dict]:
    """A unit of ZeRO-2 that adds what is under way without waiting for it."""
    from labs.data_parallel.zero2 import Unit
    from labs.mesh.overlap import on_rank

    def finish(self) -> None:
        if self.coming is not None:
            self.grad += self.coming[1]
            self.coming = None

    Unit.finish = finish  # of this process, which ends with the run
    return on_rank(jobs)


def waits_at_once(jobs) -> list[dict]:
    """A unit of ZeRO-2 that waits for its sum before the backward pass goes on."""
    from labs.data_parallel.zero2 import Unit
    from labs.mesh.overlap import on_rank

    inner = Unit.reduce

    def reduce(self) -> None:
        self.overlap = False
        inner(self)

    Unit.reduce = reduce
    return on_rank(jobs)
