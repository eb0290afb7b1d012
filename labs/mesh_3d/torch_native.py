"""The parity ladder: one device, by hand, and the same model and weights composed by torch's parts.

torch's fully_shard cuts weights, gradients and optimizer state, as ZeRO-3 does. In a pipeline it
sums gradients over dp once a step, after the last micro-batch; ours does so after each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from labs.mesh import needs
from labs.mesh.config import Config
from labs.mesh.torch_native.on_rank import BY_HAND, TORCH, Rung, ladder, section
from labs.mesh_3d import jobs, parity, verdicts
from labs.mesh_3d.ask import Ask
from labs.mesh_3d.parity import GRADIENTS, LOSS, NORM, WEIGHTS, Compared
from labs.ranks import Run
from labs.result import Check, Result, at_least, at_most

SECTION = TORCH


def rungs(ask: Ask) -> list[Rung]:
    """Ours as it was asked for, torch with and without resharding after the forward pass; and torch
    on the pipeline without tensor parallelism, where its plain norm answers."""
    layout = ask.layout
    found = [(BY_HAND, jobs.config(layout, ask.zero, ask.tied))]
    for reshard in (True, False) if layout.dp > 1 else (True,):
        found.append((TORCH, jobs.config(layout, 3, ask.tied, reshard)))
    pipeline = replace(layout, tp=1)
    if layout.pp > 1 and (layout.tp > 1 or ask.tied):
        found.append((TORCH, replace(jobs.config(pipeline, 3), seed=1)))
    return [(way, _as_torch_wants(config)) for way, config in found]


def _as_torch_wants(config: Config) -> Config:
    """torch's 1F1B refuses fewer micro-batches than stages."""
    m = max(config.micro_batches, config.layout.pp)
    shares = config.layout.dp * m
    return replace(config, micro_batches=m, batch=-(-config.batch // shares) * shares)


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Train each rung on the ranks; add what came of it.

    Raises RuntimeError, before anything is launched, where this torch is too old.
    """
    needs.check()
    if ask.layout.cp > 1:
        result.notes.append(f"{SECTION} left out: it has no cp, and {ask.layout} was asked for")
        return
    todo = rungs(ask)
    run = ask.launch(ladder, todo, dict(parts), ask.steps)
    take(result, todo, run, ask.steps)


def take(result: Result, todo: Sequence[Rung], run: Run, steps: int) -> None:
    """Add the checks of a run of these rungs, and the ladder."""
    result.run = run
    held = [parity.hold(config, at, run.values, steps) for at, (_, config) in enumerate(todo)]
    result.values[f"{SECTION} steps"] = steps
    result.values[SECTION] = [(way, one) for (way, _), one in zip(todo, held, strict=True)]
    for (way, _), one in zip(todo, held, strict=True):
        result.checks += verdicts.checks([one], way)
        result.notes += [f"{way}, {told}" for told in verdicts.tellings([one])]
    for at, (way, config) in enumerate(todo):
        if way == TORCH:
            _plain(result, config, [v[at] for v in run.values if v[at] is not None], steps)
    if any(way == TORCH and c.model.tied and c.layout.pp > 1 for way, c in todo):
        result.notes.append(
            "torch's pipelines know no weight that two stages share: its gradients are summed over "
            "first and last stage by a line of ours"
        )
    result.notes += traffic(todo, run, steps)


def _plain(result: Result, config: Config, told: Sequence[dict], steps: int) -> None:
    """What torch's clip_grad_norm_ makes of a stage's gradients, beside the global norm."""
    stages: dict[int, float | str] = {one["at"]["pp"]: one["plain"] for one in told}
    refused = [text for text in stages.values() if isinstance(text, str)]
    if refused:
        why = refused[0].partition(", but got DeviceMesh")[0]
        note = (
            f"torch's clip_grad_norm_ refuses the gradients of {config.layout}: “{why}”. Layers "
            "cut along tp and norms that are not cut lie on two meshes; "
            "labs/mesh/torch_native/composed.py takes their norms mesh by mesh"
        )
        if note not in result.notes:
            result.notes.append(note)
    elif config.layout.pp > 1 and not config.model.tied:
        name = f"{SECTION}, {config.layout}: torch's clip_grad_norm_ by itself"
        result.checks += plain_norms(name, [*stages.values()], _norm(config, steps))


def plain_norms(name: str, stages: Sequence[float], norm: float) -> list[Check]:
    """Each stage is told the norm of its own gradients: all too small, together right."""
    together = math.sqrt(sum(one**2 for one in stages))
    return [
        at_least(f"{name}, of the norm missing on every stage", 1 - max(stages) / norm, 0.01, "",
                 "one stage is not the model"),
        at_most(f"{name}, the stages' squares added up", abs(together - norm), 1e-12 * norm, "",
                verdicts.SOURCE),
    ]  # fmt: skip


def _norm(config: Config, steps: int) -> float:
    return parity.reference(config, steps).norms[-1]


def traffic(todo: Sequence[Rung], run: Run, steps: int) -> list[str]:
    """What a rank of the first stage calls along dp in a step."""
    told = []
    for way, config in todo:
        if config.layout.dp == 1:
            continue
        rows = run.ledger.where(section=_section(way, config), axis="dp", rank=0)
        many = steps if way == BY_HAND else steps - 1  # torch's first step is booked apart
        calls = {
            op: rows.count(op=op) // many if many else 0
            for op in ("all_gather", "reduce_scatter", "all_reduce")
        }
        words = ", ".join(f"{number} {op}" for op, number in calls.items() if number)
        if words:
            told.append(f"{way}, {config.name}: along dp {words} a step on rank 0")
    return told


def _section(way: str, config: Config) -> str:
    return config.name if way == BY_HAND else section(config)


def table(result: Result) -> str:
    """The ladder as text: what one device came to, and the largest difference of each rung."""
    rungs: list[tuple[str, Compared]] = result.values[SECTION]
    first = rungs[0][1].config
    one = parity.reference(first, result.values[f"{SECTION} steps"])
    kinds = (LOSS, NORM, GRADIENTS, WEIGHTS)
    rows = [["", "loss", "global norm", GRADIENTS, WEIGHTS]]
    rows.append(["one device", f"{one.losses[-1]:.6f}", f"{one.norms[-1]:.6f}", "", ""])
    bounds = []
    for way, held in rungs:
        if held.config.layout == first.layout:
            gaps = [held.gap(kind) for kind in kinds]
            name = f"{way}, {held.config.name.partition(', ')[2]}"
            rows.append([name, *(f"{gap.difference:.1e}" for gap in gaps)])
            bounds.append([gap.bound for gap in gaps])
    rows.append(["bound", *(f"{min(column):.1e}" for column in zip(*bounds, strict=True))])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([f"{first.layout}: largest differences from one device", *lines])
