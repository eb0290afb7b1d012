"""Bytes that a rank sends in a step, by axis, and the link that they take.

    tp    a layer's four all-reduces of (B, T, d), or reduce-scatters and all-gathers of SP: as many
    cp    keys and values around the ring, and back with their gradients
    pp    an activation forward and its gradient back, each micro-batch and chunk
    dp    gradients and weights, as ZeRO shares them out

Ideal bytes, those of a ring, of the rank that sends most. Sources: Narayanan et al., 2021, section
3.2 (pp, tp); Rajbhandari et al., 2020, section 7 (dp); labs/formulas/context.py (cp).
"""

from __future__ import annotations

from dataclasses import dataclass

from labs import formulas
from labs.formulas import Link
from labs.planner.cluster import Cluster
from labs.planner.cost.memory import rank_parameters, stage_counts
from labs.planner.cost.time import placed
from labs.planner.layout import Layout
from labs.planner.model import Model
from labs.planner.software import Software

AXES = ("tp", "cp", "pp", "dp")


@dataclass(frozen=True)
class Sent:
    """What goes over an axis: bytes a rank and step, and the slowest link on the way."""

    axis: str
    bytes: float
    link: Link
    inside: bool  # all ranks of a group are in one node


def traffic(model: Model, cluster: Cluster, at: Layout, software: Software) -> list[Sent]:
    """One entry for each axis of more than one rank, in the order of AXES, of a legal layout."""
    e, m = software.element_bytes, at.micro_batches
    tokens = (at.mbs, model.length // at.cp, model.d, e)
    layers = max(stage_counts(model, at.pp, at.ends))
    ranks, near = placed(software, at, cluster.per_node)
    passes = 1.5 if at.recompute == "full" else 1.0  # the forward pass's two are repeated
    found = {
        "tp": (m * layers * passes * formulas.tp_layer_bytes(*tokens, at.tp),
               at.tp <= cluster.per_node),
        "cp": (m * layers * _ring(model, at, e), at.cp * at.tp <= cluster.per_node),
        "pp": (_pipeline(tokens, at, software), near),
        "dp": (_data(model, at, software), ranks >= at.shards),
    }  # fmt: skip
    links = {True: cluster.gpu.nvlink, False: cluster.network}
    sizes = dict(tp=at.tp, cp=at.cp, pp=at.pp, dp=at.shards)
    return [
        Sent(axis, found[axis][0], links[found[axis][1]], found[axis][1])
        for axis in AXES
        if sizes[axis] > 1
    ]


def _ring(model: Model, at: Layout, e: int) -> float:
    """A layer's keys, values and their gradients, a micro-batch."""
    if at.cp == 1:
        return 0.0
    kv = max(1, model.kv_heads // at.tp)
    place = (at.mbs, model.length, kv, model.d // model.heads, e, at.cp)
    return formulas.ring_forward_bytes(*place) + formulas.ring_backward_bytes(*place)


def _pipeline(tokens: tuple[int, int, int, int], at: Layout, software: Software) -> float:
    """Of a rank amid the pipeline: forward and back; with two stages each has one neighbour only.

    Interleaved, the last stage is the neighbour of the first, and every rank sends both ways.
    """
    if at.pp == 1:
        return 0.0
    cut = at.tp if software.scatter_gather or at.sp else 1
    ways = 1 if at.pp == 2 and at.v == 1 else 2
    return ways * at.v * at.micro_batches * formulas.tp_all_reduce_payload(*tokens) / cut


def _data(model: Model, at: Layout, software: Software) -> float:
    """Gradients and weights along dp·cp, of the fullest stage."""
    own = max(rank_parameters(model, at.pp, stage, at.tp, at.ends) for stage in {0, at.pp - 1})
    round_ = formulas.ring_all_gather_bytes(1.0, at.shards)
    gradients = own * software.bytes_each.gradients * round_
    weights = own * software.element_bytes * round_
    m = at.micro_batches if software.each_micro else 1
    if at.zero == 0:
        return 2 * gradients
    if at.zero == 1:
        return gradients + weights
    if at.zero == 2:
        return m * gradients + weights
    return m * (gradients + (2 if software.each_micro else 1) * weights)
