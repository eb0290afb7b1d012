"""The experiments of notebook 01: the same calculation on one device, by hand on ranks, by torch.

An experiment is a name, the weights it takes, and two functions that must agree. What is compared
and counted stands in `labs/tp_linear_pair/__init__.py`; here is only what is computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F

from labs import ranks
from labs.tp_linear_pair import one_device, parallel_block, torch_native
from labs.tp_linear_pair.one_device import Weights
from labs.tp_linear_pair.parallel_block import Parts


@dataclass(frozen=True)
class Shape:
    """Sizes of a model and its batch. d_ff is the MLP's width, vocab the tokens there are."""

    batch: int = 4
    length: int = 64
    d: int = 64
    heads: int = 8
    kv_heads: int = 8
    d_ff: int = 256
    vocab: int = 257

    def __str__(self) -> str:
        return f"B={self.batch} T={self.length} d={self.d}"

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


Copies = dist.ProcessGroup | None
_NORM1, _NORM2 = ("norm1_w", "norm1_b"), ("norm2_w", "norm2_b")
_ATTENTION = ("qkv_w", "qkv_b", "out_w", "out_b")
_MLP = ("up_w", "up_b", "down_w", "down_b")


@dataclass(frozen=True)
class Experiment:
    """x and weights in, one tensor out; x is (B, T, d), or (B, T) tokens where `tokens` is set."""

    name: str
    weights: tuple[str, ...]
    one_device: Callable[[torch.Tensor, Weights, Shape], torch.Tensor]
    by_hand: Callable[[Parts, torch.Tensor, Weights, Shape, Copies], torch.Tensor]
    tokens: bool = False


def _vocabulary(x: torch.Tensor, w: Weights, _: Shape) -> torch.Tensor:
    tokens, targets = x.unbind()
    return one_device.token_losses(
        one_device.embedding(tokens, w["embedding"]), w["head_w"], targets
    )


def _vocabulary_by_hand(
    parts: Parts, x: torch.Tensor, w: Weights, shape: Shape, _: Copies
) -> torch.Tensor:
    tokens, targets = x.unbind()
    y = parallel_block.embedding(parts, tokens, w["embedding"])
    return parallel_block.token_losses(parts, y, w["head_w"], targets, shape.vocab)


def _row_first(parts: Parts, x: torch.Tensor, w: Weights, early: bool) -> torch.Tensor:
    """The other order, rows of A first: (B, T, d) -> (B, T, d).

    w["up_w"] holds rows (d/t, d_ff), w["up_b"] the whole bias. GELU needs the whole sum, so a
    second collective stands between the layers; with `early` it is left out, and GELU acts on
    summands.
    """
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = parts["copy_to_ranks"](x).chunk(n, dim=-1)[rank]  # (B, T, d/t)
    summand = mine @ w["up_w"]  # (B, T, d_ff)
    if early:
        hidden = parts["reduce_from_ranks"](F.gelu(summand + w["up_b"] / n))
    else:
        hidden = F.gelu(parts["reduce_from_ranks"](summand) + w["up_b"])
    own = parts["copy_to_ranks"](hidden).chunk(n, dim=-1)[rank]  # (B, T, d_ff/t)
    return parts["row_parallel"](own, w["down_w"], w["down_b"])


PAIR = Experiment(
    "pair", _MLP,
    lambda x, w, _: one_device.mlp(x, *(w[name] for name in _MLP)),
    lambda parts, x, w, *_: parallel_block.mlp(parts, x, w),
)  # fmt: skip
SWIGLU = Experiment(
    "swiglu", ("gate_up_w", "gate_up_b", "down_w", "down_b"),
    lambda x, w, _: one_device.swiglu(x, *w.values()),
    lambda parts, x, w, *_: parallel_block.swiglu(parts, x, w),
)  # fmt: skip
ATTENTION = Experiment(
    "attention", _ATTENTION,
    lambda x, w, s: one_device.attention(
        x, *(w[name] for name in _ATTENTION), s.heads, s.kv_heads
    ),
    lambda parts, x, w, s, copies: parallel_block.attention(
        parts, x, w, s.heads, s.kv_heads, copies
    ),
)  # fmt: skip
BLOCK = Experiment(
    "block", _NORM1 + _ATTENTION + _NORM2 + _MLP,
    lambda x, w, s: one_device.block(x, w, s.heads, s.kv_heads),
    lambda parts, x, w, s, copies: parallel_block.block(parts, x, w, s.heads, s.kv_heads, copies),
)  # fmt: skip
VOCABULARY = Experiment(
    "vocabulary", ("embedding", "head_w"), _vocabulary, _vocabulary_by_hand, tokens=True
)
EXPERIMENTS = {e.name: e for e in (PAIR, SWIGLU, ATTENTION, BLOCK, VOCABULARY)}


ROW_FIRST = ("row first", "gelu on partial sums")
WRONG = ("gelu on partial sums", "without f")
"""Ways that are wrong on purpose: a lab that does not see their damage sees nothing."""


@dataclass(frozen=True)
class Job:
    """One experiment for all ranks: inputs, each rank's shards, and the gradient of the output."""

    section: str
    experiment: str
    shape: Shape
    x: torch.Tensor
    shards: list[Weights]  # by rank
    cotangent: torch.Tensor
    way: str = "by hand"  # "by torch", or one of ROW_FIRST or WRONG
    trace: bool = False  # trace allocations too
    timeline: bool = False


def on_rank(parts: Parts, jobs: list[Job]) -> dict[str, dict[str, object]]:
    """What a rank executes: every job forward and backward. By section: out, dx, grads, sent.

    sent: bytes that left the rank's sockets meanwhile; None where the system does not tell.
    """
    ranks.name_axis(dist.group.WORLD, "tp")
    rank, n = dist.get_rank(), dist.get_world_size()
    groups: dict[int, Copies] = {}
    found = {}
    for number, job in enumerate(jobs):
        ranks.step(number + 1, len(jobs))
        kv = job.shape.kv_heads
        if kv not in groups:
            groups[kv] = parallel_block.copies_group(kv, n)
            if groups[kv] is not None:
                ranks.name_axis(groups[kv], "kv copies")
        found[job.section] = _execute(job, parts, groups[kv], rank)
    return found


def _execute(job: Job, parts: Parts, copies: Copies, rank: int) -> dict[str, object]:
    experiment = EXPERIMENTS[job.experiment]
    here = ranks.device()
    x = job.x.to(here, copy=True)
    if not experiment.tokens:
        x.requires_grad_()
    mine = {name: weight.to(here) for name, weight in job.shards[rank].items()}
    shard = one_device.with_gradients(mine)
    cotangent = (job.cotangent / job.cotangent.numel()).to(here)  # as from a mean over all elements
    if job.way == "by torch":
        return _by_torch(job, mine, x, cotangent)

    if job.way == "without f":
        parts = {**parts, "column_parallel": _column_without_f}

    def work() -> torch.Tensor:
        if job.way in ROW_FIRST:
            out = _row_first(parts, x, shard, early=job.way == "gelu on partial sums")
        else:
            out = experiment.by_hand(parts, x, shard, job.shape, copies)
        out.backward(cotangent)
        return out

    with _measured() as sent, ranks.section(job.section, timeline=job.timeline):
        out = work()
    grads = one_device.gradients(shard)
    dx = x.grad
    if job.trace:  # once more, so that tracing does not stand in the timeline
        x.grad, shard = None, one_device.with_gradients(mine)
        with ranks.section(f"{job.section}, traced"), ranks.allocations(job.section):
            work()
    return dict(out=out, dx=dx, grads=grads, sent=sent.bytes)


@dataclass
class _Sent:
    """Bytes that left this rank's sockets in a block of code."""

    bytes: int | None = None


@contextlib.contextmanager
def _measured() -> Iterator[_Sent]:
    dist.barrier()  # nobody's earlier messages are under way
    sent, before = _Sent(), ranks.sockets_sent()
    yield sent
    after = ranks.sockets_sent()
    if before is not None and after is not None:
        sent.bytes = after - before


def _column_without_f(
    x: torch.Tensor, w_shard: torch.Tensor, b_shard: torch.Tensor
) -> torch.Tensor:
    return x @ w_shard + b_shard


def _by_torch(
    job: Job, whole: Weights, x: torch.Tensor, cotangent: torch.Tensor
) -> dict[str, object]:
    """The block by torch's own parallelize_module; every rank holds the whole weights first."""
    module = torch_native.parallel_block(whole, job.shape.heads, job.shape.kv_heads)
    with _measured() as sent, ranks.section(job.section, timeline=job.timeline):
        out = module(x)
        out.backward(cotangent)
    with ranks.section("gathering torch's gradients"):
        grads = torch_native.full_gradients(module)
    return dict(out=out, dx=x.grad, grads=grads, sent=sent.bytes)
