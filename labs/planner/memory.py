"""Bytes that a rank has allocated at its worst moment, stage by stage. Metric: allocated.

    state        weights, gradients, optimizer of the rank's parameters, as ZeRO shares them out
    activations  what layers keep for their backward pass x micro-batches in flight
    ends         embedding's mask on the first stage, last norm, head and logits on the last
    working      ZeRO-3's gathered layers; with full recompute the one layer at hand

"Allocated" is what tensors take (torch: max_memory_allocated); "reserved" by the allocator is
more. Source of activations: Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, equations 1-4 and section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from labs import formulas
from labs.formulas import StateBytes
from labs.planner.cluster import Cluster
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import Software
from labs.planner.units import both

METRIC = "allocated"
ACTIVATION_BYTES = 2


@dataclass(frozen=True)
class StageMemory:
    """Bytes of a rank on one stage."""

    stage: int
    parameters: int  # the rank's own, P
    weights: float
    gradients: float
    optimizer: float
    activations: float
    ends: float
    working: float

    @property
    def state(self) -> float:
        return self.weights + self.gradients + self.optimizer

    @property
    def total(self) -> float:
        return self.state + self.activations + self.ends + self.working


@lru_cache(maxsize=4096)
def layer_bytes(
    model: Model, cp: int, tp: int, mbs: int, sp: bool, recompute: str, flash: bool
) -> float:
    """Bytes a rank keeps of a layer for one micro-batch's backward pass."""
    parallel = "none" if tp == 1 else "tp+sp" if sp else "tp"
    return formulas.activation_bytes(
        mbs, model.length // cp, model.d, model.heads, tp, parallel=parallel, recompute=recompute,
        kv_heads=model.kv_heads, d_ff=model.d_ff, gated=model.gated, dropout=model.bias,
        flash=flash,
    )  # fmt: skip


def in_flight(layout: Layout, stage: int) -> float:
    """Micro-batches whose whole stage is kept at the peak: 1F1B's, or interleaved 1F1B's / v."""
    m = layout.micro_batches
    if layout.v == 1:
        return formulas.stored_1f1b(layout.pp, stage, m)
    return formulas.stored_interleaved(layout.pp, stage, m, layout.v) / layout.v


@lru_cache(maxsize=4096)
def rank_parameters(model: Model, pp: int, stage: int, tp: int, ends: bool) -> int:
    """P: elements on a rank, with what tp leaves whole and the vocabulary's padding."""
    return formulas.stage_parameters(model.decoder, pp, stage, tp, ends)


def stage_memory(model: Model, layout: Layout, stage: int, software: Software) -> StageMemory:
    """Bytes of a rank on that stage at its worst moment."""
    at, first, last = layout, stage == 0, stage == layout.pp - 1
    own = rank_parameters(model, at.pp, stage, at.tp, at.ends)
    state = formulas.state_on_rank(own, at.shards, at.zero, software.bytes_each)
    words = (model, at.cp, at.tp, at.mbs, at.sp)
    layers = formulas.stage_layers(model.decoder, at.pp, stage, at.ends)
    flying = in_flight(at, stage)
    each = layer_bytes(*words, at.recompute, software.flash)
    if at.recompute == "selective" and software.again == "half":
        each = sum(layer_bytes(*words, word, software.flash) for word in ("none", "full")) / 2
    kept = each * layers * flying
    working = layer_bytes(*words, "none", software.flash) if at.recompute == "full" else 0.0
    if at.zero == 3 and at.shards > 1:
        block = formulas.block_parameters_on_rank(*model.decoder.block, at.tp, model.gated)
        working += formulas.zero3_peak(ACTIVATION_BYTES * block, at.shards, copied=False)
    state = _gathered(state, own, at, software)
    tokens = at.mbs * model.length // at.cp * model.d / (at.tp if at.sp else 1)
    ends = tokens * flying if first and model.bias else 0.0  # the embedding's dropout mask
    if last:
        logits = formulas.logits_shard_bytes(
            at.mbs, model.length // at.cp, model.vocab, software.loss_bytes, at.tp
        )
        ends += 2 * ACTIVATION_BYTES * tokens + logits
    return StageMemory(stage, own, state.weights, state.gradients, state.optimizer, kept, ends,
                       working)  # fmt: skip


def _gathered(state: StateBytes, own: int, at: Layout, software: Software) -> StateBytes:
    """Where ZeRO-2 and 3 travel once a step, gradients and weights stay whole until then."""
    if software.each_micro or at.micro_batches == 1 or at.shards == 1 or at.zero < 2:
        return state
    weights = own * ACTIVATION_BYTES if at.zero == 3 else state.weights
    return StateBytes(weights, own * software.bytes_each.gradients, state.optimizer)


def worst_stage(model: Model, layout: Layout, software: Software) -> StageMemory:
    """The stage whose ranks hold most. Stages between those looked at lie between them."""
    pp = layout.pp
    uneven = model.layers % pp if not layout.ends else 0
    stages = {0, 1, max(0, uneven - 1), uneven, pp - 2, pp - 1}
    return max(
        (stage_memory(model, layout, s, software) for s in sorted(stages) if 0 <= s < pp),
        key=lambda one: one.total,
    )


def all_stages(model: Model, layout: Layout, software: Software) -> list[StageMemory]:
    """Every stage, from the input on."""
    return [stage_memory(model, layout, s, software) for s in range(layout.pp)]


def assumptions(
    model: Model, layout: Layout, software: Software, cluster: Cluster | None = None
) -> list[str]:
    """Every choice the total rests on, a sentence each, with the total of the worst stage."""
    each, worst = software.bytes_each, worst_stage(model, layout, software)
    told = [
        *model.assumed,
        f"a parameter costs {each.weights} bytes of weights, {each.gradients} of gradients and "
        f"{each.optimizer} of optimizer (master, m, v): table '{software.table}', {each.total}",
        f"ZeRO-{layout.zero} shares over dp·cp = {layout.shards} ranks",
        f"recompute: {layout.recompute}; sequence parallelism: {'on' if layout.sp else 'off'}; "
        f"fused attention: {'on' if software.flash else 'off'}",
        f"activations and their gradients take {ACTIVATION_BYTES} bytes an element, logits "
        f"{software.loss_bytes}; dropout: {'yes' if model.bias else 'none'}",
        f"{in_flight(layout, worst.stage):g} micro-batches in flight on stage {worst.stage}",
        f"{METRIC} bytes of the worst stage: {both(worst.total)}",
    ]
    if cluster is not None:
        told.append(
            f"of {cluster.gpu.name}'s {both(cluster.gpu.memory)} a plan may fill "
            f"{both(cluster.usable)}"
        )
    return told


def difference(
    model: Model, before: tuple[Layout, Software], after: tuple[Layout, Software]
) -> float:
    """Bytes by which the worst stage's total changes from one choice to another."""
    return worst_stage(model, *after).total - worst_stage(model, *before).total
