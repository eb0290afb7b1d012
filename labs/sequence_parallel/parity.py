"""The section "sequence parallel": the block on ranks, with and without, held against one device.

What runs here: tensor-parallel; sequence-parallel; that with the regions' inputs kept sharded; that
with the ring's reduce-scatter by hand. What is held against what stands in parity_checks.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs import ranks, text
from labs.sequence_parallel import gradients, ring_reduce_scatter, ways
from labs.sequence_parallel.block import block
from labs.sequence_parallel.shape import Shape
from labs.sequence_parallel.ways import Parts, Way
from labs.tp_linear_pair import one_device, sharding
from labs.tp_linear_pair.one_device import Weights

TP, SP = "tp", "sp"
KEPT_SHARDED, BY_HAND = "sp, inputs kept sharded", "sp, ring by hand"
WAYS = (TP, SP, KEPT_SHARDED, BY_HAND)
BACKENDS, RING = "reduce-scatter of the backend", "reduce-scatter by hand"
SUMMING = "gradients"
"""Phase of the ledger in which the replicated gradients are summed."""


@dataclass(frozen=True)
class Job:
    """One block for all ranks: inputs, whole weights, each rank's shards."""

    shape: Shape
    x: torch.Tensor  # (B, T, d), as on one device
    cotangent: torch.Tensor  # the gradient of a mean loss by the output
    weights: Weights
    shards: list[Weights]  # by rank


def make(n: int, shape: Shape, seed: int, dtype: torch.dtype) -> Job:
    """Real text as rows of an embedding, N(0, 1); weights drawn once and cut here."""
    tokens, _ = text.batch(shape.batch, shape.length, seed)
    draw = torch.Generator().manual_seed(seed + 1)
    x = torch.randn(text.VOCAB, shape.d, generator=draw, dtype=torch.float64)[tokens]
    back = torch.randn(x.shape, generator=draw, dtype=torch.float64) / x.numel()
    weights = weights_of(shape, seed, dtype)
    return Job(shape, x.to(dtype), back.to(dtype), weights, cut(weights, shape, n))


def weights_of(shape: Shape, seed: int, dtype: torch.dtype) -> Weights:
    """A block's weights on one device."""
    shapes = one_device.shapes(shape.d, shape.heads, shape.heads, 4 * shape.d)
    return one_device.make_weights(shapes, seed, dtype)


def cut(weights: Weights, shape: Shape, n: int) -> list[Weights]:
    """The shards of `n` tensor-parallel ranks."""
    return [sharding.cut_weights(weights, shape.heads, shape.heads, rank, n) for rank in range(n)]


def on_rank(job: Job, parts: Parts) -> dict[str, dict]:
    """On a rank: each way forward and backward, by its name; and a reduce-scatter of each kind."""
    found = {name: _one_way(name, job, parts) for name in WAYS}
    whole = job.x.transpose(0, 1).contiguous().to(ranks.device())
    whole = whole + dist.get_rank()  # another summand on each rank
    for name, call in ((BACKENDS, dist.reduce_scatter_single), (RING, _ring)):
        found[name] = _scattered(name, call, whole)
    return found


def _ring(output: torch.Tensor, input: torch.Tensor) -> None:
    ring_reduce_scatter.reduce_scatter(output, input)


def _scattered(name: str, call: Callable[..., object], whole: torch.Tensor) -> dict[str, object]:
    piece = whole.new_empty(whole.shape[0] // dist.get_world_size(), *whole.shape[1:])
    dist.barrier()  # nobody's earlier messages are under way
    before = ranks.sockets_sent()
    with ranks.section(name):
        call(piece, whole)
    after = ranks.sockets_sent()
    return dict(out=piece, sent=None if None in (before, after) else after - before)


def _one_way(name: str, job: Job, parts: Parts) -> dict[str, object]:
    rank, n, here = dist.get_rank(), dist.get_world_size(), ranks.device()
    sharded = name != TP
    x, back = (
        (t.chunk(n, dim=1)[rank] if sharded else t).to(here, copy=True).contiguous()
        for t in (job.x, job.cotangent)
    )
    x.requires_grad_()
    w = one_device.with_gradients({k: t.to(here) for k, t in job.shards[rank].items()})
    way: Way = ways.tensor_parallel(parts)
    if sharded:
        way = ways.sequence_parallel(parts, kept_sharded=name == KEPT_SHARDED)
    ring = ring_reduce_scatter.in_place_of_the_backends()
    with ranks.section(name), ring if name == BY_HAND else contextlib.nullcontext():
        out = block(x, w, job.shape.heads // n, way)
        out.backward(back)
        own = one_device.gradients(w)
        with ranks.phase(SUMMING):
            grads = parts["sum_gradients"](own) if sharded else own
    found = dict(out=out, dx=x.grad, grads=grads)
    if name == SP:  # the same gradients, gone on with in ways that are wrong
        with ranks.section("wrong on purpose"):
            found |= {how: wrong(own) for how, wrong in gradients.WRONG.items()}
    return found
