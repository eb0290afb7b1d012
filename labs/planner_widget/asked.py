"""What the planner is asked: the numbers of all its controls, and the objects made of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

from labs.planner.cluster import GPUS, Cluster
from labs.planner.layout import Layout
from labs.planner.lesson import Ask
from labs.planner.model import Model, from_size
from labs.planner.software import Software


@dataclass(frozen=True)
class Asked:
    """A cluster, a model and a layout. Zero in hidden, heads, kv_heads, ffn: to be assumed.

    parameters  N, elements; length: tokens of a sequence, T; the others as Layout, Model, Software
    """

    gpus: int = 64
    per_node: int = 8
    parameters: float = 70e9
    layers: int = 80
    dp: int = 2
    pp: int = 4
    tp: int = 8
    batch: int = 512
    mbs: int = 1
    gpu: str = "H100-80GB"
    hidden: int = 0
    heads: int = 0
    kv_heads: int = 0
    ffn: int = 0
    gated: bool = False
    vocab: int = 128256
    tied: bool = False
    length: int = 4096
    cp: int = 1
    v: int = 1
    zero: int = 1
    sp: bool = True
    recompute: str = "none"
    table: str = "bf16, fp32 gradients"
    flash: bool = True

    def lesson(self) -> Ask:
        """What the lesson's view is asked: no model but N and L."""
        return Ask(
            self.gpus, self.per_node, self.parameters, self.layers, self.dp, self.pp, self.tp,
            self.batch, self.mbs, GPUS[self.gpu].memory, self.cp,
        )  # fmt: skip

    def model(self) -> Model:
        """The model, with what was assumed of it. Raises ValueError for sizes that are none."""
        return _model(
            self.parameters, self.layers, self.hidden, self.heads, self.kv_heads, self.ffn,
            self.gated, self.vocab, self.tied, self.length,
        )  # fmt: skip

    def cluster(self) -> Cluster:
        return _cluster(self.gpus, self.per_node, self.gpu)

    def layout(self) -> Layout:
        sp = self.sp and self.tp > 1
        return Layout(
            self.dp, self.pp, self.cp, self.tp, self.v, self.mbs, self.batch, self.zero, sp,
            self.recompute,
        )  # fmt: skip

    def software(self) -> Software:
        return _software(self.table, self.flash)

    def at(self, layout: Layout) -> Asked:
        """The same question with another layout."""
        return replace(
            self, dp=layout.dp, pp=layout.pp, cp=layout.cp, tp=layout.tp, v=layout.v,
            mbs=layout.mbs, batch=layout.batch, zero=layout.zero, recompute=layout.recompute,
            sp=layout.sp or self.sp,
        )  # fmt: skip


NAMES = tuple(field.name for field in fields(Asked))


@lru_cache(maxsize=64)
def _model(
    parameters: float, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, gated: bool,
    vocab: int, tied: bool, length: int,
) -> Model:  # fmt: skip
    found = from_size(parameters, layers, d=hidden, heads=heads, vocab=vocab, length=length)
    if not (kv_heads or ffn or gated or tied):
        return found
    if not ffn:  # as wide as N leaves, in two matrices or three
        ffn = found.d_ff * 2 // 3 // 256 * 256 if gated else found.d_ff
    model = Model(
        layers, found.d, found.heads, vocab, length, kv_heads, ffn, gated, bias=False,
        positions=False, tied=tied,
    )  # fmt: skip
    apart = model.parameters / parameters - 1
    told = f"these sizes are {model.parameters:,} parameters, {apart:+.1%} of the N asked for"
    return replace(model, assumed=(*found.assumed[: (not hidden) + (not heads)], told))


@lru_cache(maxsize=64)
def _cluster(gpus: int, per_node: int, gpu: str) -> Cluster:
    return Cluster(gpus, per_node, GPUS[gpu])


@lru_cache(maxsize=16)
def _software(table: str, flash: bool) -> Software:
    return Software("fp32" if table == "fp32" else "bf16", table, flash)
