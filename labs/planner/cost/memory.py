"""Bytes that a rank has allocated at its worst moment, stage by stage. Metric: allocated.

    state        weights, gradients, optimizer of the rank's parameters, as ZeRO shares them out
    activations  what layers keep for their backward pass x micro-batches in flight
    ends         embedding's mask on the first stage, last norm, head and logits on the last
    working      ZeRO-3's gathered layers; with full recompute the one layer at hand
    eager        of the course's own software every tensor is counted instead: eager.py

"Allocated" is what tensors take (torch: max_memory_allocated); "reserved" by the allocator is
more. Source of activations: Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models", 2022, equations 1-4 and section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from labs import formulas
from labs.formulas import StateBytes
from labs.formulas.sequence import RECOMPUTE
from labs.planner.cluster import Cluster
from labs.planner.cost import eager
from labs.planner.cost.account import ENDS, KEPT, WORKING
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import Software
from labs.planner.units import both

METRIC = "allocated"


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
    model: Model, cp: int, tp: int, mbs: int, sp: bool, recompute: str, flash: bool,
    element_bytes: int = 2,
) -> float:  # fmt: skip
    """Bytes a rank keeps of a layer for one micro-batch's backward pass."""
    parallel = "none" if tp == 1 else "tp+sp" if sp else "tp"
    return formulas.activation_bytes(
        mbs, model.length // cp, model.d, model.heads, tp, parallel=parallel, recompute=recompute,
        kv_heads=model.kv_heads, d_ff=model.d_ff, gated=model.gated, dropout=model.masked,
        flash=flash, element_bytes=element_bytes,
    )  # fmt: skip


def in_flight(layout: Layout, stage: int) -> float:
    """Micro-batches whose whole stage is kept at the peak: 1F1B's, or interleaved 1F1B's / v."""
    return _flying(layout.pp, stage, layout.micro_batches, layout.v)


@lru_cache(maxsize=65536)
def _flying(pp: int, stage: int, m: int, v: int) -> float:
    if v == 1:
        return formulas.stored_1f1b(pp, stage, m)
    return formulas.stored_interleaved(pp, stage, m, v) / v


@lru_cache(maxsize=4096)
def _logits(tokens: int, vocab: int, each: int, tp: int, mbs: int) -> float:
    return formulas.logits_shard_bytes(mbs, tokens, vocab, each, tp)


@lru_cache(maxsize=65536)
def _layers(model: Model, pp: int, stage: int, ends: bool) -> int:
    return formulas.stage_layers(model.decoder, pp, stage, ends)


@lru_cache(maxsize=4096)
def rank_parameters(model: Model, pp: int, stage: int, tp: int, ends: bool) -> int:
    """P: elements on a rank, with what tp leaves whole and the vocabulary's padding."""
    return formulas.stage_parameters(model.decoder, pp, stage, tp, ends)


@lru_cache(maxsize=4096)
def stage_counts(model: Model, pp: int, ends: bool) -> tuple[int, ...]:
    """Layers of the first stage, of the second, and of the last: no other stage differs from all.

    One stage alone, and two, have as many entries.
    """
    places = sorted({0, min(1, pp - 1), pp - 1})
    return tuple(formulas.stage_layers(model.decoder, pp, stage, ends) for stage in places)


@lru_cache(maxsize=65536)
def _state(
    model: Model, software: Software, pp: int, stage: int, tp: int, ends: bool, shards: int,
    zero: int, whole: bool,
) -> StateBytes:  # fmt: skip
    own = rank_parameters(model, pp, stage, tp, ends)
    state = formulas.state_on_rank(own, shards, zero, software.bytes_each)
    if not whole:
        return state
    weights = own * software.element_bytes if zero == 3 else state.weights
    return StateBytes(weights, own * software.bytes_each.gradients, state.optimizer)


def state_part(model: Model, at: Layout, stage: int, software: Software, zero: int) -> StateBytes:
    """Weights, gradients and optimizer of a rank; where ZeRO-2 and 3 travel once a step, whole."""
    whole = zero > 1 and at.shards > 1 and not software.each_micro and at.micro_batches > 1
    return _state(model, software, at.pp, stage, at.tp, at.ends, at.shards, zero, whole)


def gathered_part(model: Model, at: Layout, software: Software, zero: int) -> float:
    """ZeRO-3's two largest units at the peak: a layer's weights and what is made of them."""
    if zero < 3 or at.shards == 1:
        return 0.0
    block = formulas.block_parameters_on_rank(*model.decoder.block, at.tp, model.gated)
    return formulas.zero3_peak(software.element_bytes * block, at.shards, copied=False)


def layer_part(model: Model, at: Layout, software: Software, recompute: str) -> tuple[float, float]:
    """Bytes kept of a layer and micro-batch, and of the one layer that is computed again."""

    def kept(word: str) -> float:
        words = (model, at.cp, at.tp, at.mbs, at.sp, word, software.flash)
        return layer_bytes(*words, software.element_bytes)

    if recompute == "selective" and software.again == "half":
        return (kept("none") + kept("full")) / 2, 0.0
    return kept(recompute), kept("none") if recompute == "full" else 0.0


def stage_part(model: Model, at: Layout, stage: int, software: Software) -> tuple[float, float]:
    """Layers times micro-batches that a stage keeps, and the bytes of embedding or head there."""
    flying = in_flight(at, stage)
    layers = _layers(model, at.pp, stage, at.ends)
    tokens = at.mbs * model.length // at.cp * model.d / (at.tp if at.sp else 1)
    ends = tokens * flying if stage == 0 and model.masked else 0.0  # the embedding's dropout mask
    if stage == at.pp - 1:
        length = model.length // at.cp
        logits = _logits(length, model.vocab, software.loss_bytes, at.tp, at.mbs)
        ends += 2 * software.element_bytes * tokens + logits
    return layers * flying, ends


def stage_memory(model: Model, layout: Layout, stage: int, software: Software) -> StageMemory:
    """Bytes of a rank on that stage at its worst moment."""
    if software.eager:
        return _eager_memory(model, layout, stage, software)
    state = state_part(model, layout, stage, software, layout.zero)
    each, again = layer_part(model, layout, software, layout.recompute)
    layers, ends = stage_part(model, layout, stage, software)
    own = rank_parameters(model, layout.pp, stage, layout.tp, layout.ends)
    working = again + gathered_part(model, layout, software, layout.zero)
    return StageMemory(stage, own, state.weights, state.gradients, state.optimizer, each * layers,
                       ends, working)  # fmt: skip


def _eager_memory(model: Model, at: Layout, stage: int, software: Software) -> StageMemory:
    """State, padded so that dp shares it, and what a step makes besides, at its peak."""
    account = eager.peak(model, at, stage, software.element_bytes)
    own = rank_parameters(model, at.pp, stage, at.tp, at.ends)
    units = [sum(unit) for unit in eager.parameters(model, at.pp, stage, at.tp)]
    padded = formulas.padded_parameters(units if at.zero > 1 else [own], at.dp)
    state = formulas.state_on_rank(padded, at.dp, at.zero, software.bytes_each)
    kinds = (account.at_peak[kind] for kind in (KEPT, ENDS, WORKING))
    return StageMemory(stage, own, state.weights, state.gradients, state.optimizer, *kinds)


def worst_stages(layout: Layout) -> tuple[int, ...]:
    """The stages one of which holds most: first, last, and second where the first has a layer less.

    On the way from first to last neither layers nor micro-batches in flight grow.
    """
    last = layout.pp - 1
    if last == 0:
        return (0,)
    return (0, 1, last) if layout.ends and last > 1 else (0, last)


def worst_stage(model: Model, layout: Layout, software: Software) -> StageMemory:
    """The stage whose ranks hold most."""
    return max(
        (stage_memory(model, layout, stage, software) for stage in worst_stages(layout)),
        key=lambda one: one.total,
    )


def all_stages(model: Model, layout: Layout, software: Software) -> list[StageMemory]:
    """Every stage, from the input on."""
    return [stage_memory(model, layout, s, software) for s in range(layout.pp)]


def recompute_told(model: Model, layout: Layout, software: Software) -> str:
    """What selective recompute saves of a layer, and why it is little where attention is fused."""
    none, selective = (layer_part(model, layout, software, word)[0] for word in RECOMPUTE[:2])
    saves = "saves" if layout.recompute == "selective" else "would save"
    why = ": fused attention keeps no scores in any case" if software.flash else ""
    return f"selective recompute {saves} {1 - selective / none:.1%} of what a layer keeps{why}"


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
        f"activations and their gradients take {software.element_bytes} bytes an element, "
        + (
            "every tensor of torch's eager mode is counted"
            if software.eager
            else f"logits {software.loss_bytes}"
        )
        + f"; dropout: {'yes' if model.masked else 'none'}",
        *([] if software.eager else [recompute_told(model, layout, software)]),
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
