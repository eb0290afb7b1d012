"""What one world of ranks is to do: real text, weights drawn once and cut here, for every rank."""

from __future__ import annotations

import torch

from labs import text
from labs.tp_linear_pair import legality, one_device, sharding
from labs.tp_linear_pair.experiments import EXPERIMENTS, ROW_FIRST, Job, Shape

SECTIONS = ("pair", "row first", "swiglu", "attention", "block", "vocabulary", "torch", "traffic")
"""The parts of the lab."""
_SHAPES = (Shape(1, 16, 32, 4, 4, 64), Shape(2, 32, 64, 8, 8, 128), Shape(1, 64, 128, 8, 8, 256))


def skipped(n: int, shape: Shape) -> dict[str, str]:
    """Sections that cannot run in a world of `n` ranks, and why."""
    found = {}
    if n == 1:
        found = dict.fromkeys(("row first", "torch"), "there is nothing to sum on one rank")
    elif shape.d % n:
        found["row first"] = f"{n} ranks cannot share the {shape.d} rows of A"
    if n > 1 and shape.kv_heads % n:
        found["torch"] = f"torch's plan copies no KV heads: {shape.kv_heads} for {n} ranks"
    return found


def make_jobs(
    n: int, main: bool, shape: Shape, sections: tuple[str, ...], seed: int, dtype: torch.dtype
) -> tuple[list[Job], list[one_device.Weights]]:
    """The jobs of one world of `n` ranks, and the whole weights of each.

    main: the world the lab was asked for, which also runs what is shown once only.
    """
    jobs, wholes = [], []

    def add(section: str, name: str, at: Shape = shape, **more: object) -> None:
        x, cotangent = _inputs(name, at, seed, dtype)
        weights = _weights(name, at, seed, dtype)
        whole = more.get("way") == "by torch"
        shards = [
            weights if whole else sharding.cut_weights(weights, at.heads, at.kv_heads, rank, n)
            for rank in range(n)
        ]
        if more.get("way") in ROW_FIRST:  # rows of A, not columns, and the whole bias
            for rank, shard in enumerate(shards):
                shard["up_w"] = weights["up_w"].chunk(n, 0)[rank].contiguous()
                shard["up_b"] = weights["up_b"]
        jobs.append(Job(section, name, at, x, shards, cotangent, **more))
        wholes.append(weights)

    out = skipped(n, shape) if main else dict.fromkeys(("row first", "torch"), "")
    sections = tuple(name for name in sections if name not in out)
    if "pair" in sections:
        add("pair", "pair", timeline=main)
        if main and n > 1:
            add("without f", "pair", way="without f")
    if "row first" in sections:
        for way in ROW_FIRST:
            add(way, "pair", way=way)
    if "swiglu" in sections:
        add("swiglu", "swiglu")
    if "attention" in sections:
        for kv in sorted({shape.kv_heads, 2, 1}, reverse=True):
            if shape.heads % kv == 0 and legality.legal_kv(kv, n):
                at = Shape(**{**shape.to_dict(), "kv_heads": kv})
                add(f"attention, {kv} of {shape.heads} kv heads", "attention", at)
    if "block" in sections:
        add("block", "block", timeline=main)
    if "torch" in sections:
        add("torch", "block", way="by torch")
    if "vocabulary" in sections:
        add("vocabulary", "vocabulary", trace=main)
    if "traffic" in sections:
        for at in _SHAPES:
            if at.heads % n == 0:
                add(f"traffic, {at}", "block", at)
    return jobs, wholes


def _inputs(
    name: str, shape: Shape, seed: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Real text: as tokens and targets, or as rows of an embedding, N(0, 1); and a cotangent."""
    tokens, targets = text.batch(shape.batch, shape.length, seed)
    draw = torch.Generator().manual_seed(seed + 1)
    if EXPERIMENTS[name].tokens:
        return torch.stack([tokens, targets]), torch.ones(tokens.shape, dtype=dtype)
    table = torch.randn(text.VOCAB, shape.d, generator=draw, dtype=torch.float64)
    x = table[tokens].to(dtype)
    return x, torch.randn(x.shape, generator=draw, dtype=torch.float64).to(dtype)


def _weights(name: str, at: Shape, seed: int, dtype: torch.dtype) -> one_device.Weights:
    shapes = one_device.shapes(at.d, at.heads, at.kv_heads, at.d_ff, at.vocab)
    shapes |= one_device.swiglu_shapes(at.d, at.d_ff)
    wanted = EXPERIMENTS[name].weights
    return one_device.make_weights({k: shapes[k] for k in wanted}, seed, dtype)
