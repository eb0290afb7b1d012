"""The 3D mesh: data, pipeline and tensor parallelism together, against one device.

    dp=2 pp=2 tp=2      replica 0                    replica 1
      stage 0        rank 0 ═ rank 1              rank 4 ═ rank 5      ═  tp: parts of each layer
      stage 1        rank 2 ═ rank 3              rank 6 ═ rank 7      ║  pp: some of the layers

`run(ranks=8)` trains one layout for three steps and holds losses, norms, gradients and weights
against one device; `run(all=True)` does so for every layout and every way to share out weights,
gradients and optimizer state, counts what is sent and held, and more: SECTIONS.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType

from labs import unanswered
from labs.answers import Missing, references
from labs.mesh import legal
from labs.mesh.layout import Layout
from labs.mesh.trainer import PARTS as _OF_A_STEP
from labs.mesh_3d import (
    fake,
    grid,
    jobs,
    nodes,
    one,
    overlap,
    peak,
    refuse,
    resume,
    state,
    straggler,
    torch_native,
    traffic,
    training,
)
from labs.mesh_3d.ask import Ask
from labs.mesh_3d.parting import Parted, watch
from labs.result import Result
from labs.sections import chosen

TOPIC = "mesh_3d"
_ROOMS: dict[str, ModuleType] = {
    room.SECTION: room for room in (
        one, grid, traffic, state, peak, torch_native, training, nodes, fake, straggler, overlap,
        resume,
    )
}  # fmt: skip
SECTIONS = tuple(_ROOMS)
ONE, GRID = one.SECTION, grid.SECTION
PARTS = {**_OF_A_STEP, "place_on_nodes": TOPIC}
"""Name of each answer that the lab is made of, and the topic where it is asked for."""
__all__ = [
    "GRID", "ONE", "PARTS", "SECTIONS", "TOPIC", "Ask", "Layout", "Parted", "Result", "bisect",
    "command", "run",
]  # fmt: skip


def command(ranks: int = 8) -> str:
    """The plain torchrun command of this lab."""
    return f"torchrun --nproc-per-node {ranks} -m labs.{TOPIC}"


def run(
    ranks: int = 8,
    *,
    layout: Layout | tuple[int, int, int] | None = None,
    only: Iterable[str] | str | None = None,
    all: bool = False,
    zero: int = 1,
    tied: bool = False,
    steps: int | None = None,
    mode: str | None = None,
    status: bool = True,
    **mine: Callable,
) -> Result:
    """The lab on `ranks` real ranks.

    layout: a Layout, or sizes (dp, pp, tp), of all the ranks (None: the evenest); only: some of
    SECTIONS (None: the first alone, or "training" where steps are given); all: every section;
    zero: 0 to 3; tied: embedding and head share a weight; steps: of training (None: 3, and where a
    section has a number of its own, that);
    mode: "warm" or "cold"; mine: functions of your own, by the name of the exercise, in place of
    the course's.

    Raises ValueError, before anything is launched, for what cannot be.
    """
    refuse.both(only, all)
    usual = ONE if steps is None else training.SECTION
    sections = SECTIONS if all else chosen(TOPIC, SECTIONS, usual if only is None else only)
    ask = refuse.asked(ranks, layout, zero, tied, steps, mode, status)
    refuse.parts(TOPIC, PARTS, mine)
    result = Result(TOPIC, dict(ranks=ranks, layout=str(ask.layout), zero=zero, tied=tied))
    if layout is None and ranks != Ask.ranks:
        plural = "rank" if ranks == 1 else "ranks"
        result.notes.append(f"{ranks} {plural}: {ask.layout} (run(layout=...) sets another)")
    try:
        parts = references(PARTS, mine)
    except Missing as missing:
        return unanswered.told(result, missing)
    begun = time.monotonic()
    for section in sections:
        room = _ROOMS[section]
        own = steps is None and getattr(room, "STEPS", None)
        room.add(result, replace(ask, steps=own) if own else ask, parts)
    result.seconds = time.monotonic() - begun
    return result


def bisect(
    ranks: int = 8,
    *,
    layout: Layout | tuple[int, int, int] | None = None,
    zero: int = 1,
    tied: bool = False,
    sequence_parallel: bool = False,
    mode: str | None = None,
    status: bool = True,
    **mine: Callable,
) -> Parted:
    """Where a step with functions of your own parts from one device: layer and direction.

    One step is watched on `ranks` ranks, point by point: activations forward, their gradients
    backward, the gradients of the parameters. Arguments as in `run`; sequence_parallel: the stream
    is split along T between the ranks of a tensor-parallel group.

    Raises ValueError, before anything is launched, for what cannot be; Missing where an answer is.
    """
    ask = refuse.asked(ranks, layout, zero, tied, None, mode, status)
    legal.flag(sequence_parallel=sequence_parallel)
    refuse.parts(TOPIC, PARTS, mine)
    parts = references(PARTS, mine)
    config = jobs.config(ask.layout, ask.zero, ask.tied)
    return watch(replace(config, sequence_parallel=sequence_parallel), parts, ask.launch)
