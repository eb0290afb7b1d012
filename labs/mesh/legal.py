"""What a mesh cannot train, said before anything runs: which numbers clash, and what would do.

`Config` asks it as it is made, so neither a lab nor a rank ever holds one that cannot be cut.
"""

from __future__ import annotations

from math import gcd, inf, lcm
from numbers import Integral, Real
from typing import TYPE_CHECKING

import torch

from labs import text
from labs.data_parallel.adamw import AdamW
from labs.gpt import Shape
from labs.mesh.layout import Layout

if TYPE_CHECKING:
    from labs.mesh.config import Config

ZERO = (0, 1, 2, 3)
DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
SEEDS = 10**12
"""Batches are drawn by seed · 1,000,003 + step, and torch takes 64 bits."""


def check(config: Config) -> None:
    """Raises ValueError, a sentence, for a configuration that cannot be laid out or trained."""
    for name, kind in dict(layout=Layout, model=Shape, optimizer=AdamW).items():
        given = getattr(config, name)
        if not isinstance(given, kind):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise ValueError(f"{name} must be {article} {kind.__name__}, got {given!r}")
    flag(reshard=config.reshard, sequence_parallel=config.sequence_parallel)
    whole(batch=config.batch, micro_batches=config.micro_batches)
    zero(config.zero)
    clip(config.clip)
    overlap(config.overlap, config.zero)
    dropout(config.dropout)
    if config.dtype not in DTYPES:
        names = ", ".join(str(dtype)[6:] for dtype in DTYPES)
        raise ValueError(f"dtype {config.dtype!r} was asked for; a mesh trains {names}")
    if isinstance(config.seed, bool) or not isinstance(config.seed, Integral):
        raise ValueError(f"seed must be a whole number, got {config.seed!r}")
    if abs(config.seed) > SEEDS:
        raise ValueError(f"seed must be at most {SEEDS:,} in size, got {config.seed:,}")
    optimizer(config.optimizer)
    stages(config.model, config.layout)
    heads(config.model, config.layout)
    samples(config.batch, config.layout, config.micro_batches)
    tokens(config.model, config.layout, config.sequence_parallel)


def whole(**numbers: object) -> None:
    """Each must be a whole number from 1 on. Raises ValueError."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Integral) or number < 1:
            raise ValueError(f"{name} must be a whole number from 1 on, got {number!r}")


def flag(**given: object) -> None:
    """Each must be True or False. Raises ValueError."""
    for name, value in given.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}")


def zero(asked: object) -> None:
    """The stages of ZeRO; 0 shares nothing out. Raises ValueError for any other."""
    if isinstance(asked, bool) or not isinstance(asked, Integral) or asked not in ZERO:
        raise ValueError(f"zero must be 0, 1, 2 or 3, got {asked!r}")


def clip(asked: object) -> None:
    """The largest norm is above 0, or None. Raises ValueError."""
    number = isinstance(asked, Real) and not isinstance(asked, bool)
    if asked is not None and not (number and asked > 0):  # not a number is not above 0
        raise ValueError(
            f"clip must be a norm above 0, or None for gradients as they are; got {asked!r}"
        )


def optimizer(asked: AdamW) -> None:
    """Rates and betas with which AdamW can go on. Raises ValueError."""

    def number(value: object) -> bool:
        return isinstance(value, Real) and not isinstance(value, bool)

    for name in ("lr", "eps", "weight_decay"):
        value = getattr(asked, name)
        if not (number(value) and 0 <= value < inf):
            raise ValueError(f"AdamW's {name} must be a number from 0 on, got {value!r}")
    betas = asked.betas
    pair = isinstance(betas, (tuple, list)) and len(betas) == 2
    if not (pair and all(number(beta) and 0 <= beta < 1 for beta in betas)):
        raise ValueError(f"AdamW's betas must be two numbers from 0 on and below 1, got {betas!r}")


def dropout(asked: object) -> None:
    """A probability below 1. Raises ValueError."""
    number = isinstance(asked, Real) and not isinstance(asked, bool)
    if not (number and 0 <= asked < 1):
        raise ValueError(f"dropout must be a probability from 0 on and below 1, got {asked!r}")


def overlap(asked: object, zero: int) -> None:
    """Whether sums of gradients run beside the backward pass. Raises ValueError."""
    flag(overlap=asked)
    if asked and zero < 2:
        raise ValueError(
            f"overlap needs zero=2 or 3, which sum a unit's gradients as soon as they are there; "
            f"zero={zero} sums all of them at once after the last"
        )


def stages(model: Shape, layout: Layout) -> None:
    """No stage of a pipeline is empty. Raises ValueError."""
    if layout.pp > model.layers:
        raise ValueError(
            f"{layout} has {layout.pp} stages, and the model {model.layers} layers: no stage may "
            f"be empty, so pp is at most {model.layers}"
        )


def heads(model: Shape, layout: Layout) -> None:
    """Tensor parallelism shares out whole heads, and the MLP's columns. Raises ValueError."""
    width = model.d_ff or 4 * model.d
    for size, what in ((model.heads, "heads"), (width, "columns of the MLP (d_ff)")):
        if size % layout.tp:
            both = gcd(model.heads, width)
            near = ", ".join(str(n) for n in range(1, both + 1) if both % n == 0)
            raise ValueError(
                f"{size} {what} cannot be shared by tp={layout.tp}: {size} % {layout.tp} = "
                f"{size % layout.tp}; tp that works for this model: {near}"
            )


def samples(batch: int, layout: Layout, micro_batches: int) -> None:
    """Every replica has as many micro-batches, all of one size. Raises ValueError."""
    shares = layout.dp * micro_batches
    if batch % shares:
        below = batch // shares * shares
        near = f"{below} or {below + shares}" if below else f"{shares}"
        raise ValueError(
            f"a batch of {batch} sequences cannot be shared by dp={layout.dp} with {micro_batches} "
            f"micro-batches each: {batch} % {shares} = {batch % shares}; {near} would do"
        )


def tokens(model: Shape, layout: Layout, split: bool = False) -> None:
    """The text has enough tokens, each has a row in the embedding, and the ranks can share a
    sequence. split: by sequence parallelism too. Raises ValueError.
    """
    if model.vocab < text.VOCAB:
        raise ValueError(
            f"vocab = {model.vocab} is too small for the text, which has {text.VOCAB} tokens: "
            "bytes, and one for an end"
        )
    length, longest = model.length, len(text.library_text()) - 1
    if length > longest:
        raise ValueError(f"length = {length} asked for; the text has {longest} tokens")
    chunks = 2 * layout.cp if layout.cp > 1 else 1  # two each: zigzag
    pieces = chunks if not split else lcm(chunks, layout.cp * layout.tp)
    if length % pieces:
        below = length // pieces * pieces
        near = f"{below} or {below + pieces}" if below else f"{pieces}"
        by = [f"cp={layout.cp} with two chunks each"] if layout.cp > 1 else []
        by += [f"sequence parallelism on tp={layout.tp}"] if split and layout.tp > 1 else []
        raise ValueError(
            f"{length} tokens cannot be shared by {' and '.join(by)}: {length} % {pieces} = "
            f"{length % pieces}; {near} tokens would do"
        )
