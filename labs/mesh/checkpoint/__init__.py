"""Sharded checkpoints: each rank writes what it holds, and any layout reads what it needs of it.

    checkpoint.save(trainer, folder, step)      on every rank of the mesh: both are collective
    step = checkpoint.load(trainer, folder)     another dp, pp, tp, another ZeRO level, one device

Nothing is gathered. What is stored are rectangles of the whole model's tensors, by
torch.distributed.checkpoint: see rectangles.py, state.py and planners.py. A save that is cut off
leaves the last good one: see folders.py. One job at a time may save to a folder.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from labs import ranks
from labs.gpt import Shape
from labs.mesh.checkpoint import contents, folders, state

if TYPE_CHECKING:
    from labs.mesh.config import Config
    from labs.mesh.groups import Mesh
    from labs.mesh.trainer import Trainer

KEEP = 2
"""Checkpoints that stay after a save, the new one among them."""


class NotSaved(RuntimeError):
    """A save that did not come to its end, on all ranks. Earlier checkpoints are as they were."""


class NotLoaded(RuntimeError):
    """A checkpoint that cannot be read, on all ranks. Nothing was changed."""


def save(trainer: Trainer, folder: str | Path, step: int, keep: int = KEEP) -> Path:
    """Save the state after `step` steps; returns its folder, folder/step-000020, on every rank.

    Every rank of the mesh must call it. It returns, everywhere, when the checkpoint is complete and
    on the disk; then all but the newest `keep` are removed.

    Raises, on all ranks alike, ValueError for a step, number to keep or folder that cannot be,
    FileExistsError where this step is saved already, NotSaved where writing fails (no space, say).
    """
    from torch.distributed import checkpoint as dcp  # costs a second where it is not preloaded

    from labs.mesh.checkpoint.planners import Writes

    folders.whole(0, step=step)
    folders.whole(1, keep=keep)
    folder, mesh = folders.named_by(folder), trainer.mesh
    with ranks.section("save"):
        path = Path(_one_for_all(mesh, lambda: str(folders.begin(folder, step))))
        try:
            dcp.save(
                state.written(trainer), storage_writer=dcp.FileSystemWriter(path),
                planner=Writes(about(trainer, step)), process_group=mesh.whole,
            )  # fmt: skip
        except dcp.CheckpointException as failed:
            if mesh.rank == 0:
                shutil.rmtree(path, ignore_errors=True)
            raise NotSaved(_not_saved(folder, step, _first(failed)[1])) from None
        try:
            done = Path(_one_for_all(mesh, lambda: str(folders.finish(path))))
        except OSError as error:
            raise NotSaved(_not_saved(folder, step, _said(error))) from None
        if mesh.rank == 0:
            folders.prune(folder, keep)
    return done


def _not_saved(folder: Path, step: int, why: str) -> str:
    there = folders.complete(folder)
    last = f"the newest complete one is of step {max(there)}" if there else "there is no other"
    return f"the checkpoint of step {step} was not saved: {why}; {last}"


def load(trainer: Trainer, folder: str | Path, step: int | None = None) -> int:
    """Load the newest complete checkpoint, or that of `step`. Returns its step, on every rank.

    Every rank of the mesh must call it. The trainer may have another layout, ZeRO level and number
    of ranks than the one that saved. It is changed when all ranks have read all of their parts.

    Raises, on all ranks alike, FileNotFoundError where there is no such checkpoint, ValueError for
    one of another model or dtype, NotLoaded for one that cannot be read.
    """
    from torch.distributed import checkpoint as dcp

    from labs.mesh.checkpoint.planners import Reads

    if step is not None:
        folders.whole(0, step=step)
    folder, mesh = folders.named_by(folder), trainer.mesh
    with ranks.section("load"):
        path = Path(_one_for_all(mesh, lambda: str(folders.find(folder, step))))
        needed = state.wanted(trainer)
        planner = Reads(lambda found: _refuse(trainer.config, path.name, found))
        try:
            dcp.load(
                needed.parts, storage_reader=dcp.FileSystemReader(path), planner=planner,
                process_group=mesh.whole,
            )  # fmt: skip
        except dcp.CheckpointException as failed:
            error, told = _first(failed)
            if isinstance(error, ValueError):
                raise ValueError(str(error)) from None
            why = _one_for_all(mesh, lambda: _not_loaded(folder, path, told))
            raise NotLoaded(why) from None
        needed.place(planner.about["updates"])
    return planner.about["step"]


def _not_loaded(folder: Path, path: Path, told: str) -> str:
    """Which files of a checkpoint are damaged, and which earlier one is not. told: torch's words"""
    faults = contents.damage(path)
    more = f", and so are {len(faults) - 1} more" if len(faults) > 1 else ""
    why = f"its file {faults[0]}{more}" if faults else told
    steps = {found: step for step, found in folders.complete(folder).items()}
    earlier = [found for found in reversed(steps) if steps[found] < steps[path]]
    good = next((found for found in earlier if not contents.damage(found)), None)
    if good is not None:
        other = f"{good.name} can be read whole: load it with step={steps[good]}"
    elif earlier:
        other = "no earlier one there can be read whole"
    else:
        other = "there is no earlier one"
    return f"{path.name} cannot be read: {why}; {other}"


def about(trainer: Trainer, step: int) -> dict[str, Any]:
    """What is stored beside the tensors; see `_refuse` for what it is good for."""
    config = trainer.config
    return dict(
        step=step,
        updates=state.updates(trainer),  # AdamW corrects its bias by them
        model=_model(config.model),
        dtype=str(config.dtype),
        saved_at=config.name,
    )


def _model(shape: Shape) -> dict[str, int | bool]:
    return {**asdict(shape), "d_ff": shape.d_ff or 4 * shape.d}


def _refuse(config: Config, name: str, found: Mapping[str, Any]) -> None:
    """Raises ValueError unless a checkpoint is of the model that is trained here."""
    if not {"step", "updates", "model", "dtype"} <= set(found):
        raise ValueError(f"{name} was not saved by this course: it does not say of which model")
    here = {**_model(config.model), "dtype": str(config.dtype)}
    there = {**found["model"], "dtype": found["dtype"]}
    differ = [f"{k} {there.get(k)} there, {here[k]} here" for k in here if there.get(k) != here[k]]
    if differ:
        raise ValueError(f"{name} is a checkpoint of another model: {'; '.join(differ)}")


def _one_for_all(mesh: Mesh, work: Callable[[], str]) -> str:
    """Do it on one rank, and have its result, or its error, on all."""
    told: list[str | OSError | None] = [None]
    if mesh.rank == 0:
        try:
            told = [work()]
        except OSError as error:
            told = [error]
    dist.broadcast_object_list(told, src=0, group=mesh.whole)
    if isinstance(told[0], OSError):
        raise told[0]
    return told[0]


def _first(failed: BaseException) -> tuple[BaseException, str]:
    """The error that broke it, and the same in words, with the lowest rank that met it."""
    rank, (error, _) = min(failed.failures.items(), key=lambda pair: pair[0])
    return error, f"rank {rank}: {_said(error)}"


def _said(error: BaseException) -> str:
    """An error in a line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.strip().partition("\n")[0] or type(error).__name__
