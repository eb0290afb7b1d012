"""A stage that is itself spread over tensor-parallel ranks: who sends what over the boundary.

After its last all-reduce each of the t ranks of a stage holds the whole activation (rows, T, d), so
each could send all of it to its peer in the next stage: t copies of the same numbers. Or each sends
one t-th and the next stage puts them together with an all-gather, on its own fast links
(Narayanan et al. 2021, section 4.1, "scatter/gather").
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist

from labs import formulas, ranks
from labs.ranks.run import Run
from labs.result import Check, equal

COPIES, SLICES = "each sends a copy", "each sends a slice"
WAYS = (COPIES, SLICES)
STAGES = 2
SHAPE = (2, 16, 32)  # rows, T, d
MICRO_BATCHES = 4


def on_rank(way: str) -> torch.Tensor | None:
    """All micro-batches over one boundary. Ranks 0 … t-1 are the first stage, the rest the next.

    Returns what the rank of the next stage holds in the end, (m, rows, T, d); None on the first.
    """
    t = dist.get_world_size() // STAGES
    stage, place = divmod(dist.get_rank(), t)
    tensor_groups = [dist.new_group(range(s * t, (s + 1) * t)) for s in range(STAGES)]
    pipe_groups = [dist.new_group([s * t + r for s in range(STAGES)]) for r in range(t)]
    mine, pipe = tensor_groups[stage], pipe_groups[place]
    ranks.name_axis(mine, "tp")
    ranks.name_axis(pipe, "pp")
    arrived = []
    with ranks.section(way):
        for i in range(MICRO_BATCHES):
            if stage == 0:
                _send(activation(i).to(ranks.device()), way, place, t, pipe)
            else:
                arrived.append(_receive(way, t, mine, pipe))
    return torch.stack(arrived) if arrived else None


def activation(i: int) -> torch.Tensor:
    """What every rank of the first stage holds of micro-batch i."""
    draw = torch.Generator().manual_seed(i)
    return torch.randn(SHAPE, generator=draw)


def _send(x: torch.Tensor, way: str, place: int, t: int, pipe: dist.ProcessGroup) -> None:
    if way == SLICES:
        x = x.chunk(t, dim=-1)[place].contiguous()
    dist.send(x, group_dst=1, group=pipe)


def _receive(way: str, t: int, mine: dist.ProcessGroup, pipe: dist.ProcessGroup) -> torch.Tensor:
    if way == COPIES:
        x = torch.empty(SHAPE, device=ranks.device())
        dist.recv(x, group_src=0, group=pipe)
        return x
    part = torch.empty(*SHAPE[:-1], SHAPE[-1] // t, device=ranks.device())
    dist.recv(part, group_src=0, group=pipe)
    parts = [torch.empty_like(part) for _ in range(t)]
    dist.all_gather(parts, part, group=mine)
    return torch.cat(parts, dim=-1)


def checks(runs: Sequence[Run]) -> list[Check]:
    """Both ways give the same activations; bytes over the boundary and inside the next stage."""
    found = []
    whole = torch.stack([activation(i) for i in range(MICRO_BATCHES)])
    for way, run in zip(WAYS, runs, strict=True):
        t = run.world_size // STAGES
        size = whole.numel() * whole.element_size()
        same = all(torch.equal(value.cpu(), whole) for value in run.values[t:])
        over = t * size if way == COPIES else size
        gathered = 0 if way == COPIES else t * formulas.ring_all_gather_bytes(size, t)
        sent = run.ledger.where(section=way)
        found += [
            equal(f"t={t}, {way}: every rank of the next stage has it all", same, True, "",
                  "the first stage"),
            equal(f"t={t}, {way}: bytes over the boundary", sent.wire_bytes(axis="pp"), over,
                  "all ranks", f"{'t copies' if way == COPIES else 'one copy'} of m activations"),
            equal(f"t={t}, {way}: bytes inside the next stage", sent.wire_bytes(axis="tp"),
                  gathered, "all ranks", "an all-gather each" if gathered else "nothing to gather"),
        ]  # fmt: skip
    return found
