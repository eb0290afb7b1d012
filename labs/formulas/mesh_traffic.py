"""What a rank of a mesh dp x pp x tp sends in one training step, axis by axis, phase by phase.

    tp     4 all-reduces of B·T·d·e a layer and micro-batch; embedding, head and loss besides
    pp     B·T·d·e to the next stage and as much back, a micro-batch
    dp     gradients and weights, as the stage of ZeRO has it
    ends   the gradient of a table that first and last stage share
    mesh   the loss and the norm: two numbers

B, sequences of a micro-batch; e, bytes an element; m micro-batches; a group of one sends nothing.
One chunk of the model a stage, no sequence or context parallelism.
Sources: Shoeybi et al., 2019, section 3 (tp); Rajbhandari et al., 2020, section 7 (dp); Zhao et
al., "PyTorch FSDP", 2023, section 3 (gathers); Narayanan et al., 2021, section 2.2 (pp).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labs.formulas.collectives import (
    ring_all_gather_bytes,
    ring_all_reduce_bytes,
    ring_reduce_scatter_bytes,
    send_bytes,
)
from labs.formulas.mesh import Decoder, Unit, stage_layers, stage_units, table_on_rank
from labs.formulas.tensor import (
    BACKWARD_ALL_REDUCES,
    FORWARD_ALL_REDUCES,
    tp_all_reduce_payload,
    vocab_loss_payload,
)
from labs.formulas.zero import padded_parameters

LOSS_ALL_REDUCES = 3
"""Of the vocabulary-parallel loss: the largest logit, the target's, the sum of exponentials."""

SCALARS = 2
"""All-reduces of the whole mesh in a step: the gradients' norm and the loss, fp64 each."""


@dataclass(frozen=True)
class Sent:
    """Calls of one kind by one rank in a step. payload, ideal: bytes of all of them together."""

    axis: str
    op: str
    phase: str
    count: int
    payload: int
    ideal: float


def _reduced(axis: str, phase: str, count: int, payload: int, ranks: int) -> list[Sent]:
    ideal = ring_all_reduce_bytes(payload, ranks)
    return [Sent(axis, "all_reduce", phase, count, payload, ideal)] if count else []


def tp_traffic(
    layers: int, first: bool, last: bool, batch: int, length: int, d: int, e: int, tp: int, m: int
) -> list[Sent]:
    """A rank's all-reduces along tp, for m micro-batches of `batch` sequences through its layers.

    first, last: whether the rank's stage embeds, and whether it has head and loss. Forward: two a
    layer, one of the embedding, three of (B, T) of the loss. Backward: two a layer, one of the
    head.
    """
    if tp == 1:
        return []
    one = tp_all_reduce_payload(batch, length, d, e)
    forward, backward = FORWARD_ALL_REDUCES * layers + first, BACKWARD_ALL_REDUCES * layers + last
    loss = vocab_loss_payload(batch, length, e) if last else 0
    return [
        *_reduced("tp", "forward", m * (forward + LOSS_ALL_REDUCES * last),
                  m * (forward * one + loss), tp),
        *_reduced("tp", "backward", m * backward, m * backward * one, tp),
    ]  # fmt: skip


def pp_traffic(stage: int, pp: int, batch: int, length: int, d: int, e: int, m: int) -> list[Sent]:
    """A rank's sends along pp: m activations to the next stage, m gradients to the one before.

    Each of (B, T, d), by every rank of a tensor-parallel group.
    """
    payload = m * tp_all_reduce_payload(batch, length, d, e)
    phases = (["forward"] if stage < pp - 1 else []) + (["backward"] if stage > 0 else [])
    return [Sent("pp", "send", phase, m, payload, send_bytes(payload)) for phase in phases]


def zero_gathers(uses: int, m: int, reshard: bool = True) -> tuple[int, int]:
    """How often ZeRO-3 gathers a unit in a step of m micro-batches: in forward, in backward passes.

    reshard: weights are let go after each pass, so that each micro-batch gathers them twice, and a
    unit that is used twice three times; else they stay until the step is done: one gather.
    """
    return (uses * m, m) if reshard else (1, 0)


def dp_traffic(
    units: Sequence[Unit], n: int, zero: int, e: int, m: int, reshard: bool = True
) -> list[Sent]:
    """A rank's collectives along dp for the units it holds.

    ZeRO-0: one all-reduce of all gradients. ZeRO-1: a reduce-scatter of them and an all-gather of
    the weights, which together send as much. ZeRO-2: a reduce-scatter a unit and micro-batch, an
    all-gather a unit and step. ZeRO-3: the same reduce-scatters, and `zero_gathers`.
    """
    if n == 1:
        return []
    together = e * padded_parameters([sum(unit.parameters for unit in units)], n)
    each = e * padded_parameters([unit.parameters for unit in units], n)
    if zero == 0:
        return _reduced("dp", "step", 1, together, n)
    if zero == 1:
        return [_scattered("step", 1, together, n), _gathered("step", 1, together, n)]
    reduced = _scattered("backward", m * len(units), m * each, n)
    if zero == 2:
        return [reduced, _gathered("step", len(units), each, n)]
    found = [reduced]
    for place, phase in enumerate(("forward", "backward")):
        times = [zero_gathers(unit.uses, m, reshard)[place] for unit in units]
        sizes = [e * padded_parameters([unit.parameters], n) for unit in units]
        whole = sum(count * size for count, size in zip(times, sizes, strict=True))
        found += [_gathered(phase, sum(times), whole, n)] if whole else []
    return found


def _scattered(phase: str, count: int, whole: int, n: int) -> Sent:
    return Sent("dp", "reduce_scatter", phase, count, whole, ring_reduce_scatter_bytes(whole, n))


def _gathered(phase: str, count: int, whole: int, n: int) -> Sent:
    """whole: bytes of what is gathered; a rank hands in its share of them."""
    return Sent("dp", "all_gather", phase, count, whole // n, ring_all_gather_bytes(whole, n))


def ends_traffic(table: int, n: int, place: int, zero: int, e: int) -> list[Sent]:
    """What first and last stage send each other for a tied table of `table` elements on a rank.

    ZeRO-0 and 1: all of its gradient. ZeRO-2 and 3: the share of it that the rank at `place` of n
    along dp keeps, without padding.
    """
    share = padded_parameters([table], n) // n
    kept = table if zero < 2 else max(0, min(share, table - place * share))
    return _reduced("ends", "step", 1 if kept else 0, kept * e, 2)


def step_traffic(
    model: Decoder, sizes: Mapping[str, int], at: Mapping[str, int], batch: int, m: int,
    zero: int, e: int, reshard: bool = True,
) -> list[Sent]:  # fmt: skip
    """All that a rank sends in one step.

    sizes, at: of the axes "dp", "pp" and "tp", and the rank's place on them; batch: sequences of a
    micro-batch of one replica.
    """
    dp, pp, tp = sizes["dp"], sizes["pp"], sizes["tp"]
    stage, first, last = at["pp"], at["pp"] == 0, at["pp"] == pp - 1
    stream = (batch, model.length, model.d, e)
    found = tp_traffic(stage_layers(model, pp, stage), first, last, *stream, tp, m)
    found += pp_traffic(stage, pp, *stream, m)
    found += dp_traffic(stage_units(model, pp, stage, tp), dp, zero, e, m, reshard)
    if model.tied and pp > 1 and (first or last):
        found += ends_traffic(table_on_rank(model.d, model.vocab, tp), dp, at["dp"], zero, e)
    if dp * pp * tp > 1:
        found += _reduced("mesh", "step", SCALARS, SCALARS * 8, dp * pp * tp)
    return found
