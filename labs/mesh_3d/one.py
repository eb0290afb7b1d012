"""The section that runs when nobody asks for more: one layout, three steps, against one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labs.mesh.config import Config
from labs.mesh.on_rank import on_rank
from labs.mesh_3d import jobs, parity, verdicts
from labs.mesh_3d.ask import Ask
from labs.ranks import Run
from labs.result import Result

SECTION = "one configuration"


def configs(ask: Ask) -> list[Config]:
    """The one that was asked for."""
    return [jobs.config(ask.layout, ask.zero, ask.tied)]


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Train it on the ranks; add what came of it."""
    todo = configs(ask)
    take(result, todo, ask.launch(on_rank, todo, dict(parts), ask.steps, True), ask.steps)


def take(result: Result, todo: Sequence[Config], run: Run, steps: int) -> None:
    """Add the checks of a run of these configurations, and what figures draw from."""
    result.run = run
    held = [parity.hold(config, at, run.values, steps) for at, config in enumerate(todo)]
    result.values[SECTION] = held
    result.checks += verdicts.checks(held)
    result.notes += verdicts.tellings(held)
    for at, config in enumerate(todo):
        told = [value[at] for value in run.values if value[at] is not None]
        result.checks += verdicts.groups(config.layout, told)
