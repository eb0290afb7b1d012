"""The section "activations": bytes that a layer keeps for its backward pass, counted to the byte.

In bf16 with dropout masks of one byte, as the formula has it: on one device, tensor-parallel, with
sequence parallelism; each with no, selective and full recompute. Recompute costs time, which is
measured as a ratio, in fp32 on one rank.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
import torch.distributed as dist

from labs import formulas, ranks
from labs.formulas.sequence import LAYER_NORM, MASKS, RECOMPUTE
from labs.ranks import Run
from labs.result import Check, at_least, by_clock, equal
from labs.sequence_parallel import dropout, parity, ways
from labs.sequence_parallel.block import block
from labs.sequence_parallel.kept import STATISTICS, Kept
from labs.sequence_parallel.shape import Shape
from labs.sequence_parallel.ways import Parts, Way
from labs.tp_linear_pair import one_device
from labs.tp_linear_pair.one_device import Weights

SHARE = 0.1
TIMED = Shape(batch=1, length=256, d=256, heads=8)
_ROUNDS = 9


@dataclass(frozen=True)
class Case:
    """One way to run the layer; words as in formulas.activation_summands."""

    parallel: str
    recompute: str
    kept_sharded: bool = True

    def __str__(self) -> str:
        whole = "" if self.kept_sharded else ", inputs kept whole"
        return f"{self.parallel}, recompute {self.recompute}{whole}"

    def formula(self, shape: Shape, n: int) -> dict[str, float]:
        """Bytes on one rank by what they are."""
        return formulas.activation_summands(
            shape.batch, shape.length, shape.d, shape.heads, n, parallel=self.parallel,
            recompute=self.recompute, kept_sharded=self.kept_sharded,
        )  # fmt: skip


CASES = (
    *(Case(parallel, recompute) for parallel in ("none", "tp", "tp+sp") for recompute in RECOMPUTE),
    Case("tp+sp", "none", kept_sharded=False),
)


@dataclass(frozen=True)
class Job:
    """One layer in bf16, whole and in shards."""

    shape: Shape
    x: torch.Tensor
    weights: Weights
    shards: list[Weights]
    seed: int
    timed: bool  # whether the time of recompute is measured


def make(n: int, shape: Shape, seed: int, timed: bool = True) -> Job:
    """Inputs of the section for `n` ranks."""
    job = parity.make(n, shape, seed, torch.bfloat16)
    return Job(shape, job.x, job.weights, job.shards, seed, timed)


def on_rank(job: Job, parts: Parts) -> dict[str, dict]:
    """On a rank: what each case keeps, and rank 0 how long recompute takes."""
    found = {str(case): _one(case, job, parts) for case in CASES}
    if job.timed:
        if dist.get_rank() == 0:
            found["seconds"] = seconds(job.seed)
        dist.barrier()
    return found


def _one(case: Case, job: Job, parts: Parts) -> dict[str, object]:
    rank, n, here = dist.get_rank(), dist.get_world_size(), ranks.device()
    alone, sharded = case.parallel == "none", case.parallel == "tp+sp"
    x = (job.x.chunk(n, dim=1)[rank] if sharded else job.x).to(here, copy=True).contiguous()
    x.requires_grad_()
    mine = job.weights if alone else job.shards[rank]
    w = one_device.with_gradients({k: t.to(here) for k, t in mine.items()})
    way: Way = ways.one_device if alone else ways.tensor_parallel(parts)
    if sharded:
        way = ways.sequence_parallel(parts, kept_sharded=case.kept_sharded)
    drop = dropout.Drawn(SHARE, job.seed, dict(dp=0, tp=0 if alone else rank), sharded)
    with ranks.section(f"activations, {case}"):
        with Kept(w.values()) as kept:
            out = block(x, w, job.shape.heads // (1 if alone else n), way, drop, case.recompute)
        bytes_kept = kept.by_name
        out.float().square().sum().backward()
    return dict(bytes=bytes_kept, dx=x.grad)


def seconds(seed: int) -> dict[str, float]:
    """Seconds of a forward and a backward pass on one device, fp32: the shortest, taken in turns.

    On the CPU those that this process computed: what else the machine does is not in them.
    """
    weights, here = parity.weights_of(TIMED, seed, torch.float32), ranks.device()
    w = one_device.with_gradients({k: t.to(here) for k, t in weights.items()})
    x = torch.randn(TIMED.batch, TIMED.length, TIMED.d, device=here, requires_grad=True)
    clock = time.process_time if here.type == "cpu" else time.perf_counter
    took: dict[str, list[float]] = {recompute: [] for recompute in RECOMPUTE}
    for _ in range(_ROUNDS):
        for recompute, times in took.items():
            begun = clock()
            block(x, w, TIMED.heads, ways.one_device, recompute=recompute).sum().backward()
            if here.type == "cuda":
                torch.cuda.synchronize()
            times.append(clock() - begun)
    return {recompute: min(times) for recompute, times in took.items()}


def measured(run: Run, case: Case, rank: int = 0) -> dict[str, int]:
    """Bytes a rank kept, by what they are, without LayerNorm's statistics."""
    kept = run.values[rank][str(case)]["bytes"]
    return {name: size for name, size in kept.items() if name != STATISTICS}


def time_ratios(run: Run) -> dict[str, float] | None:
    """Seconds of a step over those without recompute; None where they were not measured."""
    took = run.values[0].get("seconds")
    return None if took is None else {name: one / took["none"] for name, one in took.items()}


def checks(job: Job, run: Run) -> list[Check]:
    """All checks of the section."""
    n, found = run.world_size, []
    for case in CASES:
        want, got = case.formula(job.shape, n), [measured(run, case, rank) for rank in range(n)]
        off = {
            f"{name} {kept.get(name, 0):,} (formula {want.get(name, 0):,.0f})"
            for kept in got for name in {*kept, *want} if kept.get(name) != want.get(name)
        }  # fmt: skip
        found.append(
            equal(f"activations, t={n}: {case}", "; ".join(sorted(off)) or sum(got[0].values()),
                  sum(want.values()), "bytes a rank",
                  _SOURCE[case.recompute][case.parallel if case.kept_sharded else "whole"])
        )  # fmt: skip
    return found + _outside(run) + _statistics(job, run) + _recompute(run)


_SOURCE = {
    "none": {"none": "sbh(34 + 5as/h)", "tp": "sbh(10 + 24/t + 5as/(ht))",
             "tp+sp": "sbh/t (34 + 5as/h)", "whole": "sbh(4 + 30/t + 5as/(ht))"},
    "selective": {"none": "34sbh", "tp": "sbh(10 + 24/t)", "tp+sp": "34sbh/t"},
    "full": {"none": "2sbh", "tp": "2sbh", "tp+sp": "2sbh/t"},
}  # fmt: skip


def _outside(run: Run) -> list[Check]:
    """Norms, dropout, residual: a t-th of what tensor parallelism alone keeps there."""
    tp, sp = (
        sum(measured(run, Case(parallel, "none"))[name] for name in (LAYER_NORM, MASKS))
        for parallel in ("tp", "tp+sp")
    )
    n = run.world_size
    name = f"activations, t={n}: norms, dropout and residual, tp over tp+sp"
    return [equal(name, tp / sp, n, "times", "6sbh against 6sbh/t")]


def _statistics(job: Job, run: Run) -> list[Check]:
    """What the formula leaves out: of each of two norms, mean and rstd of every token."""
    n = run.world_size
    size = 2 if run.device == "cpu" else 4  # bytes of one: on the CPU of the input's type
    got = [value[str(Case("tp+sp", "none"))]["bytes"].get(STATISTICS, 0) for value in run.values]
    want = 4 * job.shape.batch * job.shape.length // n * size
    return [
        equal(f"activations, t={n}: besides the formula, tp+sp", max(got), want, "bytes a rank",
              f"{STATISTICS}: 4 numbers a token")
    ]  # fmt: skip


def _recompute(run: Run) -> list[Check]:
    """The same masks are drawn again, so the gradients stay as they are, to the bit."""
    n, found = run.world_size, []
    for parallel in ("none", "tp", "tp+sp"):
        apart = torch.stack([
            (value[str(Case(parallel, again))]["dx"] - value[str(Case(parallel, "none"))]["dx"])
            .abs().max()
            for value in run.values for again in ("selective", "full")
        ]).max().item()  # fmt: skip
        found.append(equal(f"activations, t={n}: {parallel}, recompute changes gradients by", apart,
                           0.0, "", "the same masks again"))  # fmt: skip
    ratios = time_ratios(run)
    if ratios is not None:
        told = formulas.recompute_time(TIMED.length, TIMED.d, "full")
        found.append(by_clock(at_least("time of a step, full recompute over none", ratios["full"],
                                       1.05, "times", f"products alone: {told:.2f}")))  # fmt: skip
    return found
