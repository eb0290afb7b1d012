"""What a framework does with a layout: number formats, fused attention, what runs beside what.

The same layout takes another time in another year: these are the switches that explain it.
"""

from __future__ import annotations

from dataclasses import dataclass

from labs.formulas import FP32, MIXED, StateBytes

TABLES = {
    "bf16": MIXED,
    "bf16, fp32 gradients": StateBytes(2, 4, 12),
    "fp32 shards": StateBytes(0, 4, 12),
    "fp32": FP32,
}
"""Bytes a parameter. bf16: 2 weights + 2 gradients + 12 (fp32 master, m, v) = 16; with gradients in
fp32 18, as Megatron-LM and nanotron accumulate them. fp32 shards: FSDP's, whose weights at rest are
the fp32 master; gathered in 2 bytes. fp32: 4 + 4 + 8."""

TP_OVERLAP = ("none", "backward", "full")
"""What of tensor-parallel traffic runs beside products: nothing; the backward pass's, beside the
weights' gradients (Megatron-LM from 2022); both passes', cut into steps of a ring (from 2023)."""


@dataclass(frozen=True, eq=False)
class Software:
    """Switches. `dtype` is that of products; activations have 2 bytes an element, fp32's 4.

    Raises ValueError for a word that is none.
    """

    dtype: str = "bf16"
    table: str = "bf16"
    flash: bool = True  # attention that keeps no T x T tensor and skips what a causal mask hides
    fused: bool = True  # elementwise operations in few passes: by hand, or by a compiler
    tp_overlap: str = "backward"
    dp_overlap: bool = True
    pp_overlap: bool = False  # interleaved 1F1B sends while the next chunk is worked on
    again: str = "core"  # what selective recompute repeats: attention's core, or "half" of a pass
    each_micro: bool = True  # ZeRO-2 and 3 repeat their collectives each micro-batch, else once
    loss_bytes: int = 4  # a logit at the peak: fp32, worked on in place; torch's own loss: 14
    scatter_gather: bool = True  # a pipeline's message is cut by tp on the way between nodes
    inner: str = "pp"  # the axis next to tp in a node: "pp" here, "dp" in Megatron-LM
    eager: bool = False  # every tensor that torch's eager mode makes is counted: labs/mesh alone

    def __post_init__(self) -> None:
        for word, known in (("table", TABLES), ("tp_overlap", TP_OVERLAP), ("inner", ("pp", "dp"))):
            if getattr(self, word) not in known:
                raise ValueError(
                    f"{word} {getattr(self, word)!r} was asked for; there are {', '.join(known)}"
                )

    @property
    def element_bytes(self) -> int:
        """Bytes of an activation."""
        return 4 if self.dtype == "fp32" else 2

    @property
    def bytes_each(self) -> StateBytes:
        """Bytes a parameter costs."""
        return TABLES[self.table]


MEGATRON_2021 = Software(
    "fp16", "bf16", flash=False, tp_overlap="none", dp_overlap=False, inner="dp"
)
MEGATRON_2022 = Software("bf16", "bf16, fp32 gradients", flash=False, dp_overlap=False, inner="dp")
MEGATRON_2024 = Software("bf16", "bf16, fp32 gradients", tp_overlap="full", inner="dp")
TODAY = Software("bf16", "bf16, fp32 gradients")
COURSE = Software(
    "fp32",
    "fp32",
    fused=False,
    tp_overlap="none",
    dp_overlap=False,
    scatter_gather=False,
    eager=True,
)
"""labs/mesh on CPUs: fp32 throughout, torch's eager mode, gloo. Attention is fused and keeps no
scores. What a loss takes is counted too, so `loss_bytes` is not asked (cost/eager.py)."""
