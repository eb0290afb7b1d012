"""Whether a training fits into this machine's memory, asked before anything of it is made.

All ranks of a mesh share one memory here, so what counts is their sum. It is a lower bound: what
surely is there at once. Nothing that fits is refused for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from labs import formulas
from labs.gpt import Shape
from labs.mesh.config import Config
from labs.ranks import devices
from labs.text import VOCAB

_VALUES = 17
"""Values that one layer keeps for the backward pass for each of T·d: Korthikanti et al., 2022,
"Reducing activation recomputation", section 4.1: 34 bytes in 16 bits, attention scores left out."""


def parameters(shape: Shape) -> int:
    """Of the whole model."""
    return formulas.Decoder(
        shape.layers, shape.d, shape.heads, shape.d_ff or 4 * shape.d, shape.length, shape.vocab,
        shape.tied,
    ).parameters  # fmt: skip


def needed(config: Config) -> dict[str, int]:
    """Bytes of all ranks together, at least: weights and their state, activations, logits."""
    layout, model, e = config.layout, config.model, config.dtype.itemsize
    n, own = layout.dp * layout.cp, parameters(model)
    mixed = config.dtype in (torch.bfloat16, torch.float16)
    state = n * formulas.state_bytes(own, n, config.zero, mixed) * (1 if mixed else e / 4)
    tokens = config.batch // config.micro_batches * model.length  # of one micro-batch, all of dp
    return {
        # every rank makes the whole model before it cuts its part
        "weights and optimizer state": int(max(state, layout.ranks * own * e)),
        "activations": tokens * model.layers * _VALUES * model.d * e,
        "logits and their gradient": 2 * tokens * model.vocab * e,
    }


def check(config: Config) -> None:
    """Raises ValueError where the memory that is free is surely too small, with what would do."""
    if devices.visible_gpus() >= config.layout.ranks:
        return
    free = max(0, devices.available_bytes() - config.layout.ranks * devices.RANK_BYTES)
    needs = needed(config)
    if sum(needs.values()) <= free:
        return
    model = config.model
    parts = ", ".join(f"{_gib(size)} for {what}" for what, size in needs.items())
    raise ValueError(
        f"{config.layout}, a batch of {config.batch:,} sequences of {model.length:,} tokens, a "
        f"vocabulary of {model.vocab:,} and {parameters(model):,} parameters need at least "
        f"{_gib(sum(needs.values()))} ({parts}), and {_gib(free)} are free; "
        f"{_nearest(config, free)}"
    )


def _nearest(config: Config, free: int) -> str:
    """What would fit: a smaller batch; else a smaller vocabulary; else both of the smallest."""
    shares = config.layout.dp * config.micro_batches

    def fits(batch: int, vocab: int) -> bool:
        model = replace(config.model, vocab=vocab)
        return sum(needed(replace(config, batch=batch, model=model)).values()) <= free

    vocab, batch = config.model.vocab, config.batch
    most = _largest(batch // shares, lambda k: fits(k * shares, vocab)) * shares
    if most:
        return f"a batch of {most:,} would do"
    rows = _largest(vocab - VOCAB, lambda more: fits(batch, VOCAB + more))
    if rows or fits(batch, VOCAB):
        return f"a vocabulary of {VOCAB + rows:,} would do"
    if fits(shares, VOCAB):
        return f"a batch of {shares:,} with a vocabulary of {VOCAB:,} would do"
    return "even the smallest batch and vocabulary are too large for it: take a smaller model"


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `most` that fits, where all below it do too; 0: none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _gib(size: float) -> str:
    return f"{size / 2**30:,.1f} GiB"
