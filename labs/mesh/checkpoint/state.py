"""The training state of one rank: which of it the rank writes, and where what is loaded goes.

Weights and the optimizer's m and v, and the master copy under mixed precision, are tensors (n,) of
parameters end to end, whole or a share along dp. Stored names are "weights.blocks.0.mlp.up.weight",
"exp_avg.…", "exp_avg_sq.…", "master.…"; the step count is one number for all, and no tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from labs.data_parallel.adamw import Updated
from labs.data_parallel.flat import Flat, Piece
from labs.data_parallel.zero1 import WholeGradients
from labs.data_parallel.zero3 import ShardedWeights
from labs.mesh.checkpoint.rectangles import Rectangle, of_run

if TYPE_CHECKING:
    from labs.mesh.trainer import Trainer

WEIGHTS, MASTER = "weights", "master"
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Kept:
    """A tensor (n,) of the state: parameters of `flat` end to end, all of them or one share.

    key: its kind; rank: of the group that `flat` is shared out over
    """

    key: str
    tensor: torch.Tensor
    flat: Flat
    rank: int
    whole: bool
    updated: Updated

    @property
    def share(self) -> torch.Tensor:
        """This rank's share, a view."""
        return self.tensor.chunk(self.flat.ranks)[self.rank] if self.whole else self.tensor


@dataclass
class Part:
    """What of one stored tensor is here: its whole shape, and rectangles with a view of each."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    rectangles: list[tuple[Rectangle, torch.Tensor]]


def kept(trainer: Trainer) -> list[Kept]:
    """Every tensor of the state on this rank."""
    sharding, found = trainer.sharding, []
    if isinstance(sharding, WholeGradients):
        all_state = sharding.zero1 is None
        place = (sharding.flat, sharding.rank)
        found.append((sharding.weights, *place, True, all_state, sharding.optimizer))
    else:
        for unit, updated in zip(sharding.units, sharding.optimizers, strict=True):
            whole = not isinstance(sharding, ShardedWeights)
            weights = unit.weights if whole else unit.mine
            found.append((weights, unit.flat, unit.rank, whole, False, updated))
    return [one for given in found for one in _of_unit(*given)]


def _of_unit(
    weights: torch.Tensor, flat: Flat, rank: int, whole: bool, all_state: bool, updated: Updated
) -> Iterator[Kept]:
    one = Kept(WEIGHTS, weights, flat, rank, whole, updated)
    yield one
    state, like = updated.state, weights if all_state else one.share
    for key in (*MOMENTS, *([MASTER] if updated.mixed else [])):
        # Before the first update AdamW has no moments; they count as zeros.
        tensor = state.get(key)
        tensor = torch.zeros_like(like, dtype=updated.dtype) if tensor is None else tensor
        yield Kept(key, tensor, flat, rank, all_state, updated)


def written(trainer: Trainer) -> dict[str, Part]:
    """What this rank writes, by stored name: of each number of the model one copy is written.

    Along dp each rank writes its share, also where it holds all. Where n ranks besides hold the
    same parameter, each writes an n-th of it: tensor-parallel ranks of what is not cut, first and
    last stage of a tied weight.
    """
    found: dict[str, Part] = {}
    for one in kept(trainer):
        for piece in one.flat.pieces(one.rank):
            for own in _own(trainer, piece):
                _add(found, one, own, one.share)
    return found


def _own(trainer: Trainer, piece: Piece) -> Iterator[Piece]:
    """What of a piece this rank writes, which may be nothing.

    Holders of the same parameter take turns over its elements, and know so without asking: first
    and last stage need not have cut it at the same places. Theirs are as many turns as there are
    shares along dp, so that none of these is written by one stage alone.
    """
    mesh, size = trainer.mesh, piece.parameter.numel()
    mine, holders, turns = 0, 1, 1
    if piece.parameter is trainer.tied:
        mine, holders, turns = int(not mesh.first), 2, mesh.layout.dp * mesh.layout.cp
    elif piece.parameter.held.whole:
        mine, holders = mesh.at["tp"], mesh.layout.tp
    parts = holders * turns
    for part in range(mine, parts, holders):
        first = max(piece.first, part * size // parts)
        end = min(piece.end, (part + 1) * size // parts)
        if first < end:
            yield Piece(piece.parameter, first, end, piece.at + first - piece.first)


@dataclass(frozen=True)
class Wanted:
    """Room for what a rank loads. `place` puts all of it where training goes on from."""

    parts: dict[str, Part]
    rooms: list[tuple[Kept, torch.Tensor]]
    trainer: Trainer

    def place(self, updates: int) -> None:
        """Put what was loaded in place; `updates`: the steps that AdamW has done."""
        moments: dict[int, tuple[Updated, dict[str, torch.Tensor]]] = {}
        for one, room in self.rooms:
            if one.key == WEIGHTS:
                one.tensor.copy_(room)
            else:
                moments.setdefault(id(one.updated), (one.updated, {}))[1][one.key] = room
        for updated, state in moments.values():
            updated.restore(updates, state)
        if isinstance(self.trainer.sharding, ShardedWeights):
            for unit in self.trainer.sharding.units:
                unit.let_go()  # what was gathered before is of the past


def wanted(trainer: Trainer) -> Wanted:
    """What this rank needs of a checkpoint, with room for it: nothing of the trainer is touched.

    All that it holds, copies too; padding stays zero.
    """
    found: dict[str, Part] = {}
    rooms = []
    for one in kept(trainer):
        room = torch.zeros_like(one.tensor)
        rooms.append((one, room))
        for piece in one.flat.pieces(None if one.whole else one.rank):
            _add(found, one, piece, room)
    return Wanted(found, rooms, trainer)


def _add(found: dict[str, Part], one: Kept, piece: Piece, tensor: torch.Tensor) -> None:
    held = piece.parameter.held
    part = found.setdefault(f"{one.key}.{held.name}", Part(held.shape, tensor.dtype, []))
    run = piece.of(tensor)
    part.rectangles += [(r, r.of(run)) for r in of_run(held, piece.first, piece.end)]


def updates(trainer: Trainer) -> int:
    """Steps that AdamW has done."""
    return kept(trainer)[0].updated.updates
