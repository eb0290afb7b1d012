"""Seconds of a training step: what computes, what is waited for, and by which axis.

    step = m · slowest stage + (the other stages)/v  +  dp exposed  +  optimizer
    stage = its layers' forward, backward and recompute, the head on the last, p2p messages

Sources: Narayanan et al., 2021, section 2.2 (pipeline); Korthikanti et al., 2022 (recompute, SP);
Rajbhandari et al., 2020, section 7 (ZeRO's traffic).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from labs import formulas
from labs.planner.cluster import Cluster
from labs.planner.cost.constants import Constants, frozen
from labs.planner.cost.kernels import Machine, machine_of
from labs.planner.cost.layer import E, LayerTimes, embedding_times, head_times, layer_times
from labs.planner.cost.memory import rank_parameters, stage_counts
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import Software

OPTIMIZER_BYTES = 62
"""Bytes a parameter of what follows the backward pass, 4 a number read or written in fp32: unscale
and look for infinities 8, norm 4, clip 8, Adam 28 (gradient, master, m, v; master, m, v), cast to
weights 6, zero the gradients 4, widen them from 2 bytes 4 on average."""


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step, by what they go to; `total` is their sum.

    compute   products, attention and elementwise passes of the slowest stage, all micro-batches
    recompute those run again; head: embedding, head and loss; tp, cp, pp, dp: messages that are
    waited for; bubble: the pipeline filling and draining
    """

    compute: float
    recompute: float
    head: float
    tp: float
    cp: float
    pp: float
    dp: float
    bubble: float
    optimizer: float

    @property
    def total(self) -> float:
        return (
            self.compute + self.recompute + self.head + self.tp + self.cp + self.pp + self.dp
            + self.bubble + self.optimizer
        )  # fmt: skip


def mfu(model: Model, cluster: Cluster, batch: int, seconds: float, dtype: str = "bf16") -> float:
    """Share of the data sheet's peak that the model's own operations use, recompute not counted."""
    rate = batch * model.length / seconds / cluster.gpus
    return formulas.model_flops_utilization(rate, model.flops_per_token, cluster.gpu.peak[dtype])


@dataclass(frozen=True)
class _Stages:
    """A micro-batch through the pipeline: what a layer takes, which stage is slowest."""

    layer: LayerTimes
    again: float
    ring: float
    message: float
    layers: int  # of the slowest stage
    ends: float  # embedding and head on the slowest stage
    slowest: float
    together: float


def _stages(model: Model, machine: Machine, software: Software, at: Layout) -> _Stages:
    layer, head, embedding = _cached(model, machine, software, at.cp, at.tp, at.mbs, at.sp)
    again = layer.again(at.recompute, software)
    ring = _context(model, machine, layer, at)
    message = _pipeline(model, machine, software, at)
    each = layer.both + again + ring
    counts = stage_counts(model, at.pp, at.ends)
    ends = [0.0] * len(counts)
    ends[0] += embedding
    ends[-1] += head
    stages = [n * each + end + message for n, end in zip(counts, ends, strict=True)]
    slowest = max(stages)
    slow = stages.index(slowest)
    together = model.layers * each + at.pp * message + embedding + head
    return _Stages(layer, again, ring, message, counts[slow], ends[slow], slowest, together)


def step_seconds(model: Model, machine: Machine, software: Software, layout: Layout) -> float:
    """Seconds of a step of a legal layout: the total of step_time, for a search."""
    found = _stages(model, machine, software, layout)
    whole = formulas.uneven_step_time(found.slowest, found.together, layout.micro_batches, layout.v)
    exposed = _data(model, machine, software, layout, found)
    return whole + exposed + _optimizer(model, machine, layout)


def least_seconds(
    model: Model, machine: Machine, software: Software, layout: Layout, recompute: str
) -> float:
    """What no step of this layout can be faster than: layers, both ends and the bubble.

    The slowest stage takes no less than the mean of all; messages and the optimizer are left out.
    """
    at = layout
    layer, head, embedding = _cached(model, machine, software, at.cp, at.tp, at.mbs, at.sp)
    together = model.layers * (layer.both + layer.again(recompute, software)) + head + embedding
    return together * ((at.micro_batches - 1 / at.v) / at.pp + 1 / at.v)


def step_time(
    model: Model, cluster: Cluster, layout: Layout, software: Software,
    constants: Constants | None = None,
) -> StepTime:  # fmt: skip
    """Seconds of a step of a legal layout, by what they go to."""
    machine, m = machine_of(cluster, constants or frozen()), layout.micro_batches
    found = _stages(model, machine, software, layout)
    whole = formulas.uneven_step_time(found.slowest, found.together, m, layout.v)
    n = found.layers * m
    tp = found.layer.forward.exposed + found.layer.backward.exposed
    return StepTime(
        compute=n * (found.layer.both - tp),
        recompute=n * found.again,
        head=m * found.ends,
        tp=n * tp,
        cp=n * found.ring,
        pp=m * found.message,
        dp=_data(model, machine, software, layout, found),
        bubble=whole - m * found.slowest,
        optimizer=_optimizer(model, machine, layout),
    )


@lru_cache(maxsize=8192)
def _cached(
    model: Model, machine: Machine, software: Software, cp: int, tp: int, mbs: int, sp: bool
) -> tuple[LayerTimes, float, float]:
    """A layer, the head, the embedding: the same for every layout with these four."""
    return (
        layer_times(model, machine, software, cp, tp, mbs, sp),
        head_times(model, machine, software, cp, tp, mbs),
        embedding_times(model, machine, cp, tp, mbs),
    )


def _context(model: Model, machine: Machine, layer: LayerTimes, at: Layout) -> float:
    """Seconds a layer waits for the ring of K and V, both passes (labs/formulas/context.py)."""
    if at.cp == 1:
        return 0.0
    kv = max(1, model.kv_heads // at.tp)
    place = (at.mbs, model.length, kv, model.d // model.heads, E, at.cp)
    inside = at.cp * at.tp <= machine.cluster.per_node
    exposed = 0.0
    for sent, work in (
        (formulas.ring_forward_bytes(*place), layer.forward.attention),
        (formulas.ring_backward_bytes(*place), layer.backward.attention),
    ):
        hop = machine.send(sent / (at.cp - 1), inside)
        exposed += formulas.ring_seconds(at.cp, work / at.cp, hop) - work
    return exposed


def placed(software: Software, at: Layout, per_node: int) -> tuple[int, bool]:
    """Ranks of a ZeRO group in one node, and whether a pipeline's neighbours are in one node."""
    room = max(1, per_node // at.tp)  # places of a node that tp leaves
    if software.inner == "dp":
        return min(at.shards, room), at.tp * at.shards < per_node
    held = max(1, room // (at.cp * at.pp)) * at.cp
    return min(at.shards, max(1, held)), at.tp * at.cp < per_node


def _pipeline(model: Model, machine: Machine, software: Software, at: Layout) -> float:
    """Seconds of messages to the next stage and back, a micro-batch through a rank's chunks."""
    if at.pp == 1 or (at.v > 1 and software.pp_overlap):
        return 0.0
    payload = formulas.tp_all_reduce_payload(at.mbs, model.length // at.cp, model.d, E)
    cut = at.tp if software.scatter_gather or at.sp else 1
    _, near = placed(software, at, machine.cluster.per_node)
    return 2 * at.v * machine.send(payload / cut, near)


def _data(model: Model, machine: Machine, software: Software, at: Layout, found: _Stages) -> float:
    """Seconds that a step waits for gradients and weights along dp·cp, on the fullest stage."""
    n = at.shards
    if n == 1:
        return 0.0
    inside, _ = placed(software, at, machine.cluster.per_node)
    each = software.bytes_each
    own = max(rank_parameters(model, at.pp, stage, at.tp, at.ends) for stage in {0, at.pp - 1})
    units = max(stage_counts(model, at.pp, at.ends))
    backward, forward = found.layer.backward.seconds + found.again, found.layer.forward.seconds
    gradients = machine.ring(own * each.gradients, n, inside) / units
    weights = machine.ring(own * E, n, inside) / units
    beside = software.dp_overlap
    m = at.micro_batches if software.each_micro else 1
    if at.zero == 0:
        return formulas.reduction_exposed(units, backward, 2 * gradients, beside)
    if at.zero == 1:
        reduced = formulas.reduction_exposed(units, backward, gradients, beside)
        return reduced + formulas.reduction_exposed(units, forward, weights, beside)
    if at.zero == 2:
        reduced = m * formulas.reduction_exposed(units, backward, gradients, beside)
        return reduced + formulas.reduction_exposed(units, forward, weights, beside)
    passes = formulas.reduction_exposed(units, forward, weights, beside)
    twice = gradients + (weights if software.each_micro else 0)
    return m * (passes + formulas.reduction_exposed(units, backward, twice, beside))


def _optimizer(model: Model, machine: Machine, at: Layout) -> float:
    """Seconds of norm, clipping and Adam over the rank's share."""
    own = rank_parameters(model, at.pp, at.pp - 1, at.tp, at.ends)
    return machine.passing(OPTIMIZER_BYTES * own / (at.shards if at.zero else 1))


def forget() -> None:
    """Let the kept times of layers go: those of constants that are not used again."""
    _cached.cache_clear()
