"""Every closed formula of the course, one function each: the text, the plots, the labs and the
planner all call these, so a number has one definition.

Pure Python, no torch. Each docstring gives the unit and the source. Notation: B batch, T sequence,
d hidden, d_ff MLP width, V vocabulary, t ranks of the tensor-parallel group, e bytes an element.

Three kinds of bytes are kept apart everywhere:
  payload   the size of the tensor that is handed to the collective;
  ideal     what a ring would make each rank send for it (the functions `ring_*` below);
  wire      what the backend in use really moves (measured by the ledger, no formula here).
"""

from __future__ import annotations

from labs.formulas.collectives import (
    Messages,
    collective_messages,
    collective_seconds,
    message_seconds,
    ring_all_gather_bytes,
    ring_all_reduce_bytes,
    ring_all_reduce_seconds,
    ring_broadcast_bytes,
    ring_reduce_scatter_bytes,
    send_bytes,
)
from labs.formulas.links import (
    INFINIBAND_FAST,
    INFINIBAND_SLOW,
    NVLINK_H100,
    Link,
    link_ratio,
    link_ratio_mixed,
    seconds_over_link,
    tp_layer_seconds,
)
from labs.formulas.parameters import (
    attention_parameters,
    block_parameters,
    block_parameters_on_rank,
    layer_norm_parameters,
    linear_parameters,
    mlp_parameters,
    swiglu_parameters,
    vocab_parameters,
)
from labs.formulas.pipeline import (
    bubble_over_ideal,
    bubble_share,
    micro_batches_for,
    pipeline_send_bytes,
    pipeline_sends,
    step_time,
    stored_1f1b,
    stored_gpipe,
    stored_interleaved,
    stored_zero_bubble,
    zero_bubble_idle,
)
from labs.formulas.tensor import (
    BACKWARD_ALL_REDUCES,
    FORWARD_ALL_REDUCES,
    embedding_bytes,
    gathered_logits_payload,
    gathered_mlp_payload,
    head_bytes,
    kv_copies_count,
    kv_copy_gradient_payload,
    logits_shard_bytes,
    padded_vocab,
    tp_all_reduce_payload,
    tp_all_reduces,
    tp_layer_bytes,
    tp_layer_payload,
    vocab_loss_bytes,
    vocab_loss_payload,
)

__all__ = [
    "BACKWARD_ALL_REDUCES",
    "FORWARD_ALL_REDUCES",
    "INFINIBAND_FAST",
    "INFINIBAND_SLOW",
    "Link",
    "Messages",
    "NVLINK_H100",
    "attention_parameters",
    "block_parameters",
    "block_parameters_on_rank",
    "bubble_over_ideal",
    "bubble_share",
    "collective_messages",
    "collective_seconds",
    "embedding_bytes",
    "gathered_logits_payload",
    "gathered_mlp_payload",
    "head_bytes",
    "kv_copies_count",
    "kv_copy_gradient_payload",
    "layer_norm_parameters",
    "linear_parameters",
    "link_ratio",
    "link_ratio_mixed",
    "logits_shard_bytes",
    "message_seconds",
    "micro_batches_for",
    "mlp_parameters",
    "padded_vocab",
    "pipeline_send_bytes",
    "pipeline_sends",
    "ring_all_gather_bytes",
    "ring_all_reduce_bytes",
    "ring_all_reduce_seconds",
    "ring_broadcast_bytes",
    "ring_reduce_scatter_bytes",
    "seconds_over_link",
    "send_bytes",
    "step_time",
    "stored_1f1b",
    "stored_gpipe",
    "stored_interleaved",
    "stored_zero_bubble",
    "swiglu_parameters",
    "tp_all_reduce_payload",
    "tp_all_reduces",
    "tp_layer_bytes",
    "tp_layer_payload",
    "tp_layer_seconds",
    "vocab_loss_bytes",
    "vocab_loss_payload",
    "vocab_parameters",
    "zero_bubble_idle",
]
