"""What the tests of the ring's time need of real ranks: rings that are wrong in one thing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from labs.context_parallel.blocks import attend, attend_backward
from labs.context_parallel.clock.blocking import blocking
from labs.context_parallel.clock.timed_jobs import Timed
from labs.context_parallel.clock.timed_on_rank import on_rank
from labs.context_parallel.clock.watched import Watch
from labs.context_parallel.places import plain
from solutions import ring_attention as answers


def a_ring(waits: str, attends: Callable = lambda q, k: bool(k.min() <= q.max())) -> Callable:
    """A ring_forward. waits: "after" it has worked on the block, as it should; "before" it; or it
    posts its messages "late", when the work is done. attends: whether a block is worked on."""

    def ring(q, k, v, q_places, k_places, attend, group=None):
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        block, out, lse = torch.stack([k, v]), None, None

        def post():
            arriving = torch.empty_like(block)
            return arriving, [
                dist.isend(block, group=group, group_dst=(rank + 1) % ranks),
                dist.irecv(arriving, group=group, group_src=(rank - 1) % ranks),
            ]

        for step in range(ranks):
            keys, last = k_places[(rank - step) % ranks], step + 1 == ranks
            arriving, works = (None, []) if waits == "late" or last else post()
            if waits == "before":
                for work in works:
                    work.wait()
            if attends(q_places, keys):
                part = attend(q, *block, q_places, keys)
                out, lse = part if out is None else answers.merge_partials(out, lse, *part)
            if waits == "late" and not last:
                arriving, works = post()
            for work in works if waits != "before" else []:
                work.wait()
            block = arriving
        return out.to(q.dtype), lse

    return ring


def local_mask(q, k, v, q_places, k_places, attend, group=None):
    """Each block is masked as if it were the rank's own."""
    own = k_places[dist.get_rank(group)].expand_as(k_places)
    return answers.ring_forward(q, k, v, q_places, own, attend, group)


RINGS = {
    "right": a_ring("after"), "waits before": a_ring("before"), "posts late": a_ring("late"),
    "skips nothing": a_ring("after", lambda q, k: True), "local mask": local_mask,
}  # fmt: skip


def rings(jobs: Sequence[Timed], names: Sequence[str]) -> list[list]:
    """On a rank: the jobs once with the answers, then with each of these forward passes."""
    whole = dict(ring_forward=answers.ring_forward, ring_backward=answers.ring_backward)
    found = [on_rank(whole, jobs)]
    for name in names:
        found.append(on_rank(whole | {"ring_forward": RINGS[name]}, jobs))
    return found


def values() -> dict:
    """Of the ring, of the blocking one, and of the ring while it is watched."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    q, k, v, d_out = torch.randn(4, 1, 2, 6, 8, dtype=torch.float64)
    places = plain(ranks, 6 * ranks)
    methods = [vars(dist.ProcessGroup)[name] for name in ("send", "recv")]

    def both(wrap: Callable) -> list[torch.Tensor]:
        out, lse = wrap(answers.ring_forward)(q, k, v, places[rank], places, attend)
        backward = wrap(answers.ring_backward)
        grads = backward(d_out, q, k, v, out, lse, places[rank], places, attend_backward)
        return [out, lse, *grads]

    plainly, waiting = both(lambda ring: ring), both(blocking)
    with Watch() as watch:
        watched = both(lambda ring: ring)
    again = [vars(dist.ProcessGroup)[name] for name in ("send", "recv")]
    return dict(
        same=all(map(torch.equal, plainly, waiting)) and all(map(torch.equal, plainly, watched)),
        restored=all(a is b for a, b in zip(methods, again, strict=True)),
        noted=[one.op for one in watch.messages],
        ended=all(one.arrived and one.done for one in watch.messages if one.op == "recv"),
        in_flight=watch.in_flight(),
    )
