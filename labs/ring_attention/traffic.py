"""Bytes that each rank sent, counted by the ledger, beside the formulas."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from labs import formulas
from labs.context_parallel.jobs import RING, ULYSSES, Job
from labs.ranks.run import Run
from labs.result import Check, equal

SHAPE = dict(batch=2, length=48, heads=8, head_dim=16)


def jobs(n: int) -> list[Job]:
    """The ring with 8, 2 and 1 KV heads in fp64 and bf16; Ulysses where the heads are enough."""
    everybody = tuple(range(n))
    length = 48 // (2 * n) * 2 * n or 2 * n
    shape = SHAPE | dict(length=length)
    found = [
        Job(f"{way}, {kv} KV heads, {str(dtype)[6:]}", everybody, kv_heads=kv, dtype=dtype, way=way,
            values=False, **shape)
        for way in (RING, ULYSSES)
        for dtype in (torch.float32, torch.bfloat16)
        for kv in (8, 2, 1)
    ]  # fmt: skip
    return [job for job in found if job.way == RING or (job.heads % n == job.kv_heads % n == 0)]


def checks(found: Sequence[Job], run: Run) -> list[Check]:
    """Bytes a rank sent by whatever call, forward and backward. Equal on all ranks, or a fault."""
    made = []
    for job in found:
        for phase in ("forward", "backward"):
            sent = [
                run.ledger.ideal_bytes(section=job.name, phase=phase, rank=rank)
                for rank in job.members
            ]
            got = sent[0] if len(set(sent)) == 1 else f"differs by rank: {sent}"
            made.append(equal(f"{job.name}, c={job.ranks}: {phase}, sent by each rank", got,
                              _formula(job, phase), "bytes", _SOURCE[job.way, phase]))  # fmt: skip
    return made


_SOURCE = {
    (RING, "forward"): "(c-1)·2·B·(T/c)·h_kv·d_h·e",
    (RING, "backward"): "c-1 blocks of K, V and c of dK, dV in fp32 or better",
    (ULYSSES, "forward"): "(c-1)/c·B·(T/c)·d_h·e·(2h+2h_kv)",
    (ULYSSES, "backward"): "the forward pass's again",
}


def _formula(job: Job, phase: str) -> float:
    if job.way == RING:
        ring = {"forward": formulas.ring_forward_bytes, "backward": formulas.ring_backward_bytes}
        return ring[phase](*job.place)
    b, t, kv, d, e, c = job.place
    return formulas.ulysses_bytes(b, t, job.heads, kv, d, e, c)
