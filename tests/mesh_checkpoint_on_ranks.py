"""Saves and loads on ranks, right ones and wrong ones. Used by test_mesh_checkpoint.py."""

from __future__ import annotations

import contextlib
import errno
import gc
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from unittest import mock

import torch
import torch.distributed as dist

from labs import ranks
from labs.data_parallel.zero3 import ShardedUnit
from labs.mesh import checkpoint, groups
from labs.mesh.checkpoint import planners, state
from labs.mesh.config import Config
from labs.mesh.held import Held
from labs.mesh.layout import Layout
from labs.mesh.trainer import Trainer

Parts = Mapping[str, Callable]


class Meshes:
    """One mesh a layout: making one costs as much as many steps."""

    def __init__(self) -> None:
        self._made: dict[Layout, groups.Mesh | None] = {}

    def of(self, config: Config) -> groups.Mesh | None:
        if config.layout not in self._made:
            self._made[config.layout] = groups.make(config.layout)
        return self._made[config.layout]

    def trainer(self, config: Config, parts: Parts) -> Trainer | None:
        mesh = self.of(config)
        return None if mesh is None else Trainer(config, mesh, parts)


def saves(jobs: list[tuple], parts: Parts) -> list[dict | None]:
    """Each job (configuration, folder, steps before, steps after, fault or None, mutant's name).

    losses: of all steps; peak: bytes that the save took; refused: what it said; sums: of the state
    in the end.
    """
    torch.set_num_threads(1)
    meshes, found = Meshes(), []
    for config, folder, before, after, wrong in jobs:
        trainer = meshes.trainer(config, parts)
        if trainer is None:
            found.append(None)
            continue
        told = dict(losses=[trainer.step(n).loss for n in range(before)], refused="")
        with WRONG[wrong](), ranks.allocations("save") as seen:
            try:
                told["folder"] = checkpoint.save(trainer, folder, before).name
            except (ValueError, OSError, checkpoint.NotSaved) as error:
                told["refused"] = f"{type(error).__name__}: {error}"
        told["peak"] = seen.peak_bytes
        told["losses"] += [trainer.step(before + n).loss for n in range(after)]
        told["sums"] = sums(trainer)
        found.append(told)
        del trainer
        gc.collect()
    return found


def loads(jobs: list[tuple], parts: Parts) -> list[dict | None]:
    """Each job (configuration, folder, steps, mutant's name).

    step, losses, sums; refused: what it said instead; changed: whether anything of the trainer was.
    """
    torch.set_num_threads(1)
    meshes, found = Meshes(), []
    for config, folder, steps, wrong in jobs:
        trainer = meshes.trainer(config, parts)
        if trainer is None:
            found.append(None)
            continue
        if config.zero == 3:
            trainer.sharding.whole_weights()  # gathered before the load, so of the past after it
        before = [one.tensor.clone() for one in state.kept(trainer)]
        told = dict(refused="", losses=[])
        with WRONG[wrong]():
            try:
                told["step"] = checkpoint.load(trainer, folder)
            except (ValueError, OSError, checkpoint.NotLoaded) as error:
                told["refused"] = f"{type(error).__name__}: {error}"
        after = [one.tensor for one in state.kept(trainer)]
        same = all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        told["changed"] = not same or state.updates(trainer) > 0
        if not told["refused"]:
            told["padding"] = padding(trainer)
            told["losses"] = [trainer.step(told["step"] + n).loss for n in range(steps)]
            told["sums"] = sums(trainer)
        found.append(told)
        del trainer, before, after
        gc.collect()
    return found


def sums(trainer: Trainer) -> dict[str, float]:
    """Of all weights, m, v and masters on this rank: the same bits give the same sum."""
    found: dict[str, float] = {}
    for one in state.kept(trainer):
        found[one.key] = found.get(one.key, 0.0) + one.tensor.double().sum().item()
    return found


def padding(trainer: Trainer) -> float:
    """The largest number past the vocabulary in this rank's weights and moments; 0 for none."""
    most = 0.0
    for one in state.kept(trainer):
        for piece in one.flat.pieces(None if one.whole else one.rank):
            held = piece.parameter.held
            if held.padded > len(held.kept):
                start = len(held.kept) * (held.shape[1] if len(held.shape) > 1 else 1)
                past = piece.of(one.tensor)[max(0, start - piece.first) :]
                most = max(most, past.abs().max().item() if len(past) else 0.0)
    return most


# What is wrong, for the length of a call. Each is a slip that has been made.


def _moments_left_out() -> contextlib.AbstractContextManager:
    return mock.patch.object(state, "MOMENTS", ())


@contextlib.contextmanager
def _step_count_lost() -> Iterator[None]:
    place = state.Wanted.place
    with mock.patch.object(state.Wanted, "place", lambda self, _: place(self, 0)):
        yield


@contextlib.contextmanager
def _other_shard() -> Iterator[None]:
    """Tensor-parallel shards put together in the order of ranks turned round."""
    of_run = state.of_run

    def turned(held: Held, first: int, end: int) -> list:
        if not held.whole and len(held.runs) == 1 and held.padded == len(held.kept):
            (low, high), size = held.runs[0], held.shape[held.dim]
            held = replace(held, runs=((size - high, size - low),))
        return of_run(held, first, end)

    with mock.patch.object(state, "of_run", turned):
        yield


@contextlib.contextmanager
def _first_shard_everywhere() -> Iterator[None]:
    """As many numbers as there should be, but the first rank's again, and not the others'."""
    of_run = state.of_run

    def first(held: Held, start: int, end: int) -> list:
        if held.runs != ((0, held.shape[held.dim]),) and len(held.runs) == 1:
            held = replace(held, runs=((0, held.padded),))
        return of_run(held, start, end)

    with mock.patch.object(state, "of_run", first):
        yield


@contextlib.contextmanager
def _gathered_ones_stay() -> Iterator[None]:
    """Weights that ZeRO-3 had gathered before are taken for what was loaded."""
    with mock.patch.object(ShardedUnit, "let_go", lambda self: None):
        yield


@contextlib.contextmanager
def _master_lost() -> Iterator[None]:
    """The master made from the bf16 weights, as where only the model's weights are stored."""
    place = state.Wanted.place

    def without(self: state.Wanted, updates: int) -> None:
        place(self, updates)
        for one, _ in self.rooms:
            if one.key == state.WEIGHTS:
                one.updated.master.copy_(one.share)

    with mock.patch.object(state.Wanted, "place", without):
        yield


def _copies_written() -> contextlib.AbstractContextManager:
    return mock.patch.object(state, "_own", lambda _, piece: [piece])


@contextlib.contextmanager
def _copies_written_unseen() -> Iterator[None]:
    with _copies_written(), mock.patch.object(planners, "once", lambda _: None):
        yield


@contextlib.contextmanager
def _gathered() -> Iterator[None]:
    """All of it on rank 0, which writes it alone."""
    written = state.written

    def all_on_rank_0(trainer: Trainer) -> dict:
        everyone = [None] * trainer.mesh.layout.ranks
        mine = written(trainer)
        for part in mine.values():
            part.rectangles = [(at, view.clone()) for at, view in part.rectangles]
        dist.all_gather_object(everyone, mine, group=trainer.mesh.whole)
        if trainer.mesh.rank:
            return {}
        found: dict = {}
        for one in everyone:
            for name, part in one.items():
                room = found.setdefault(name, replace(part, rectangles=[]))
                room.rectangles += part.rectangles
        return found

    with mock.patch.object(state, "written", all_on_rank_0):
        yield


@contextlib.contextmanager
def _no_room_on_rank_3() -> Iterator[None]:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if dist.get_rank() == 3:
        with mock.patch.object(torch, "save", full):
            yield
    else:
        yield


def _small_disk() -> contextlib.AbstractContextManager:
    usage = namedtuple("usage", "free")(1000)
    return mock.patch.object(planners.shutil, "disk_usage", lambda _: usage)


WRONG: dict[str | None, Callable[[], contextlib.AbstractContextManager]] = {
    None: contextlib.nullcontext,
    "moments left out": _moments_left_out,
    "step count lost": _step_count_lost,
    "other shard": _other_shard,
    "first shard everywhere": _first_shard_everywhere,
    "gathered ones stay": _gathered_ones_stay,
    "master lost": _master_lost,
    "copies written": _copies_written,
    "copies written unseen": _copies_written_unseen,
    "gathered": _gathered,
    "no room on rank 3": _no_room_on_rank_3,
    "small disk": _small_disk,
}
