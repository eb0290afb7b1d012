"""A plan on at most 8 ranks of this machine: which axes are kept, what is smaller, what is off.

    dp=8 pp=4 tp=8, 8 ranks  ->  dp=2 pp=2 tp=2, and a sentence for each thing that is otherwise

The lab trains a toy GPT: dp, pp, tp and ZeRO are as in the plan, only shorter; what the lab does
not do, or counts no bytes of, is off, and said.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import log

from labs.planner.layout import Layout
from labs.planner.legal import legal_tp
from labs.planner.model import Model

MOST = 8
"""Ranks that a laptop with two cores runs."""
ROUNDS = 4
"""Micro-batches a stage, at most."""
TOY = Model(4, 64, 4, 257, 64, dropout=False, tied=False, name="the course's toy GPT")
"""labs/mesh_3d trains it: 4 layers, d = 64, 4 heads, 64 tokens, bytes and an end."""


@dataclass(frozen=True)
class Shrunk:
    """A layout of the lab, and what of the plan was kept and what was not, a sentence each."""

    layout: Layout
    model: Model
    told: tuple[str, ...]


def shrink(layout: Layout, model: Model | None = None, ranks: int = MOST) -> Shrunk:
    """The plan on at most `ranks` ranks. Every axis longer than 1 stays at 2 or more where they do.

    Of what is possible the axes that are kept count first, then the ranks that are used, then how
    near the degrees are to the plan's. Raises ValueError for fewer than one rank.
    """
    if type(ranks) is not int or not 1 <= ranks <= MOST:
        raise ValueError(f"a tiny run takes 1 to {MOST} ranks; got {ranks!r}")
    toy = Model(
        TOY.layers, TOY.d, TOY.heads, TOY.vocab, TOY.length, dropout=False,
        tied=model.tied if model else False, name=TOY.name,
    )  # fmt: skip
    m, wanted = layout.micro_batches, (layout.dp, layout.pp, layout.tp)
    dp, pp, tp = _degrees(wanted, toy, ranks)
    rounds = max(1, round(m / layout.pp)) if m >= layout.pp else 0
    few = min(m, ROUNDS * pp, rounds * pp or m)
    mbs = min(layout.mbs, 2)
    small = Layout(dp=dp, pp=pp, tp=tp, mbs=mbs, batch=dp * mbs * few, zero=layout.zero)
    return Shrunk(small, toy, tuple(_told(layout, small, model, ranks)))


def _degrees(wanted: tuple[int, ...], toy: Model, ranks: int) -> tuple[int, int, int]:
    """dp, pp and tp, none longer than asked for, that the toy model can be cut into."""
    ranges = [range(1, min(size, ranks) + 1) for size in wanted]
    legal = [
        at for at in product(*ranges)
        if at[0] * at[1] * at[2] <= ranks and at[1] <= toy.layers and at[2] in legal_tp(toy)
    ]  # fmt: skip

    def worth(at: tuple[int, ...]) -> tuple[float, ...]:
        kept = sum(size > 1 for size in at)
        away = sum(log(asked / size) for asked, size in zip(wanted, at, strict=True))
        widest = max(log(asked / size) for asked, size in zip(wanted, at, strict=True))
        return kept, at[0] * at[1] * at[2], -away, -widest, at[2], at[1]

    return max(legal, key=worth)


def _told(at: Layout, small: Layout, model: Model | None, ranks: int) -> list[str]:
    told = []
    for axis in ("dp", "pp", "tp"):
        asked, got = getattr(at, axis), getattr(small, axis)
        if asked == got:
            told += [f"{axis} = {got} as in the plan"] if got > 1 else []
        elif got > 1:
            told.append(f"{axis} = {asked} is {axis} = {got} here")
        else:
            told.append(f"{axis} = {asked} is left out: {ranks} ranks do not suffice for all axes")
    if small.micro_batches == at.micro_batches:
        told.append(f"m = {at.micro_batches} micro-batches as in the plan")
    else:
        told.append(f"m = {at.micro_batches} micro-batches are m = {small.micro_batches} here")
    if small.mbs != at.mbs:
        told.append(f"micro-batches of {at.mbs} sequences have {small.mbs} here")
    told.append(f"ZeRO-{at.zero} as in the plan")
    if at.cp > 1:
        told.append(f"cp = {at.cp} is left out: the lab's accounts of bytes are of dp, pp and tp")
    if at.v > 1:
        told.append(f"v = {at.v} is v = 1 here: a rank of the mesh holds one chunk of the model")
    if at.recompute != "none":
        told.append(f"recompute = {at.recompute} is none here: the lab computes nothing again")
    if at.sp:
        told.append("sequence parallelism is off here: the lab's accounts of bytes are without it")
    if at.ends:
        told.append("embedding and head take no layer's place here")
    if model is not None:
        name = f"{model.name}: " if model.name else ""
        told.append(
            f"{name}{model.layers} layers of d = {model.d} are the toy GPT's {TOY.layers} of d = "
            f"{TOY.d}, all in fp32"
        )
    return told
