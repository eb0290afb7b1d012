"""What a rank does for the lab: its tokens of each job's sequence, forward and backward."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist

from labs import ranks
from labs.context_parallel.attention import ring_attention
from labs.context_parallel.jobs import RING, ULYSSES, Inputs, Job, inputs


def on_rank(parts: Mapping[str, Callable], jobs: Sequence[Job]) -> list[dict | None]:
    """On a rank: all jobs in turn. None for a job that this rank has no part in.

    A report holds "out" and the gradients "q", "k", "v" of this rank's tokens where the job asks
    for values, and "seconds" of the pass.
    """
    groups = _groups(jobs)
    return [
        _one(parts, job, groups[job.members]) if dist.get_rank() in job.members else None
        for job in jobs
    ]


def _groups(jobs: Sequence[Job]) -> dict[tuple[int, ...], dist.ProcessGroup]:
    """A process group for each set of members. Every rank takes part in making each."""
    world = tuple(range(dist.get_world_size()))
    found = {world: dist.group.WORLD}
    for members in dict.fromkeys(job.members for job in jobs):
        if members not in found:
            found[members] = dist.new_group(list(members))
            if dist.get_rank() in members:
                ranks.name_axis(found[members], f"{len(members)} ranks")
    return found


def _one(parts: Mapping[str, Callable], job: Job, group: dist.ProcessGroup) -> dict:
    held = job.key_places(parts)
    mine = held[dist.get_rank(group)]
    given = inputs(job).at(mine)
    device = ranks.device()
    leaves = [x.to(device).requires_grad_() for x in (given.q, given.k, given.v)]
    d_out = given.d_out.to(device)
    q_places, k_places = job.query_places(mine).to(device), held.to(device)
    call = way(parts, job)
    del given

    def step() -> torch.Tensor:
        out = call(*leaves, q_places, k_places, group)
        out.backward(d_out)
        return out.detach()

    with ranks.section(job.name, timeline=job.timeline):
        begun = time.monotonic()
        if job.memory:
            with ranks.allocations(job.name):
                out = step()
        else:
            out = step()
        told: dict = {"seconds": time.monotonic() - begun}
    if job.values:
        told |= dict(zip(("out", "q", "k", "v"), (out, *(x.grad for x in leaves)), strict=True))
    return told


def way(parts: Mapping[str, Callable], job: Job) -> Callable[..., torch.Tensor]:
    """The job's attention: called with q, k, v, q_places, k_places, group."""
    if job.way == RING:
        return lambda *given: ring_attention(*given[:5], parts, job.block, given[5])
    if job.way == ULYSSES:
        from labs.context_parallel.ulysses import ulysses_attention

        return lambda *given: ulysses_attention(*given[:5], job.block, given[5])
    from labs.context_parallel.torch_native import native_ring_attention

    return lambda *given: native_ring_attention(*given[:5], group=given[5])


def whole_attention(given: Inputs, causal: bool) -> torch.Tensor:
    """Attention with its T x T scores, as autograd keeps them: (B, h, T, d_h); h = h_kv."""
    scores = given.q @ given.k.mT
    scores = scores.mul_(given.q.shape[-1] ** -0.5)
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu_(1)
        scores = scores.masked_fill_(later, -torch.inf)
    share = scores.softmax(dim=-1)
    del scores
    return share @ given.v
