"""What the planner is asked: the numbers of all its controls, and the objects made of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import isfinite
from numbers import Integral, Real

from labs.formulas.sequence import RECOMPUTE
from labs.formulas.zero import ZERO_STAGES
from labs.planner.cluster import GPUS, LARGEST, Cluster, find_gpu
from labs.planner.layout import Layout
from labs.planner.lesson import Ask
from labs.planner.model import MOST_PARAMETERS, Model, sized
from labs.planner.software import TABLES, Software

ASSUMED = ("hidden", "heads", "kv_heads", "ffn")
_SWITCHES = ("gated", "tied", "sp", "flash")
_WORDS = dict(recompute=RECOMPUTE, table=tuple(TABLES))


@dataclass(frozen=True)
class Asked:
    """A cluster, a model and a layout. Zero in hidden, heads, kv_heads, ffn: to be assumed.

    parameters  N, elements, or as text, "70B"; length: tokens of a sequence, T; the others as
                Layout, Model, Software

    Raises ValueError, a sentence, for what is no number, out of bounds, or no such word.
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

    def __post_init__(self) -> None:
        put = object.__setattr__
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "parameters":
                put(self, field.name, _parameters(value))
            elif field.name == "gpu":
                if value not in GPUS:
                    put(self, field.name, find_gpu(str(value)).name)
            elif field.name == "zero":
                if type(value) is not int or value not in ZERO_STAGES:
                    raise ValueError(f"ZeRO has the stages 0, 1, 2 and 3; got {value!r}")
            elif field.name in _SWITCHES:
                if not isinstance(value, bool):
                    raise ValueError(f"{field.name} must be True or False, got {value!r}")
            elif field.name in _WORDS:
                if value not in _WORDS[field.name]:
                    known = "; ".join(_WORDS[field.name])
                    raise ValueError(f"{field.name} {value!r} was asked for; there are {known}")
            else:
                put(self, field.name, _whole(field.name, value))

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


def an_asked(asked: object) -> Asked:
    """It, or without one the lesson's. Raises ValueError for anything else."""
    if asked is None:
        return Asked()
    if not isinstance(asked, Asked):
        raise ValueError(f"asked must be an Asked(gpus=…, …), got {asked!r}")
    return asked


def number(text: str) -> float:
    """N as typed: 70e9, 70B, 7_000_000_000. Raises ValueError with what would do."""
    plain = text.strip().replace(",", "").replace("_", "").replace(" ", "")
    for letter, times in (("B", 1e9), ("M", 1e6), ("T", 1e12)):
        if plain.upper().endswith(letter):
            plain, scale = plain[:-1], times
            break
    else:
        scale = 1.0
    try:
        found = float(plain) * scale
    except ValueError:
        found = float("nan")
    if not (isfinite(found) and found > 0):
        raise ValueError(f"parameters, N: {text!r} is no number above 0; 70e9 or 70B would do")
    return found


def _parameters(value: object) -> float:
    if isinstance(value, str):
        value = number(value)
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value <= MOST_PARAMETERS:
        raise ValueError(
            f"parameters, N, must be a number above 0 and at most {MOST_PARAMETERS:.0e}, got "
            f"{value!r}"
        )
    return value


def _whole(name: str, value: object) -> int:
    least = 0 if name in ASSUMED else 1
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} on, got {value!r}")
    if value > LARGEST:
        raise ValueError(f"{name} is at most {LARGEST:,} here, got {value:,}")
    return int(value)


NAMES = tuple(field.name for field in fields(Asked))


@lru_cache(maxsize=64)
def _model(
    parameters: float, layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, gated: bool,
    vocab: int, tied: bool, length: int,
) -> Model:  # fmt: skip
    return sized(
        parameters, layers, d=hidden, heads=heads, kv_heads=kv_heads, d_ff=ffn, gated=gated,
        vocab=vocab, tied=tied, length=length,
    )  # fmt: skip


@lru_cache(maxsize=64)
def _cluster(gpus: int, per_node: int, gpu: str) -> Cluster:
    return Cluster(gpus, per_node, GPUS[gpu])


@lru_cache(maxsize=16)
def _software(table: str, flash: bool) -> Software:
    return Software("fp32" if table == "fp32" else "bf16", table, flash)
