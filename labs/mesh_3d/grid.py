"""The section that holds every layout and every way to share out against one device, in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labs.mesh.config import Config
from labs.mesh.on_rank import on_rank
from labs.mesh_3d import jobs, parity, verdicts
from labs.mesh_3d.ask import LIMIT, Ask
from labs.ranks import Run
from labs.result import Result

SECTION = "grid"


def add(result: Result, ask: Ask, parts: Mapping[str, Callable]) -> None:
    """Train all of them on the ranks; add what came of it."""
    todo = jobs.grid(ask.ranks)
    run = ask.launch(on_rank, todo, dict(parts), ask.steps, limit=2 * LIMIT)
    take(result, todo, run, ask.steps)


def take(result: Result, todo: Sequence[Config], run: Run, steps: int) -> None:
    """Add the checks of a run of these configurations."""
    if result.run is None:
        result.run = run
    held = [parity.hold(config, at, run.values, steps) for at, config in enumerate(todo)]
    result.values[SECTION] = held
    result.checks += verdicts.checks(held, SECTION)
    result.checks.append(verdicts.first_losses(held, SECTION))
    result.notes += verdicts.tellings(held)
