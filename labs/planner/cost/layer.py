"""Seconds of one layer, the head and the embedding for one micro-batch on one rank.

    forward    4 products, attention, elementwise passes, 2 all-reduces (or their halves under SP)
    backward   8 products, attention, elementwise passes, 2 all-reduces
    again      what recompute runs a second time: attention's core, or the whole forward pass

Bytes of elementwise passes are counted from the operations, 2 bytes a number read or written:
a norm reads and writes 1 each; bias, dropout and residual read 2, write 1 and a mask of 1 byte;
GELU reads and writes 1; SwiGLU reads 2, writes 1; rotary embeddings read and write q and k.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from labs import formulas
from labs.planner.cost.kernels import Machine
from labs.planner.model import Model
from labs.planner.software import Software

E = 2  # bytes of an activation
FP8_CAST = 3  # bytes an element: read 2, write 1
UNFUSED_FORWARD, UNFUSED_BACKWARD = 11, 19
"""Bytes a score of unfused attention moves: written as scores, read and written by the softmax, by
dropout with its mask, read by the product with V; backward the same passes and their gradients."""
FLASH_BACKWARD = 2.5
"""Products of fused attention's backward pass over those of its forward: 5 against 2 (Dao, 2023)"""

EAGER_NORM, EAGER_ROTARY = 36, 20
"""Bytes a number where each operation of RMSNorm and of rotary embeddings is a pass of its own, in
fp32: cast 6, square 8, mean 4, scale 8, cast 6, weight 4; cast 6, turn 8, cast 6."""


@dataclass(frozen=True)
class Pass:
    """Seconds of a pass through a layer: products, attention, elementwise; and TP's messages."""

    products: float
    attention: float
    elementwise: float
    messages: float
    hidden: float  # of the messages, what runs beside products

    @cached_property
    def exposed(self) -> float:
        """Seconds of messages that the pass waits for."""
        return self.messages - self.hidden

    @cached_property
    def seconds(self) -> float:
        return self.products + self.attention + self.elementwise + self.exposed


@dataclass(frozen=True)
class LayerTimes:
    """One layer and one micro-batch on one rank."""

    forward: Pass
    backward: Pass
    core: float  # attention's core once more: selective recompute

    @cached_property
    def both(self) -> float:
        """Forward and backward, messages that are waited for included."""
        return self.forward.seconds + self.backward.seconds

    def again(self, recompute: str, software: Software) -> float:
        """Seconds that recompute adds to the backward pass.

        Selective: attention's core where it is not fused (Korthikanti et al., 2022), or, as
        torchtitan counts it, every second layer or product: half a pass.
        """
        if recompute == "full":
            return self.forward.seconds
        if recompute == "none":
            return 0.0
        if software.again == "half":
            return self.forward.seconds / 2
        return 0.0 if software.flash else self.core


def layer_times(
    model: Model, machine: Machine, software: Software, cp: int, tp: int, mbs: int, sp: bool
) -> LayerTimes:
    """Seconds of a layer's passes for one micro-batch of `mbs` sequences."""
    rows = mbs * model.length // cp
    forward, backward = _products(model, machine, software, rows, tp)
    attention = _attention(model, machine, software, cp, tp, mbs)
    passes = _elementwise(model, software, rows, tp, sp)
    messages, gathered = _messages(model, machine, rows, tp, sp)
    whole = software.tp_overlap == "full"
    hidden = [
        _hidden(messages, forward, tp) if whole else 0.0,
        min(messages, backward / 2) if software.tp_overlap != "none" else 0.0,
    ]
    return LayerTimes(
        Pass(forward, attention[0], machine.passing(passes[0]), messages, hidden[0]),
        Pass(backward, attention[1], machine.passing(passes[1]), messages + gathered, hidden[1]),
        attention[0],
    )


def _hidden(message: float, products: float, tp: int) -> float:
    """Cut into tp steps, all but the first of which run beside products (Wang et al., 2023)."""
    return min(message * (tp - 1) / tp, products)


def _products(
    model: Model, machine: Machine, software: Software, rows: int, tp: int
) -> tuple[float, float]:
    """Four products forward; backward each one's input's and weights' gradient."""
    d, width = model.d, model.d_ff // tp
    head_dim = d // model.heads
    queries = model.heads // tp * head_dim
    keys = max(1, model.kv_heads // tp) * head_dim
    shapes = [
        (d, queries + 2 * keys),
        (queries, d),
        (d, width * (2 if model.gated else 1)),
        (width, d),
    ]
    kind, forward, backward = software.dtype, 0.0, 0.0
    for inner, columns in shapes:
        forward += machine.product(rows, inner, columns, kind)
        backward += machine.product(rows, columns, inner, kind)
        backward += machine.product(inner, rows, columns, kind)
        if kind == "fp8":
            forward += machine.passing(FP8_CAST * (rows * inner + inner * columns))
            backward += machine.passing(FP8_CAST * (rows * columns + inner * columns))
    return forward, backward


def _attention(
    model: Model, machine: Machine, software: Software, cp: int, tp: int, mbs: int
) -> tuple[float, float]:
    """Forward and backward of attention's core on a rank's heads."""
    flops = formulas.attention_core_flops(mbs, model.length, model.d, software.flash) / (tp * cp)
    if software.flash:
        return machine.attention(flops), FLASH_BACKWARD * machine.attention(flops)
    scores = mbs * model.heads / tp * model.length**2 / cp
    rate = machine.rate("bf16")
    return (
        flops / rate + machine.passing(UNFUSED_FORWARD * scores),
        2 * flops / rate + machine.passing(UNFUSED_BACKWARD * scores),
    )


def _elementwise(
    model: Model, software: Software, rows: int, tp: int, sp: bool
) -> tuple[float, float]:
    """Bytes of elementwise passes forward and backward; SP shares the stream's among tp ranks."""
    stream = rows * model.d / (tp if sp else 1)
    inside = rows * model.d_ff / tp
    turned = rows * model.d * (1 + model.kv_heads / model.heads) / tp  # q and k
    if not model.gated:
        mask = 1 if model.masked else 0
        return (
            (2 * 2 * E + 2 * (3 * E + mask)) * stream + 2 * E * inside,
            (2 * 3 * E + 2 * (2 * E + mask) + 2 * 2 * E) * stream + 3 * E * inside,
        )
    if software.fused:
        return (
            (2 * 2 * E + 2 * 3 * E) * stream + 3 * E * inside + 2 * E * turned,
            (2 * 3 * E + 2 * 2 * E) * stream + 5 * E * inside + 2 * E * turned,
        )
    return (
        (2 * EAGER_NORM + 2 * 3 * E) * stream + 5 * E * inside + EAGER_ROTARY * turned,
        (4 * EAGER_NORM + 2 * 2 * E) * stream + 8 * E * inside + EAGER_ROTARY * turned,
    )


def _messages(model: Model, machine: Machine, rows: int, tp: int, sp: bool) -> tuple[float, float]:
    """Two all-reduces each way, two rounds of a ring each; what SP gathers once more (backward)."""
    payload = formulas.tp_all_reduce_payload(1, rows, model.d, E)
    once = machine.ring(payload, tp, machine.cluster.per_node)
    return 4 * once, (2 if sp else 0) * once


def head_times(
    model: Model, machine: Machine, software: Software, cp: int, tp: int, mbs: int
) -> float:
    """Seconds of head and loss, forward and backward: three products and passes over the logits.

    A logit is written in 2 bytes, cast to 4, read for the largest, the sum and the target, and its
    gradient written and read: 30 bytes. The head's own gradient is one all-reduce.
    """
    rows = mbs * model.length // cp
    columns = formulas.padded_vocab(model.vocab, tp) // tp
    kind = "bf16" if software.dtype == "fp8" else software.dtype
    shapes = ((rows, model.d, columns), (rows, columns, model.d), (model.d, rows, columns))
    products = sum(machine.product(*shape, kind) for shape in shapes)
    payload = formulas.tp_all_reduce_payload(1, rows, model.d, E)
    return (
        products
        + machine.passing(30 * rows * columns)
        + 2 * machine.ring(payload, tp, machine.cluster.per_node)
    )


def embedding_times(model: Model, machine: Machine, cp: int, tp: int, mbs: int) -> float:
    """Seconds of the embedding, forward and backward: rows read and written, one all-reduce."""
    rows = mbs * model.length // cp
    payload = formulas.tp_all_reduce_payload(1, rows, model.d, E)
    seconds = 2 * machine.ring(payload, tp, machine.cluster.per_node)
    return seconds + machine.passing(6 * E * rows * model.d)
