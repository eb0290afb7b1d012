"""The tensor-parallel pair: a column-parallel layer, then a row-parallel one, and one all-reduce.

    x ── f ── column-parallel ── GELU ── row-parallel ── g ── z

`run(ranks=4)` sends the same weights and the same real text to one device and to real ranks, holds
every output and every gradient of the two against each other, and counts what was sent.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

from labs import equality, ranks, text, unanswered
from labs.answers import Missing, attempted, references
from labs.result import Result, at_least, from_dict
from labs.sections import chosen
from labs.tp_linear_pair import legality
from labs.tp_linear_pair.accounts import accounts, traffic_points
from labs.tp_linear_pair.experiments import Shape, on_rank
from labs.tp_linear_pair.jobs import SECTIONS, make_jobs, skipped
from labs.tp_linear_pair.parallel_block import PARTS
from labs.tp_linear_pair.parity import parity

TOPIC = "tp_linear_pair"
_PAIR = ("column_parallel", "row_parallel")
_NEEDS: dict[str, tuple[str, ...]] = {
    "pair": _PAIR,
    "row first": ("copy_to_ranks", "reduce_from_ranks", "row_parallel"),
    "swiglu": _PAIR,
    "attention": ("attention_heads",),
    "block": (*_PAIR, "attention_heads"),
    "vocabulary": ("copy_to_ranks", "reduce_from_ranks", "vocab_parallel_loss"),
    "torch": (),
    "traffic": (*_PAIR, "attention_heads"),
}
_STORED = Path(__file__).with_name("reference.json")
__all__ = ["SECTIONS", "Result", "Shape", "TOPIC", "command", "run"]


def command(ranks: int = 4) -> str:
    """The plain torchrun command of this lab."""
    return f"torchrun --nproc-per-node {ranks} -m labs.{TOPIC}"


def run(
    ranks: int = 4,
    *,
    only: Iterable[str] | str | None = None,
    worlds: Iterable[int] | None = None,
    mode: str | None = None,
    status: bool = True,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    batch: int = 4,
    length: int = 64,
    d: int = 64,
    heads: int = 8,
    kv_heads: int = 8,
    d_ff: int | None = None,
    vocab: int = text.VOCAB,
    **mine: Callable,
) -> Result:
    """The lab on `ranks` real ranks, and on the smaller worlds that `ranks` holds.

    only: some of SECTIONS; worlds: other worlds to hold against one device (None: 1, 2, … ranks);
    mode: "warm" or "cold"; d_ff: MLP width, 4 d by default; mine: functions of your own, by the
    name of the exercise, in place of the course's answers.

    Raises ValueError, before anything is launched, for a shape that the ranks cannot share.
    """
    shape = Shape(batch, length, d, heads, kv_heads, 4 * d if d_ff is None else d_ff, vocab)
    sections = chosen(TOPIC, SECTIONS, only)
    _check(shape, seed, dtype, mine)
    _check_world(shape, ranks)
    smaller = _worlds(ranks, worlds, shape)
    result = Result(TOPIC, dict(ranks=ranks, seed=seed, dtype=str(dtype), **shape.to_dict()))
    try:
        parts = _parts(sections, mine, result)
    except Missing as missing:
        own = any(attempted(function) for function in mine.values())
        return unanswered.told(result if own else _stored(), missing)
    begun = time.monotonic()
    out = skipped(ranks, shape)
    result.notes += [f"{name} left out: {out[name]}" for name in sections if name in out]
    for world in (*smaller, ranks):  # `ranks` last: its run is the one that the result keeps
        _one_world(result, world, world == ranks, shape, sections, parts, seed, dtype, mode, status)
    kinds = text.batch(batch, length, seed)[0].unique().numel()
    least = min(16, batch * length // 4)
    result.checks.append(
        at_least("text: different tokens in the batch", kinds, least, "", "inputs that can tell")
    )
    result.seconds = time.monotonic() - begun
    return result


def _parts(
    sections: Iterable[str], mine: dict[str, Callable], result: Result
) -> dict[str, Callable]:
    """The functions that these sections call: the learner's where attempted, else the answers."""
    needed = {name for section in sections for name in _NEEDS[section]}
    parts = references({name: TOPIC for name in PARTS if name in needed}, mine)
    given = {n: fn for n, fn in mine.items() if not fn.__module__.startswith("solutions.")}
    own = [name for name in given if parts.get(name) is given[name]]
    blank = [name for name in given if name in parts and name not in own]
    if own:
        result.notes.append(f"with your own {', '.join(own)}")
    if blank:
        result.notes.append(f"not attempted yet, so with the course's own: {', '.join(blank)}")
    return parts


def _check(shape: Shape, seed: int, dtype: torch.dtype, mine: dict[str, Callable]) -> None:
    """Refuse, in a sentence, what cannot run. Nothing has been launched yet."""
    unknown = [name for name in mine if name not in PARTS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no part of {TOPIC}; its parts are {', '.join(PARTS)}")
    for name, number in {**shape.to_dict(), "seed": seed}.items():
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"{name} must be a whole number, got {number!r}")
    for name in ("batch", "length"):
        if getattr(shape, name) < 1:
            raise ValueError(f"{name}={getattr(shape, name)} was asked for; it must be 1 or more")
    if shape.vocab < text.VOCAB:
        raise ValueError(
            f"vocab={shape.vocab} was asked for; the text has {text.VOCAB} tokens (256 bytes and "
            "an end), so it must be that or more"
        )
    if dtype not in equality.EPS:
        known = " or ".join(str(one).removeprefix("torch.") for one in equality.EPS)
        raise ValueError(f"dtype {dtype} was asked for; the lab holds {known} to a bound")


def _check_world(shape: Shape, n: int) -> None:
    ranks.place(n)
    legality.check_shape(shape.d, shape.heads, shape.kv_heads, shape.d_ff, shape.vocab, n)


def _worlds(n: int, asked: Iterable[int] | None, shape: Shape) -> list[int]:
    """The worlds besides `n`: as asked, or those of 1, 2 and 4 ranks that are smaller and legal."""
    if asked is None:
        legal = legality.legal_ranks(shape.heads, shape.kv_heads, shape.d_ff)
        return [world for world in (1, 2, 4) if world < n and world in legal]
    if not isinstance(asked, (tuple, list, set)):
        raise ValueError(f"worlds must be numbers of ranks, as (1, 2), got {asked!r}")
    for world in asked:
        _check_world(shape, world)
    return [world for world in asked if world != n]


def _stored() -> Result:
    return from_dict(json.loads(_STORED.read_text(encoding="utf-8")))


def _one_world(
    result: Result, n: int, main: bool, shape: Shape, sections: tuple[str, ...],
    parts: dict[str, Callable], seed: int, dtype: torch.dtype, mode: str | None, status: bool,
) -> None:  # fmt: skip
    """Run every job on `n` ranks, hold it against one device, add the checks."""
    jobs, wholes = make_jobs(n, main, shape, sections, seed, dtype)
    run = ranks.launch(
        on_rank, n, args=(parts, jobs), mode=mode, status=status, largest=result.params["ranks"]
    )
    result.checks += parity(jobs, wholes, run, each=main)
    result.checks += accounts(jobs, run, main)
    result.values.setdefault("traffic", []).extend(traffic_points(jobs, run))
    if main:
        result.run = run
