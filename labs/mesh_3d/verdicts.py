"""Checks of what was held against one device: a configuration by itself, or layout by layout."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from labs.mesh.layout import Layout
from labs.mesh_3d.parity import (
    CLIPPED,
    COPIES,
    COUNTED,
    FIRST,
    GRADIENTS,
    LOSS,
    NORM,
    SAMPLES,
    WEIGHTS,
    Compared,
)
from labs.result import Check, at_most, equal

SOURCE = "one device"
_SHORT = {torch.float64: "fp64", torch.float32: "fp32"}


def checks(held: Sequence[Compared], what: str = "") -> list[Check]:
    """A check of each quantity for each layout and type: the worst of all that were held.

    what: begins their names, besides the layout's; the name of one configuration is its own.
    """
    found = []
    for layout, dtype in dict.fromkeys((one.config.layout, one.config.dtype) for one in held):
        alike = [one for one in held if (one.config.layout, one.config.dtype) == (layout, dtype)]
        single = len(alike) == 1
        begin = alike[0].config.name if single else f"{layout}, {_SHORT[dtype]}: {len(alike)} ×"
        begin = f"{what}, {begin}" if what else begin
        found += _bounded(alike, f"{begin}:" if single else begin, single)
        found += _exact(alike, f"{begin}:" if single else begin)
    return found


def _bounded(alike: Sequence[Compared], begin: str, single: bool) -> list[Check]:
    found = []
    for what in (LOSS, NORM, FIRST, GRADIENTS, CLIPPED, WEIGHTS):
        gaps = [(one, one.gap(what)) for one in alike if one.gap(what) is not None]
        if not gaps:
            continue
        one, gap = max(gaps, key=lambda pair: pair[1].used)
        told = [] if single else [_way(one)]
        told += [gap.name.partition(": ")[2]] if ":" in gap.name else []
        worst = f" (worst: {'; '.join(told)})" if told else ""
        found.append(at_most(f"{begin} {what}{worst}", gap.difference, gap.bound, "", SOURCE))
    return found


def _exact(alike: Sequence[Compared], begin: str) -> list[Check]:
    """Copies that must be the same bits, numbers that must be there, samples of each replica."""
    one = max(alike, key=lambda one: one.copies.used)
    worst = f" ({_way(one)}; {one.copies.name})" if one.copies.difference else ""
    found = [at_most(f"{begin} {COPIES}{worst}", one.copies.difference, 0.0, "", "the same bits")]
    for what, kind, right in (
        (COUNTED, "counted", "all, as often as copied"),
        (SAMPLES, "samples", "each once, a replica's alike"),
    ):
        wrong = [f"{_way(one)}: {getattr(one, kind)}" for one in alike if getattr(one, kind)]
        found.append(equal(f"{begin} {what}", wrong[0] if wrong else right, right, "", "layout"))
    return found


def _way(one: Compared) -> str:
    """The configuration's name without its layout."""
    return one.config.name.partition(", ")[2]


def tellings(held: Sequence[Compared]) -> list[str]:
    """What the faults look like, configuration by configuration."""
    return [f"{one.config.name}: {told}" for one in held for told in one.telling]


def first_losses(held: Sequence[Compared], what: str) -> Check:
    """Before anything is trained all layouts have one loss: their weights are cut from one model.

    Drawn rank by rank they would differ, and so would any two layouts, by far more than rounding.
    """
    exact = [one for one in held if one.config.dtype == torch.float64]
    groups: dict[tuple, list[float]] = {}
    for one in exact:
        same = (one.config.model, one.config.batch, one.config.dropout)
        groups.setdefault(same, []).append(one.first_loss)
    spread = max(max(losses) - min(losses) for losses in groups.values())
    largest = max(max(losses) for losses in groups.values())
    layouts = len({one.config.layout for one in exact})
    seed = exact[0].config.seed
    return at_most(
        f"{what}: loss of the first step, {layouts} layouts, seed {seed}", spread, 1e-12 * largest,
        "", "the same weights, cut",
    )  # fmt: skip


def groups(layout: Layout, by_rank: Sequence[dict]) -> list[Check]:
    """The process groups that the ranks are in, beside rank = (dp·PP + pp)·TP + tp.

    The ranks of a tensor-parallel group are neighbours, so that they share a node.
    """
    tp, pp, n = layout.tp, layout.pp * layout.cp, layout.ranks
    starts = {  # first ranks of the groups, and how far apart the ranks in one are
        "tp": ([i for i in range(n) if i % tp == 0], 1, tp),
        "pp": ([i for i in range(n) if i // tp // layout.cp % layout.pp == 0], tp * layout.cp,
               layout.pp),
        "dp": ([i for i in range(n) if i // (tp * pp) == 0], tp * pp, layout.dp),
    }  # fmt: skip
    found = []
    for axis, (firsts, stride, size) in starts.items():
        if size == 1:
            continue
        seen = sorted({tuple(one["groups"][axis]) for one in by_rank})
        right = sorted(tuple(first + stride * i for i in range(size)) for first in firsts)
        found.append(
            equal(f"{layout}: {axis} groups", _told(seen), _told(right), "ranks",
                  "rank = (dp·PP + pp)·TP + tp")
        )  # fmt: skip
    return found


def _told(groups: Sequence[Sequence[int]]) -> str:
    return " ".join(str(list(group)) for group in groups)
