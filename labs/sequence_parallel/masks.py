"""The section "dropout": the block with dropout on a dp x tp mesh, masks reported, put together.

Each group of data-parallel copies works on samples of its own. What every rank drew comes back; of
it the whole masks are put together, and one device that uses them must come to the same output and
the same gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs import ranks
from labs.ranks import Run
from labs.sequence_parallel import dropout, parity, ways
from labs.sequence_parallel.block import block
from labs.sequence_parallel.shape import Shape
from labs.sequence_parallel.ways import Parts
from labs.tp_linear_pair import one_device, sharding
from labs.tp_linear_pair.one_device import Weights

SHARE = 0.1
PLACES = (*dropout.INSIDE, *dropout.OUTSIDE)
TP, SP = "dropout, tp", "dropout, sp"
ONE_SEED, A_SEED_EACH = "dropout, one seed for the mesh", "dropout, a seed for each rank"
RULE = {TP: "right", SP: "right", ONE_SEED: "one seed", A_SEED_EACH: "a seed each"}
"""Section → rule of the seeds. The last two are wrong on purpose, and tensor-parallel."""


@dataclass(frozen=True)
class Job:
    """One block for a mesh of dp x tp ranks. Rank dp·t + tp works on samples[dp]."""

    shape: Shape
    dp: int
    tp: int
    samples: list[torch.Tensor]  # by dp: (B, T, d)
    cotangent: torch.Tensor  # (B, T, d)
    weights: Weights
    shards: list[Weights]  # by tp
    seed: int


def make(n: int, shape: Shape, seed: int, dtype: torch.dtype) -> Job:
    """A mesh of `n` ranks: dp = 2 where that leaves two ranks or more to a group, else 1."""
    dp = 2 if n >= 4 and n % 2 == 0 else 1
    job = parity.make(n // dp, shape, seed, dtype)
    draw = torch.Generator().manual_seed(seed + 2)
    samples = [torch.randn(job.x.shape, generator=draw, dtype=torch.float64).to(dtype)
               for _ in range(dp)]  # fmt: skip
    return Job(shape, dp, n // dp, samples, job.cotangent, job.weights, job.shards, seed)


def on_rank(job: Job, parts: Parts) -> dict[str, dict]:
    """On a rank: the block forward and backward under each rule, by section."""
    rank = dist.get_rank()
    group = None
    for dp in range(job.dp):  # every rank takes part in making each group
        members = [dp * job.tp + tp for tp in range(job.tp)]
        made = dist.new_group(members)
        if rank in members:
            group = made
            ranks.name_axis(made, "tp of the mesh")
    return {name: _one(name, job, parts, divmod(rank, job.tp), group) for name in RULE}


def _one(
    name: str, job: Job, parts: Parts, at: tuple[int, int], group: dist.ProcessGroup | None
) -> dict[str, object]:
    (dp, tp), here, sharded = at, ranks.device(), name == SP
    x, back = (
        (t.chunk(job.tp, dim=1)[tp] if sharded else t).to(here, copy=True).contiguous()
        for t in (job.samples[dp], job.cotangent)
    )
    x.requires_grad_()
    w = one_device.with_gradients({k: t.to(here) for k, t in job.shards[tp].items()})
    way = ways.sequence_parallel if sharded else ways.tensor_parallel
    drop = dropout.Drawn(SHARE, job.seed, dict(dp=dp, tp=tp), sharded, PLACES, RULE[name])
    with ranks.section(name):
        out = block(x, w, job.shape.heads // job.tp, way(parts, group), drop)
        out.backward(back)
        grads = one_device.gradients(w)
        if sharded:
            with ranks.phase(parity.SUMMING):
                grads = parts["sum_gradients"](grads, group)
    return dict(out=out, dx=x.grad, grads=grads, masks=drop.masks)


def whole_masks(values: list[dict], sharded: bool) -> dict[str, torch.Tensor]:
    """The masks of one group's ranks (in order), put together as one device would hold them."""
    found = {}
    for name in PLACES:
        pieces = [value["masks"][name] for value in values]
        if name == dropout.ATTENTION_WEIGHTS:
            found[name] = torch.cat(pieces, 1)  # (B, heads, T, T)
        elif name == dropout.HIDDEN:
            found[name] = torch.cat(pieces, -1)  # (B, T, d_ff)
        else:
            found[name] = torch.cat(pieces, 1) if sharded else pieces[0]  # (B, T, d)
    return found


def on_one_device(
    job: Job, dp: int, masks: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, Weights]:
    """The block of one group's samples with these masks: output, and gradients, x's as "x"."""
    leaves, x = one_device.with_gradients(job.weights), job.samples[dp].clone().requires_grad_()
    drop = dropout.given(masks, SHARE)
    out = block(x, leaves, job.shape.heads, ways.one_device, drop)
    out.backward(job.cotangent)
    return out.detach(), {**one_device.gradients(leaves), "x": x.grad}


def together(
    job: Job, values: list[dict], sharded: bool
) -> tuple[list[torch.Tensor], Weights, float]:
    """Outputs, whole gradients (x's as "x") of one group, and how far apart its replicas are."""
    heads = job.shape.heads
    grads, apart = sharding.assemble([v["grads"] for v in values], job.weights, heads, heads)
    if sharded:
        grads["x"] = torch.cat([v["dx"] for v in values], 1)
        return [torch.cat([v["out"] for v in values], 1)], grads, apart
    grads["x"] = values[-1]["dx"]
    return [v["out"] for v in values], grads, apart


def shown(run: Run, name: str, place: str, width: int = 48) -> str:
    """The first numbers of each rank's mask at a place, a line a rank: # kept, · dropped."""
    lines = []
    for rank, value in enumerate(run.values):
        kept = value[name]["masks"][place].flatten()[:width].tolist()
        lines.append(f"rank {rank}  " + "".join("#" if one else "·" for one in kept))
    return "\n".join(lines)
